"""The density exp(-(u - z)^T Lambda (u - z)) on the unit sphere: its exact sampler and its normaliser.

On the sphere it is a Fisher-Bingham density. Adding s (1 - |u|^2) = 0 to its exponent changes nothing there, but makes
it the exponent of a normal vector x of R^n with precision 2 (Lambda + s) and mean (Lambda + s)^-1 Lambda z, whatever s
is. Both functions choose s, for each anchor, so that E |x|^2 = 1: then x already lies near the sphere. That s is the
saddlepoint of the normaliser's integral.

Reference: Kume and Wood, "Saddlepoint approximations for the Bingham and Fisher-Bingham normalising constants",
Biometrika 92, 2005 (the shift s); Kent, Ganeiban and Mardia, "A new unified approach for the simulation of a wide
class of directional distributions", 2018 (rejection with angular envelopes).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ident3d.conditionals.radial import radial_integral
from ident3d.conditionals.rejection import draw_by_rejection

__all__ = ["acceptance", "log_normaliser", "mean_square_displacement", "sample_fisher_bingham"]

_NEWTON_STEPS = 12
_CONTOUR_NODES = 64
_CONTOUR_SLOPE = 0.5  # how far the contour bends to the left, as a share of its height


def sample_fisher_bingham(z: Tensor, precision: Tensor, generator: torch.Generator) -> Tensor:
    """Draw u on the unit sphere from the density proportional to exp(-(u - z)^T Lambda (u - z)), exactly.

    Measured share of proposals kept in 10 dimensions: 0.86 for Lambda 25 and 5 in halves, 0.90 for 12.5 and 2.5, 0.91
    for 5 to 25 in equal steps, over 0.97 for equal Lambda up to 1e5, 0.74 for 1 to 100 in equal steps. It falls slowly
    with the ratio of the largest to the smallest: 0.4 at one 1000 beside nine 1, 0.007 at a ratio of 1e9.

    Args:
        z: (B, n) float64 anchors on the unit sphere.
        precision: (n,) float64, the positive diagonal of Lambda.
        generator: source of the randomness.

    Returns:
        (B, n) float64.

    Raises:
        Ident3DError: if rows are left after 100,000 rounds, which takes ratios far beyond 1e9.
    """
    envelope = _Envelope.around(z, precision)
    return draw_by_rejection(z, lambda rows: envelope.propose(rows, generator), generator)


def acceptance(z: Tensor, precision: Tensor, generator: torch.Generator) -> float:
    """Estimate the share of proposals that :func:`sample_fisher_bingham` keeps, from one proposal for each anchor."""
    rows = torch.arange(len(z), device=z.device)
    return float(_Envelope.around(z, precision).propose(rows, generator)[1].exp().mean())


@dataclass(frozen=True)
class _Envelope:
    """Proposals for the density around each anchor: directions of normal vectors.

    Proposals are directions u = x / |x| of a normal vector x with precision 2 (1 - e) (Lambda + s). With
    a = (1 - e) u^T (Lambda + s) u and c = u^T Lambda z, density over proposal is exp(-a / (1 - e) + 2 c) / I(a, c),
    where I is the integral of r^(n-1) exp(-a r^2 + 2 c r) along the ray. Its logarithm is concave in (a, c), because
    ln I is convex. Its gradient vanishes where r has mean 1 and variance e / (1 - e), so its maximum is known and the
    rejection is exact. The e of each anchor puts the maximum at that anchor's typical a.

    Attributes:
        pull: (B, n) Lambda z.
        matrix: (B, n) the diagonal of (1 - e) (Lambda + s).
        stretch: (B,) 1 / (1 - e).
        log_bound: (B,) the maximum of the logarithm of density over proposal.
    """

    pull: Tensor
    matrix: Tensor
    stretch: Tensor
    log_bound: Tensor

    @classmethod
    def around(cls, z: Tensor, precision: Tensor) -> "_Envelope":
        n = z.shape[-1]
        pull = precision * z
        typical = (pull.square() / (precision + _shift(z, precision, z.new_zeros(len(z), 1)))).sum(-1) + n / 2
        peak = typical - (n - 1) / 2  # the c of the maximum: there r has its mode at 1, and soon its mean
        for _ in range(_NEWTON_STEPS // 2):
            ray = radial_integral(typical, peak, n)
            peak = peak - (ray.mean - 1) / (2 * ray.variance)
        ray = radial_integral(typical, peak, n)
        stretch = 1 + ray.variance
        slack = (1 - 1 / stretch).unsqueeze(-1)
        matrix = (1 - slack) * (precision + _shift(z, precision, slack))
        return cls(pull, matrix, stretch, 2 * peak - typical * stretch - ray.log_value)

    def propose(self, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return a proposal (W, n) for each of the anchors ``rows`` (W,), and the log probability (W,) to keep it."""
        pull, matrix = self.pull[rows], self.matrix[rows]
        noise = torch.randn(matrix.shape, dtype=matrix.dtype, device=matrix.device, generator=generator)
        u = torch.nn.functional.normalize(pull / matrix + noise * torch.rsqrt(2 * matrix), dim=-1)
        a, c = (u.square() * matrix).sum(-1), (u * pull).sum(-1)
        log_ratio = 2 * c - a * self.stretch[rows] - radial_integral(a, c, u.shape[-1]).log_value
        return u, log_ratio - self.log_bound[rows]


