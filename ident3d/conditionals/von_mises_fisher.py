"""The von Mises-Fisher conditional on the sphere."""

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from ident3d.conditionals.conditional import Conditional
from ident3d.conditionals.rejection import draw_by_rejection
from ident3d.conditionals.widths import positive
from ident3d.spaces import Space, Sphere

__all__ = ["VonMisesFisher", "log_normaliser", "mean_cosine", "mean_fall"]

_SMALLEST = 1e-280  # below it a scaled Bessel function has lost digits
_ASYMPTOTIC, _HANKEL_TERMS = 4, 16  # from kappa = 4 n^2 on, each term is below a sixteenth of the one before
_LARGEST = 1e9  # above it scipy's gives up, and two terms of its asymptotic series are exact to rounding


@dataclass(frozen=True, init=False)
class VonMisesFisher(Conditional):
    """The von Mises-Fisher conditional: exp(kappa cos(angle between z_pos and z)) on a sphere.

    Around each anchor it is the same, so with a uniform marginal the positives are uniform too.

    Reference: Zimmermann et al., "Contrastive Learning Inverts the Data Generating Process", eq. 2; the sampler is
    Wood, "Simulation of the von Mises-Fisher distribution", 1994, written so that a large kappa loses no digits.

    Attributes:
        kappa: the concentration, 0 (uniform) or larger. It multiplies the cosine, whatever the sphere's radius.
    """

    name: ClassVar[str] = "von_mises_fisher"
    spaces: ClassVar[tuple[type[Space], ...]] = (Sphere,)

    kappa: float

    def __init__(self, kappa: float) -> None:
        object.__setattr__(self, "kappa", positive(kappa, "kappa", or_zero=True))

    def displacement_std(self, space: Space) -> tuple[float, ...]:
        """Return the standard deviation of z_pos - z for every coordinate, over uniform anchors."""
        self.check(space)
        square = 2 * mean_fall(self.kappa, space.dim) / space.dim
        return (cast("Sphere", space).radius * math.sqrt(square),) * space.dim

    def sample_unchecked(self, z: Tensor, space: Space, generator: torch.Generator) -> Tensor:  # noqa: ARG002 - scaled later
        """Draw positives exactly, by rejection; see :meth:`Conditional.sample_unchecked`."""
        pole = torch.nn.functional.normalize(z, dim=-1)
        fall = self._one_minus_cosine(pole, generator).unsqueeze(-1)
        noise = torch.randn(z.shape, dtype=z.dtype, device=z.device, generator=generator)
        tangent = torch.nn.functional.normalize(noise - (noise * pole).sum(-1, keepdim=True) * pole, dim=-1)
        return pole - fall * pole + (fall * (2 - fall)).sqrt() * tangent

    def _one_minus_cosine(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Draw 1 - cos(angle to the anchor) for each row of z: (B,) float64. Over 60% of the proposals are kept."""
        n = z.shape[-1]
        b = (n - 1) / (2 * self.kappa + math.sqrt(4 * self.kappa**2 + (n - 1) ** 2))
        x, gap = (1 - b) / (1 + b), 2 * b / (1 + b)  # the envelope's mode, and 1 minus it
        at_mode = -self.kappa * gap + (n - 1) * math.log(4 * b / (1 + b) ** 2)

        def propose(rows: Tensor) -> tuple[Tensor, Tensor]:
            # The first coordinate of a uniform point on the sphere is 2 beta - 1, beta ~ Beta((n-1)/2, (n-1)/2).
            point = torch.randn(len(rows), n, dtype=z.dtype, device=z.device, generator=generator)
            beta = (1 + torch.nn.functional.normalize(point, dim=-1)[:, 0]) / 2
            fall = 2 * b * beta / (1 - (1 - b) * beta)
            return fall, -self.kappa * fall + (n - 1) * (gap + x * fall).log() - at_mode

        return draw_by_rejection(z[:, 0], propose, generator).clamp_(max=2)

    def log_prob_unchecked(self, z_pos: Tensor, z: Tensor, space: Space) -> Tensor:
        """Return log densities; see :meth:`Conditional.log_prob_unchecked`."""
        radius = cast("Sphere", space).radius
        fall = ((z_pos - z) / radius).square().sum(-1) / 2  # 1 - cosine, without subtracting like from like
        return -self.kappa * fall - log_normaliser(self.kappa, space.dim) - (space.dim - 1) * math.log(radius)


def log_normaliser(kappa: float, n: int) -> float:
    """Return ln of the integral of exp(kappa (cos - 1)) over the unit sphere of R^n."""
    from scipy import special  # here, because nothing that is drawn needs it

    order = n / 2 - 1
    bessel = _scaled_bessel(order, kappa)
    if kappa > 0 and bessel > _SMALLEST:
        return n / 2 * math.log(2 * math.pi) + math.log(bessel) - order * math.log(kappa)
    # Where the Bessel function vanishes, its ratio to its first term, which makes the sphere's volume, does not.
    return Sphere(n).log_volume + math.log(special.hyp0f1(n / 2, kappa**2 / 4)) - kappa


def mean_cosine(kappa: float, n: int) -> float:
    """Return the mean cosine of the angle between anchor and positive, I_(n/2)(kappa) / I_(n/2-1)(kappa)."""
    lower = _scaled_bessel(n / 2 - 1, kappa)
    if lower > _SMALLEST:
        return _scaled_bessel(n / 2, kappa) / lower
    ratio = 0.0
    for order in range(n // 2 + 200, 0, -1):  # the continued fraction of the ratio, from its tail
        ratio = kappa / (n + 2 * (order - 1) + kappa * ratio)
    return ratio


def mean_fall(kappa: float, n: int) -> float:
    """Return 1 minus :func:`mean_cosine`, to rounding also where the cosine is 1 to all its digits."""
    if kappa < _ASYMPTOTIC * n**2:
        return 1 - mean_cosine(kappa, n)
    # Hankel's series of both Bessel functions; subtracting it term by term loses nothing, for its first term is 1.
    lower, upper = n / 2 - 1, n / 2
    term, next_term, bottom, difference = 1.0, 1.0, 1.0, 0.0
    for k in range(1, _HANKEL_TERMS):
        term *= -(4 * lower**2 - (2 * k - 1) ** 2) / (8 * k * kappa)
        next_term *= -(4 * upper**2 - (2 * k - 1) ** 2) / (8 * k * kappa)
        bottom += term
        difference += term - next_term
    return difference / bottom


def _scaled_bessel(order: float, kappa: float) -> float:
    """Return exp(-kappa) I_order(kappa)."""
    from scipy import special  # here, because nothing that is drawn needs it

    if kappa > _LARGEST:
        return math.exp(-(4 * order**2 - 1) / (8 * kappa)) / math.sqrt(2 * math.pi * kappa)
    return float(special.ive(order, kappa))
