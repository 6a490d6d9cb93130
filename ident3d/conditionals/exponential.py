"""Conditionals whose density falls with a power of the distance: exp(-|z_pos - z|^p / scale^p) in every factor."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from ident3d.conditionals.conditional import (
    CONDITIONALS,
    Conditional,
    Coordinate,
    Scales,
    ScalesLike,
    as_tensor,
    per_factor,
    positive,
)
from ident3d.conditionals.factorwise import FactorwiseConditional, distance_to_walls
from ident3d.conditionals.numerics import (
    draw_by_rejection,
    gauss_legendre,
    information_of_power,
    mean_square_of_power,
    power_integral,
    radial_integral,
    take,
)
from ident3d.spaces import Box, Space, Sphere, Unbounded

__all__ = ["ExponentialPower", "GeneralizedNormal", "Laplace", "Normal", "projected_log_density", "two_sided_uniform"]

_DROP = 40.0  # the integrand is cut where it has fallen by exp(-40)
_BISECTIONS = 60
_PANELS = 8
_NODES = 16
_NUMBERS = 2**22  # numbers held at a time, to bound the memory

_ANGLES = 64

_HALF_LOG_PI = 0.5 * math.log(math.pi)
_SQRT_2 = math.sqrt(2)


class ExponentialPower(FactorwiseConditional):
    """A density proportional to exp(-|z_pos - z|^p / scale^p) in every factor.

    On a box each factor is truncated to the walls and normalised there: nothing is clipped, so no mass sits on a
    wall. On the unbounded space it is the plain density. On a sphere the positive is drawn in R^dim around the anchor
    and projected radially onto the sphere, as in Table 1 of the paper; the log density is that of the projected point.

    Reference: Zimmermann et al., "Contrastive Learning Inverts the Data Generating Process", eq. 5 and section 4.1.
    """

    spaces: ClassVar[tuple[type[Space], ...]] = (Box, Unbounded, Sphere)

    @property
    @abstractmethod
    def power(self) -> float:
        """The exponent p, 1 or larger."""

    def log_density(self, x: Float64[Tensor, "*batch"]) -> Float64[Tensor, "*batch"]:
        """Return -|x|^p; see :meth:`FactorwiseConditional.log_density`."""
        return -x.abs().pow(self.power)

    def mean_square(self, width: float) -> float:
        """Return the mean of x^2; see :meth:`FactorwiseConditional.mean_square`."""
        return mean_square_of_power(self.power, width)

    def information(self, width: float) -> float:
        """Return the mutual information of a factor; see :meth:`FactorwiseConditional.information`."""
        return information_of_power(self.power, width)

    def coordinates(self, space: Space) -> tuple[Coordinate, ...]:
        """Return the law of each factor; ValueError on a sphere, where factors are not independent."""
        self.check(space)
        return Conditional.coordinates(self, space) if isinstance(space, Sphere) else super().coordinates(space)

    def log_prob_unchecked(
        self, z_pos: Float64[Tensor, "batch dim"], z: Float64[Tensor, "batch dim"], space: Space
    ) -> Float64[Tensor, " batch"]:
        """Return log densities; see :meth:`Conditional.log_prob_unchecked`."""
        if not isinstance(space, Sphere):
            return super().log_prob_unchecked(z_pos, z, space)
        scale = as_tensor(self.scales, z.device)
        log_mass = self.log_mass(*distance_to_walls(z, scale, space)) + scale.log()
        unit = projected_log_density(z_pos / space.radius, z / space.radius, scale / space.radius, self.power)
        # Scaling to the unit sphere divides dim scales by the radius, and dim - 1 lengths on the surface.
        return unit - log_mass.sum(-1) + math.log(space.radius)


@dataclass(frozen=True, init=False)
class Normal(ExponentialPower):
    """The normal conditional: exp(-(z_pos - z)^2 / (2 sigma^2)) in every factor.

    Truncated on a box, plain on the unbounded space, projected on a sphere; see :class:`ExponentialPower`.

    Example:
        >>> import ident3d
        >>> ident3d.Normal(0.1)
        Normal(sigma=0.1)
        >>> str(ident3d.Normal([0.1, 0.5]))  # a number per factor; the text is read by every --conditional
        'normal(sigma=[0.1, 0.5])'
        >>> [round(std, 2) for std in ident3d.Normal([0.1, 0.5]).displacement_std(ident3d.Box(2))]
        [0.1, 0.44]

    Attributes:
        sigma: standard deviation before truncation, in the latents' unit: one number, or one per factor.
    """

    sigma: Scales

    def __init__(self, sigma: ScalesLike) -> None:
        object.__setattr__(self, "sigma", per_factor(sigma, "sigma"))

    @property
    def power(self) -> float:
        """The exponent p."""
        return 2.0

    @property
    def scales(self) -> Scales:
        """sqrt(2) sigma: where the density has fallen by a factor of e."""
        if isinstance(self.sigma, tuple):
            return tuple(_SQRT_2 * sigma for sigma in self.sigma)
        return _SQRT_2 * self.sigma

    def draw_between(
        self, left: Float64[Tensor, "batch dim"], right: Float64[Tensor, "batch dim"], generator: torch.Generator
    ) -> Float64[Tensor, "batch dim"]:
        """Draw x between walls; see :meth:`FactorwiseConditional.draw_between`."""
        # erf is odd and precise near 0, so both tails and both narrow and wide walls keep their digits.
        return torch.erfinv(two_sided_uniform(torch.erf(left), torch.erf(right), generator))

    def draw(self, n: int, generator: torch.Generator) -> Float64[Tensor, " {n}"]:
        """Draw n numbers x without walls, on the generator's device."""
        return _symmetric_uniform(n, generator).erfinv_()

    def log_mass(
        self, left: Float64[Tensor, "batch dim"], right: Float64[Tensor, "batch dim"]
    ) -> Float64[Tensor, "batch dim"]:
        """Return ln of the integral of exp(-|x|^p) over [-left, right]."""
        return (torch.erf(left) + torch.erf(right)).log() + (_HALF_LOG_PI - math.log(2))

    def mutual_information(self, space: Space) -> float:
        """Return the mutual information; on a sphere it is known for one sigma."""
        self.check(space)
        if isinstance(space, Sphere) and self.dim is None:
            return _isotropic_information(self, space)
        return super().mutual_information(space)