def log_normaliser(z: Tensor, precision: Tensor) -> Tensor:
    """Return ln of the integral of exp(-(u - z)^T Lambda (u - z)) over the unit sphere, exact to rounding.

    Over R^n, exp(-(x - z)^T Lambda (x - z) - t (|x|^2 - 1)) integrates to the product over factors of
    sqrt(pi / (Lambda_i + t)) exp(z_i^2 t^2 / (Lambda_i + t)). That is a Laplace transform over |x|^2, and what is
    sought is twice its inverse at 1: an integral over t, taken here along a hyperbola through the saddlepoint s. On it
    the integrand falls like exp(-|t|) or faster, so that the trapezoidal rule converges exponentially.

    Args:
        z: (B, n) float64 anchors on the unit sphere.
        precision: (n,) float64, the positive diagonal of Lambda.

    Returns:
        (B,) float64.
    """
    top, _, mass = _contour(z, precision)
    total = mass.real.sum(-1)
    return top + total.log() + math.log(2 / math.pi) + z.shape[-1] / 2 * math.log(math.pi)


def mean_square_displacement(z: Tensor, precision: Tensor) -> Tensor:
    """Return E (u_i - z_i)^2 for every factor, exact to rounding: minus the gradient of :func:`log_normaliser`.

    Args:
        z: (B, n) float64 anchors on the unit sphere.
        precision: (n,) float64, the positive diagonal of Lambda.

    Returns:
        (B, n) float64.
    """
    _, contour, mass = _contour(z, precision)
    total = mass.real.sum(-1)
    squares = torch.empty_like(z)
    for level, columns in _levels(precision).items():
        inverse = (level + contour).reciprocal()
        pull = ((contour * inverse).square() * mass).real.sum(-1, keepdim=True)
        spread = (inverse * mass).real.sum(-1, keepdim=True) / 2
        squares[:, columns] = z[:, columns].square() * pull + spread
    return squares / total.unsqueeze(-1)


def _contour(z: Tensor, precision: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lay the contour of each anchor's normaliser.

    Args:
        z: (B, n) float64 anchors on the unit sphere.
        precision: (n,) float64, the positive diagonal of Lambda.

    Returns:
        The logarithm (B,) of the integrand at the saddlepoint; the nodes t (B, K) of the contour's upper half; and the
        integrand there, less that logarithm, times the rule's weights (B, K). Both complex128.
    """
    shift = _shift(z, precision, z.new_zeros(len(z), 1))
    shifted = precision + shift
    curvature = (0.5 / shifted.square() + 2 * (precision * z).square() / shifted.pow(3)).sum(-1, keepdim=True)
    width = torch.rsqrt(curvature)
    step = torch.asinh((100 + 10 * precision.max().sqrt()) / width) / _CONTOUR_NODES
    y = step * torch.arange(_CONTOUR_NODES + 1, dtype=z.dtype, device=z.device)
    contour = torch.complex(shift - _CONTOUR_SLOPE * width * (y.cosh() - 1), width * y.sinh())
    weights = step * torch.complex(width * y.cosh(), _CONTOUR_SLOPE * width * y.sinh())
    weights[:, 0] /= 2
    exponent = torch.zeros_like(contour)
    for level, columns in _levels(precision).items():
        square = z[:, columns].square().sum(-1, keepdim=True)
        moved = level + contour
        exponent += square * contour.square() / moved - moved.log() * (len(columns) / 2)
    top = exponent[:, :1].real
    return top.squeeze(-1), contour, (exponent - top).exp() * weights


def _levels(precision: Tensor) -> dict[float, list[int]]:
    """Return the columns that share each value of ``precision``: what is equal for them is computed once."""
    levels: dict[float, list[int]] = {}
    for column, level in enumerate(precision.tolist()):
        levels.setdefault(level, []).append(column)
    return levels


def _shift(z: Tensor, precision: Tensor, slack: Tensor) -> Tensor:
    """Return the s for which a normal vector with precision 2 (1 - slack) (Lambda + s) has a mean square norm of 1.

    Args:
        z: (B, n) anchors on the unit sphere.
        precision: (n,) the diagonal of Lambda.
        slack: (B, 1) e of the sampler, 0 for the saddlepoint.

    Returns:
        (B, 1), positive.
    """
    pull = (precision * z).square()
    shift = torch.zeros_like(slack)
    for _ in range(_NEWTON_STEPS):  # on 1 / E |x|^2, which is nearly linear in s and grows, so no step runs away
        envelope = (1 - slack) * (precision + shift)
        square = (0.5 / envelope + pull / envelope.square()).sum(-1, keepdim=True)
        slope = -(1 - slack) * (0.5 / envelope.square() + 2 * pull / envelope.pow(3)).sum(-1, keepdim=True)
        shift = (shift - (square - 1) * square / slope).clamp(min=0)
    return shift
