"""The uniform conditional: a positive that is independent of its anchor."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float64
from torch import Tensor

from ident3d.conditionals.conditional import CONDITIONALS, Conditional, Coordinate
from ident3d.spaces import Box, Space, Sphere

__all__ = ["Uniform"]


@dataclass(frozen=True)
class _Anywhere(Coordinate):
    """A factor that is uniform between the walls, wherever the anchor's is."""

    def displacement_std(self, width: float) -> float:
        return width / math.sqrt(6)

    def information(self, width: float) -> float:  # noqa: ARG002 - the width does not matter
        return 0.0


@dataclass(frozen=True)
class Uniform(Conditional):
    """The uniform conditional: the positive is uniform on the space, wherever the anchor is.

    In a :class:`~ident3d.Product` it is for style factors that the images of a pair do not share.

    Example:
        >>> import ident3d
        >>> ident3d.Uniform().mutual_information(ident3d.Box(10))  # the images of a pair share nothing
        0.0
    """

    spaces: ClassVar[tuple[type[Space], ...]] = (Box, Sphere)

    def coordinates(self, space: Space) -> tuple[Coordinate, ...]:
        """Return the law of each factor; ValueError on a sphere, where factors are not independent."""
        self.check(space)
        if not isinstance(space, Box):
            return super().coordinates(space)
        return (_Anywhere(),) * space.dim

    def displacement_std(self, space: Space) -> tuple[float, ...]:
        """Return the standard deviation of z_pos - z for every factor, over uniform anchors."""
        if isinstance(space, Sphere):
            return (space.radius * math.sqrt(2 / space.dim),) * space.dim
        return super().displacement_std(space)

    def mutual_information(self, space: Space) -> float:
        """Return 0; see :meth:`Conditional.mutual_information`."""
        self.check(space)
        return 0.0

    def sample_unchecked(
        self, z: Float64[Tensor, "batch dim"], space: Space, generator: torch.Generator
    ) -> Float64[Tensor, "batch dim"]:
        """Draw positives anywhere in the space; see :meth:`Conditional.sample_unchecked`."""
        return space.uniform(len(z), generator).to(z.device)

    def log_prob_unchecked(
        self,
        z_pos: Float64[Tensor, "batch dim"],
        z: Float64[Tensor, "batch dim"],  # noqa: ARG002 - the anchor does not matter
        space: Space,
    ) -> Float64[Tensor, " batch"]:
        """Return the constant log density; see :meth:`Conditional.log_prob_unchecked`."""
        return z_pos.new_full((len(z_pos),), -space.log_volume)


CONDITIONALS.register("uniform", Uniform)