@dataclass(frozen=True, init=False)
class Laplace(ExponentialPower):
    """The Laplace conditional: exp(-|z_pos - z| / scale) in every factor.

    Truncated on a box, plain on the unbounded space, projected on a sphere; see :class:`ExponentialPower`.

    Example:
        >>> import ident3d, torch
        >>> anchors = torch.zeros(4, 3)
        >>> ident3d.Laplace(0.2).sample(anchors, ident3d.Box(3), torch.Generator().manual_seed(0)).shape
        torch.Size([4, 3])

    Attributes:
        scale: mean absolute displacement before truncation: one number, or one per factor.
    """

    scale: Scales

    def __init__(self, scale: ScalesLike) -> None:
        object.__setattr__(self, "scale", per_factor(scale, "scale"))

    @property
    def power(self) -> float:
        """The exponent p."""
        return 1.0

    def draw(self, n: int, generator: torch.Generator) -> Float64[Tensor, " {n}"]:
        """Draw n numbers x without walls, on the generator's device."""
        return self._at(_symmetric_uniform(n, generator))

    def draw_between(
        self, left: Float64[Tensor, "batch dim"], right: Float64[Tensor, "batch dim"], generator: torch.Generator
    ) -> Float64[Tensor, "batch dim"]:
        """Draw x between walls; see :meth:`FactorwiseConditional.draw_between`."""
        return self._at(two_sided_uniform(-torch.expm1(-left), -torch.expm1(-right), generator))

    def _at(self, mass: Tensor) -> Tensor:
        """Return the x for which the given share of a side's mass is between 0 and x; both are signed like the side."""
        return mass.abs().neg_().log1p_().copysign_(mass)

    def log_mass(
        self, left: Float64[Tensor, "batch dim"], right: Float64[Tensor, "batch dim"]
    ) -> Float64[Tensor, "batch dim"]:
        """Return ln of the integral of exp(-|x|^p) over [-left, right]."""
        return (-torch.expm1(-left) - torch.expm1(-right)).log()


