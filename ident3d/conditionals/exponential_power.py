"""Conditionals whose density falls with a power of the distance: exp(-|z_pos - z|^p / scale^p) in every factor."""

import math
from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from ident3d.conditionals.conditional import Conditional
from ident3d.conditionals.coordinate import Coordinate
from ident3d.conditionals.projected import projected_log_density
from ident3d.conditionals.widths import Widths, as_tensor
from ident3d.spaces import Box, Space, Sphere, Unbounded

__all__ = ["ExponentialPower", "two_sided_uniform"]


class ExponentialPower(Conditional):
    """A density proportional to exp(-|z_pos - z|^p / scale^p) in every factor.

    On a box each factor is truncated to the walls and normalised there: nothing is clipped, so no mass sits on a
    wall. On the unbounded space it is the plain density. On a sphere the positive is drawn in R^dim around the anchor
    and projected radially onto the sphere, as in Table 1 of the paper; the log density is that of the projected point.

    Reference: Zimmermann et al., "Contrastive Learning Inverts the Data Generating Process", eq. 5 and section 4.1.
    """

    spaces: ClassVar[tuple[type[Space], ...]] = (Box, Unbounded, Sphere)

    @property
    @abstractmethod
    def _power(self) -> float:
        """The exponent p, 1 or larger."""

    @property
    @abstractmethod
    def _scale(self) -> Widths:
        """The scale of exp(-|x / scale|^p)."""

    @abstractmethod
    def _draw(self, left: Tensor, right: Tensor, generator: torch.Generator) -> Tensor:
        """Draw numbers in [-left, right] with a density proportional to exp(-|x|^p).

        Args:
            left: (B, dim) float64 distances to the lower wall, 0 or larger, infinite where there is none.
            right: (B, dim) float64 distances to the upper wall.
            generator: source of the randomness.

        Returns:
            (B, dim) float64; rounding may overstep a wall by an ulp.
        """

    @abstractmethod
    def _log_mass(self, left: Tensor, right: Tensor) -> Tensor:
        """Return ln of the integral of exp(-|x|^p) over [-left, right], in the shape of ``left``."""

    @property
    def dim(self) -> int | None:
        """The number of factors that the widths are given for; None where one width holds for any number of them."""
        return len(self._scale) if isinstance(self._scale, tuple) else None

    def coordinates(self, space: Space) -> tuple[Coordinate, ...]:
        """Return the law of each factor; ValueError on a sphere, where factors are not independent."""
        self.check(space)
        if isinstance(space, Sphere):
            return super().coordinates(space)
        scales = self._scale if isinstance(self._scale, tuple) else (self._scale,) * space.dim
        return tuple(Coordinate(self._power, scale) for scale in scales)

    def sample_unchecked(self, z: Tensor, space: Space, generator: torch.Generator) -> Tensor:
        """Draw positives, truncated or projected; see :meth:`Conditional.sample_unchecked`."""
        scale = as_tensor(self._scale, z.device)
        return z + scale * self._draw(*_reach(z, scale, space), generator)

    def log_prob_unchecked(self, z_pos: Tensor, z: Tensor, space: Space) -> Tensor:
        """Return log densities; see :meth:`Conditional.log_prob_unchecked`."""
        scale = as_tensor(self._scale, z.device)
        log_mass = self._log_mass(*_reach(z, scale, space)) + scale.log()
        if isinstance(space, Sphere):
            unit = projected_log_density(z_pos / space.radius, z / space.radius, scale / space.radius, self._power)
            # Scaling to the unit sphere divides dim scales by the radius, and dim - 1 lengths on the surface.
            return unit - log_mass.sum(-1) + math.log(space.radius)
        distance = ((z_pos - z) / scale).abs()
        return -(distance.pow(self._power) + log_mass).sum(-1)


def two_sided_uniform(left: Tensor, right: Tensor, generator: torch.Generator) -> Tensor:
    """Draw uniformly from the open interval (-left, right).

    Args:
        left: float64 tensor, 0 or larger.
        right: float64 tensor of the same shape.
        generator: source of the randomness.

    Returns:
        float64 tensor of that shape.
    """
    unit = torch.rand(left.shape, dtype=torch.float64, device=left.device, generator=generator)
    return unit.clamp_(min=2.0**-54) * (left + right) - left


def _reach(z: Tensor, scale: Tensor, space: Space) -> tuple[Tensor, Tensor]:
    """Return how far the walls are below and above each coordinate, in units of ``scale``; infinite without walls."""
    if isinstance(space, Box):
        return (z - space.low) / scale, (space.high - z) / scale
    far = torch.full_like(z, torch.inf)
    return far, far
