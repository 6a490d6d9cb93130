"""The anisotropic normal conditional of AnInfoNCE."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ident3d.conditionals.conditional import Conditional
from ident3d.conditionals.coordinate import Coordinate
from ident3d.conditionals.fisher_bingham import log_normaliser, mean_square_displacement, sample_fisher_bingham
from ident3d.conditionals.normal import Normal
from ident3d.conditionals.widths import Widths, WidthsLike, as_tensor, per_factor
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Space, Sphere, Unbounded

__all__ = ["AnisotropicNormal"]

_ANCHORS = 4096


@dataclass(frozen=True, init=False)
class AnisotropicNormal(Conditional):
    """The conditional exp(-(z_pos - z)^T Lambda (z_pos - z)) with a diagonal Lambda, without a factor 1/2.

    A large precision makes a factor content (it changes little within a pair), a small one makes it style. On a sphere
    the density is that formula, normalised on the sphere, and it is sampled exactly. On a box and on the unbounded
    space it is :class:`Normal` with sigma = 1 / sqrt(2 Lambda).

    The authors' code has a factor 1/2: its "25 and 5" are 12.5 and 2.5 here. It also samples from a thin shell around
    the sphere, which is close to this density but not equal to it.

    Reference: "InfoNCE: Identifying the Gap Between Theory and Practice" (AnInfoNCE).

    Attributes:
        precision: the diagonal of Lambda: one number, or one a factor.
    """

    name: ClassVar[str] = "anisotropic_normal"
    spaces: ClassVar[tuple[type[Space], ...]] = (Sphere, Box, Unbounded)

    precision: Widths

    def __init__(self, precision: WidthsLike) -> None:
        object.__setattr__(self, "precision", per_factor(precision, "precision"))

    @property
    def dim(self) -> int | None:
        """The number of factors that the precision is given for; None where it is one number."""
        return len(self.precision) if isinstance(self.precision, tuple) else None

    def coordinates(self, space: Space) -> tuple[Coordinate, ...]:
        """Return the law of each factor; ValueError on a sphere, where factors are not independent."""
        self.check(space)
        return super().coordinates(space) if isinstance(space, Sphere) else self._normal.coordinates(space)

    def displacement_std(self, space: Space) -> tuple[float, ...]:
        """Return the standard deviation of z_pos - z for every factor, over uniform anchors.

        On a sphere it is exact for each anchor and averaged over the same 4,096 anchors in every call, which
        leaves an error of some 0.3%.
        """
        self.check(space)
        if not isinstance(space, Sphere):
            return self._normal.displacement_std(space)
        anchors = Sphere(space.dim).uniform(_ANCHORS, torch_generator(0, "conditionals/displacement"))
        precision = self.on_unit_sphere(space, anchors.device)
        squares = mean_square_displacement(anchors, precision).mean(0)
        return tuple((space.radius * squares.sqrt()).tolist())

    @property
    def _normal(self) -> Normal:
        if isinstance(self.precision, tuple):
            return Normal([1 / math.sqrt(2 * precision) for precision in self.precision])
        return Normal(1 / math.sqrt(2 * self.precision))

    def on_unit_sphere(self, space: Sphere, device: torch.device) -> Tensor:
        """Return the diagonal (dim,) of the Lambda that does the same on the unit sphere."""
        return (as_tensor(self.precision, device) * space.radius**2).expand(space.dim)

    def sample_unchecked(self, z: Tensor, space: Space, generator: torch.Generator) -> Tensor:
        """Draw positives exactly, by rejection on a sphere; see :meth:`Conditional.sample_unchecked`."""
        if not isinstance(space, Sphere):
            return self._normal.sample_unchecked(z, space, generator)
        return sample_fisher_bingham(z / space.radius, self.on_unit_sphere(space, z.device), generator)

    def log_prob_unchecked(self, z_pos: Tensor, z: Tensor, space: Space) -> Tensor:
        """Return log densities; see :meth:`Conditional.log_prob_unchecked`."""
        if not isinstance(space, Sphere):
            return self._normal.log_prob_unchecked(z_pos, z, space)
        precision = self.on_unit_sphere(space, z.device)
        distance = (((z_pos - z) / space.radius).square() * precision).sum(-1)
        surface = (space.dim - 1) * math.log(space.radius)
        return -distance - log_normaliser(z / space.radius, precision) - surface
