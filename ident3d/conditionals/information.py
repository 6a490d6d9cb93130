"""The true mutual information of a positive pair's latents, which bounds what two encoders' embeddings can share.

An InfoNCE estimate with K items never exceeds ln K, and pairs matched among N stored images carry at most ln N, so an
estimate is to be reported beside its cap and beside the truth.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ident3d.conditionals import AnisotropicNormal, Conditional, Normal, Uniform, VonMisesFisher
from ident3d.conditionals.conditional import check_conditional
from ident3d.conditionals.numerics import gauss_legendre
from ident3d.conditionals.sphere import log_normaliser, mean_fall, mean_square_displacement, sample_fisher_bingham
from ident3d.conditionals.sphere import log_normaliser_von_mises_fisher as von_mises_fisher_log_normaliser
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Space, Sphere

__all__ = ["mutual_information_per_factor", "true_mutual_information"]

_ANCHORS = 4096
_MARGINAL_ANCHORS = 1024
_PARTNERS = 8
_ROWS = 256
_PANELS = 64
_NODES = 16


def true_mutual_information(conditional: Conditional, space: Space) -> float:
    """Return the mutual information of z and z_pos in nats, for anchors z that are uniform on the space.

    On a box the factors are independent and their informations add; each is a quadrature. On a sphere it is a closed
    form for :class:`VonMisesFisher`, a quadrature for :class:`Normal` with one sigma, and for
    :class:`AnisotropicNormal` an average, over anchors that are the same in every call, of what is exact for each of
    them; its standard error is below 0.001 nats at the papers' settings.

    Args:
        conditional: the distribution of the positive.
        space: a box or a sphere.

    Returns:
        Nats, 0 or larger.

    Raises:
        ValueError: if the conditional is not defined on the space, no distribution is uniform there, or the mutual
            information of this conditional is not known there.
    """
    check_conditional(conditional)
    conditional.check(space)
    if isinstance(space, Box):
        return math.fsum(mutual_information_per_factor(conditional, space))
    if isinstance(space, Sphere):
        if isinstance(conditional, Uniform):
            return 0.0
        if isinstance(conditional, VonMisesFisher):
            return _von_mises_fisher(conditional.kappa, space.dim)
        if isinstance(conditional, AnisotropicNormal):
            precision = conditional.on_unit_sphere(space, torch.device("cpu"))
            is_even = bool((precision == precision[0]).all())
            return _von_mises_fisher(2 * float(precision[0]), space.dim) if is_even else _anisotropic_normal(precision)
        if isinstance(conditional, Normal) and conditional.dim is None:
            return _isotropic(conditional, space)
        raise ValueError(
            f"the mutual information of {conditional} on {space} is not known: the marginal of the positive has no "
            "closed form there; von_mises_fisher, anisotropic_normal and a normal with one sigma have one"
        )
    raise ValueError(f"anchors cannot be uniform on {space}; use a Box or a Sphere")


def mutual_information_per_factor(conditional: Conditional, space: Box) -> tuple[float, ...]:
    """Return the mutual information of each factor's z and z_pos in nats, for anchors that are uniform on a box.

    The positives' marginal is not uniform near the walls, which is taken into account.

    Args:
        conditional: the distribution of the positive.
        space: a box, on which factors are independent.

    Returns:
        One number a factor, in the order of the columns.

    Raises:
        ValueError: if the space is no box, or the conditional does not fit it.
    """
    check_conditional(conditional)
    if not isinstance(space, Box):
        raise ValueError(f"factors are independent on a Box only, not on {space}")  # noqa: TRY004 - it is a Space
    return tuple(law.information(space.width) for law in conditional.coordinates(space))


def _von_mises_fisher(kappa: float, n: int) -> float:
    """Return kappa A + ln C + ln |S|: the positive is uniform, and A is the mean cosine."""
    return Sphere(n).log_volume - kappa * mean_fall(kappa, n) - von_mises_fisher_log_normaliser(kappa, n)


def _isotropic(conditional: Conditional, space: Sphere) -> float:
    """Integrate over the angle to the anchor: where the density depends on it alone, positives are uniform."""
    n = space.dim
    edges = torch.from_numpy(np.geomspace(1e-6, math.pi, _PANELS + 1))
    edges[0] = 0.0
    nodes, weights = gauss_legendre(_NODES, edges.device)
    half = edges.diff().unsqueeze(-1) / 2
    angle = (edges[:-1].unsqueeze(-1) + half * (1 + nodes)).flatten()
    z = torch.zeros(len(angle), n, dtype=torch.float64)
    z[:, 0] = 1.0
    z_pos = torch.zeros_like(z)
    z_pos[:, 0], z_pos[:, 1] = angle.cos(), angle.sin()
    log_density = conditional.log_prob(space.radius * z_pos, space.radius * z, space) + (n - 1) * math.log(space.radius)
    ring = math.log(2) if n == 2 else Sphere(n - 1).log_volume  # the surface at a given angle, over sin^(n-2)
    log_surface = ring + (n - 2) * angle.sin().log()
    mass = (log_surface + log_density).exp() * (half * weights).flatten()
    return float((mass * (log_density + Sphere(n).log_volume)).sum())


def _anisotropic_normal(precision: Tensor) -> float:
    """Return the entropy of the positives' marginal q less that of a positive given its anchor, on the unit sphere.

    Because the exponent is symmetric in the pair, q(z) |S| is C(z) times the mean of 1 / C(z_pos) over positives of z,
    where C is the normaliser. It is close to 1, so the entropy of q is ln |S| less a small, well estimated divergence.
    """
    sphere = Sphere(len(precision))
    generator = torch_generator(0, "mutual_information")
    z = sphere.uniform(_ANCHORS, generator)
    square = _by_rows(mean_square_displacement, z, precision)
    entropy = square @ precision + _by_rows(log_normaliser, z, precision)
    return sphere.log_volume - _control(entropy, z) - _divergence(z[:_MARGINAL_ANCHORS], precision, generator)


def _by_rows(function: Callable[[Tensor, Tensor], Tensor], z: Tensor, precision: Tensor) -> Tensor:
    """Apply a function of anchors to a few rows at a time, which stay in the processor's cache."""
    return torch.cat([function(rows, precision) for rows in torch.split(z, _ROWS)])


def _control(values: Tensor, z: Tensor) -> float:
    """Average values over anchors, less the scatter that a linear fit on the coordinates' squares explains.

    The mean of each square is known, 1 / n, and the values follow the squares closely.
    """
    squares = z[:, :-1].square() - 1 / z.shape[1]
    design = torch.cat([torch.ones_like(z[:, :1]), squares], dim=1)
    return float(torch.linalg.lstsq(design, values.unsqueeze(-1)).solution[0])


def _divergence(z: Tensor, precision: Tensor, generator: torch.Generator) -> float:
    """Estimate the divergence of the positives' marginal q from uniform: the mean of r ln r - r + 1, r = q |S|."""
    partners = sample_fisher_bingham(z.repeat_interleave(_PARTNERS, 0), precision, generator)
    log_c = _by_rows(log_normaliser, z, precision).unsqueeze(-1)
    ratios = (log_c - _by_rows(log_normaliser, partners, precision).view(-1, _PARTNERS)).exp()
    r = ratios.mean(1)
    noise = ratios.var(1) / (2 * _PARTNERS * r)  # what the scatter of r about its mean adds on average
    return max(0.0, float((r * r.log() - r + 1 - noise).mean()))