@dataclass(frozen=True, init=False)
class GeneralizedNormal(ExponentialPower):
    """The generalised normal conditional: exp(-|z_pos - z|^p / scale^p) in every factor.

    ``p`` = 1 is :class:`~ident3d.Laplace` with the same scale, ``p`` = 2 is :class:`~ident3d.Normal` with
    sigma = scale / sqrt(2). Truncated on a box, plain on the unbounded space, projected on a sphere;
    see :class:`ExponentialPower`.

    Example:
        >>> import ident3d, torch
        >>> z, z_pos = torch.zeros(1, 2), torch.tensor([[0.1, -0.2]])
        >>> cubic, normal = ident3d.GeneralizedNormal(3, 0.5), ident3d.GeneralizedNormal(2, 0.5)
        >>> bool(cubic.log_prob(z_pos, z, ident3d.Unbounded(2)) > normal.log_prob(z_pos, z, ident3d.Unbounded(2)))
        True

    Attributes:
        p: the exponent, 1 or larger, as the theory asks: |x|^p is a power of a metric.
        scale: where the density has fallen by a factor of e: one number, or one per factor of variation.
    """

    p: float
    scale: Scales

    def __init__(self, p: float, scale: ScalesLike) -> None:
        exponent = positive(p, "p")
        if exponent < 1:
            raise ValueError(f"p must be 1 or larger, not {exponent}: below 1, |x|^p is not a power of a metric")
        object.__setattr__(self, "p", exponent)
        object.__setattr__(self, "scale", per_factor(scale, "scale"))

    @property
    def power(self) -> float:
        """The exponent p."""
        return self.p

    def draw(self, n: int, generator: torch.Generator) -> Float64[Tensor, " {n}"]:
        """Draw n numbers x without walls, on the generator's device."""
        like = torch.empty(n, dtype=torch.float64, device=generator.device)
        reach = 1 + 1 / (math.e * self.p)  # the envelope's mass on either side

        def propose(rows: Tensor) -> tuple[Tensor, Tensor]:
            return self._bend(_symmetric_uniform(len(rows), generator, reach))

        return draw_by_rejection(like, propose, generator)

    def draw_between(
        self, left: Float64[Tensor, "batch dim"], right: Float64[Tensor, "batch dim"], generator: torch.Generator
    ) -> Float64[Tensor, "batch dim"]:
        """Draw x between walls; see :meth:`FactorwiseConditional.draw_between`."""
        left_mass, right_mass = self._envelope_mass(left).flatten(), self._envelope_mass(right).flatten()

        def propose(rows: Tensor) -> tuple[Tensor, Tensor]:
            return self._bend(two_sided_uniform(take(left_mass, rows), take(right_mass, rows), generator))

        return draw_by_rejection(left_mass, propose, generator).view_as(left)

    def _bend(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """Return draws from an envelope of exp(-|x|^p), given their signed masses; and ln(density / envelope).

        The envelope is 1 up to |x| = 1 and exp(-1 - p (|x| - 1)) beyond, the tangent of a convex power. At
        least 63% of its draws are kept, whatever p and the walls.
        """
        mass = position.abs()
        beyond = (mass - 1).clamp_(min=0).mul_(math.e * self.p)  # share of a tail's mass that is inside the draw
        distance = mass.clamp_(max=1).sub_(beyond.neg_().log1p_().div_(self.p))
        log_envelope = (distance > 1) * (distance - 1).mul_(self.p).add_(1)
        return torch.copysign(distance, position), log_envelope.sub_(distance.pow(self.p))

    def _envelope_mass(self, wall: Tensor) -> Tensor:
        """Return the envelope's integral from 0 to ``wall``."""
        tail = -torch.expm1(-self.p * (wall - 1).clamp(min=0)) / (math.e * self.p)
        return wall.clamp(max=1) + tail

    def log_mass(
        self, left: Float64[Tensor, "batch dim"], right: Float64[Tensor, "batch dim"]
    ) -> Float64[Tensor, "batch dim"]:
        """Return ln of the integral of exp(-|x|^p) over [-left, right]."""
        return (power_integral(left, self.p) + power_integral(right, self.p)).log()


def two_sided_uniform(
    left: Float64[Tensor, "*batch"], right: Float64[Tensor, "*batch"], generator: torch.Generator
) -> Float64[Tensor, "*batch"]:
    """Draw uniformly from the open interval (-left, right).

    Args:
        left: 0 or larger.
        right: 0 or larger.
        generator: source of the randomness.
    """
    unit = torch.rand(left.shape, dtype=torch.float64, device=left.device, generator=generator)
    return unit.clamp_(min=2.0**-54).mul_(left + right).sub_(left)


def _symmetric_uniform(n: int, generator: torch.Generator, reach: float = 1.0) -> Float64[Tensor, " {n}"]:
    """Draw n numbers uniformly from the open interval (-reach, reach), as two_sided_uniform does."""
    unit = torch.rand(n, dtype=torch.float64, device=generator.device, generator=generator)
    return unit.clamp_(min=2.0**-54).mul_(2 * reach).sub_(reach)


def projected_log_density(
    u: Float64[Tensor, "batch dim"], z: Float64[Tensor, "batch dim"], scale: Float64[Tensor, "*dim"], p: float
) -> Float64[Tensor, " batch"]:
    """Return ln of the integral of r^(n-1) exp(-sum |(r u - z) / scale|^p) over r > 0.

    Less the logarithm of the integral of exp(-sum |(x - z) / scale|^p) over R^n, that is the log density, with respect
    to the surface measure, of x / |x| for an x distributed as exp(-sum |(x - z) / scale|^p).

    Args:
        u: points on the unit sphere.
        z: anchors.
        scale: one scale, or one per factor.
        p: the exponent, 1 or larger, so that the integrand is log-concave.
    """
    slope, offset = u / scale, z / scale
    if p == 2:
        ray = radial_integral(slope.square().sum(-1), (slope * offset).sum(-1), u.shape[-1])
        return ray.log_value - offset.square().sum(-1)
    n = u.shape[-1]
    rows = max(1, _NUMBERS // (n * _NODES * (n + _PANELS)))
    chunks = zip(torch.split(slope, rows), torch.split(offset, rows), strict=True)
    return torch.cat([_integrate(slope_rows, offset_rows, p) for slope_rows, offset_rows in chunks])


def _integrate(slope: Tensor, offset: Tensor, p: float) -> Tensor:
    """Integrate r^(n-1) exp(-sum |slope r - offset|^p) over r > 0: (B, n) and (B, n) to logarithms (B,)."""
    mode, lower, upper = _window(slope, offset, p)
    # The integrand has a kink wherever a coordinate of the ray passes the anchor's; no panel may hold one inside.
    kinks = torch.where(slope == 0, mode.unsqueeze(-1), offset / slope)
    grid = torch.linspace(0, 1, _PANELS + 1, dtype=slope.dtype, device=slope.device)
    even = lower.unsqueeze(-1) + (upper - lower).unsqueeze(-1) * grid
    edges = torch.cat([even, torch.minimum(torch.maximum(kinks, lower.unsqueeze(-1)), upper.unsqueeze(-1))], -1)
    edges = edges.sort(-1).values
    nodes, weights = gauss_legendre(_NODES, slope.device)
    half = edges.diff(dim=-1) / 2
    r = (edges[:, :-1] + half).unsqueeze(-1) + half.unsqueeze(-1) * nodes
    log_terms = _log_integrand(r.flatten(1), slope, offset, p) + (half.unsqueeze(-1) * weights).flatten(1).log()
    return log_terms.logsumexp(-1)


def _window(slope: Tensor, offset: Tensor, p: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for each ray, the integrand's mode and the points below and above where it has vanished, each (B,)."""

    def rises(r: Tensor) -> Tensor:
        gap = r.unsqueeze(-1) * slope - offset
        fall = p * (gap.abs().pow(p - 1) * gap.sign() * slope).sum(-1)
        return (slope.shape[-1] - 1) / r > fall

    def lives(r: Tensor) -> Tensor:
        return _log_integrand(r.unsqueeze(-1), slope, offset, p).squeeze(-1) > floor

    origin, one = slope.new_zeros(len(slope)), slope.new_ones(len(slope))
    descent = _double(rises, one)
    mode = _bisect(rises, origin, descent)
    floor = _log_integrand(mode.unsqueeze(-1), slope, offset, p).squeeze(-1) - _DROP
    return mode, _bisect(lives, mode, origin), _bisect(lives, mode, _double(lives, descent))


def _double(holds: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Double ``start``, row by row, until ``holds`` no longer does."""
    end = start
    while bool((growing := holds(end)).any()):
        end = torch.where(growing, 2 * end, end)
    return end


def _bisect(holds: Callable[[Tensor], Tensor], inside: Tensor, outside: Tensor) -> Tensor:
    """Return, for each row, where ``holds`` ends between ``inside``, where it does, and ``outside``."""
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        held = holds(middle)
        inside, outside = torch.where(held, middle, inside), torch.where(held, outside, middle)
    return outside


def _log_integrand(r: Tensor, slope: Tensor, offset: Tensor, p: float) -> Tensor:
    """Return (n-1) ln r - sum |slope r - offset|^p for radii (B, K): (B, K)."""
    gaps = r.unsqueeze(-1) * slope.unsqueeze(1) - offset.unsqueeze(1)  # (rows, radii, coordinates)
    return (slope.shape[-1] - 1) * r.log() - gaps.abs().pow(p).sum(-1)


def _isotropic_information(conditional: Conditional, space: Sphere) -> float:
    """Integrate over the angle to the anchor: where the density depends on it alone, positives are uniform."""
    n = space.dim
    edges = torch.from_numpy(np.geomspace(1e-6, math.pi, _ANGLES + 1))
    edges[0] = 0.0
    nodes, weights = gauss_legendre(_NODES, edges.device)
    half = edges.diff().unsqueeze(-1) / 2
    angle = (edges[:-1].unsqueeze(-1) + half * (1 + nodes)).flatten()
    z = torch.zeros(len(angle), n, dtype=torch.float64, device=angle.device)
    z[:, 0] = 1.0
    z_pos = torch.zeros_like(z)
    z_pos[:, 0], z_pos[:, 1] = angle.cos(), angle.sin()
    log_density = conditional.log_prob(space.radius * z_pos, space.radius * z, space) + (n - 1) * math.log(space.radius)
    ring = math.log(2) if n == 2 else Sphere(n - 1).log_volume  # the surface at a given angle, over sin^(n-2)
    log_surface = ring + (n - 2) * angle.sin().log()
    mass = (log_surface + log_density).exp() * (half * weights).flatten()
    return float((mass * (log_density + Sphere(n).log_volume)).sum())


CONDITIONALS.register("normal", Normal)

CONDITIONALS.register("laplace", Laplace)

CONDITIONALS.register("generalized_normal", GeneralizedNormal)
