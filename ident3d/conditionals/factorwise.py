"""Conditionals whose factors are independent: one law of a displacement on the line, at one scale or several."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from jaxtyping import Float64
from torch import Tensor

from ident3d.conditionals.conditional import Conditional, Coordinate, Scales, as_tensor
from ident3d.conditionals.numerics import (
    draw_by_rejection,
    truncated,
    truncated_information,
    truncated_mean_square,
)
from ident3d.spaces import Box, Space, Unbounded

__all__ = ["FactorwiseConditional", "distance_to_walls"]


class FactorwiseConditional(Conditional):
    """A conditional whose factors are independent: z_pos - z = scale * x in each, with one law for every x.

    On a box each factor is truncated to the walls and normalised there: nothing is clipped, so no mass sits on a wall.
    On the unbounded space it is the plain law.

    A subclass is a frozen dataclass with an attribute ``scale`` (or a property :attr:`scales`), a log density and a
    sampler; that is enough for pairs, for :class:`~ident3d.Product`, for the realised conditional and for the mutual
    information. What follows from these two by rejection and quadrature may be overridden where there is a closed
    form, or where the density is not smooth::

        @dataclass(frozen=True)
        class Logistic(FactorwiseConditional):
            scale: float

            def log_density(self, x):
                return -x.abs() - 2 * torch.log1p(torch.exp(-x.abs()))

            def draw(self, n, generator):
                unit = torch.rand(n, dtype=torch.float64, device=generator.device, generator=generator)
                return torch.logit(unit.clamp(min=2.0**-54))

    On the command line, and wherever else a conditional is text, it is then ``package.module:Logistic(scale=0.1)``.
    """

    spaces: ClassVar[tuple[type[Space], ...]] = (Box, Unbounded)

    @abstractmethod
    def log_density(self, x: Float64[Tensor, "*batch"]) -> Float64[Tensor, "*batch"]:
        """Return the logarithm of the density of x, up to a constant.

        Args:
            x: displacements in units of the scale.
        """

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator) -> Float64[Tensor, " {n}"]:
        """Draw n numbers x without walls, on the generator's device."""

    @property
    def scales(self) -> Scales:
        """The scale of the displacement: one number for all factors, or one for each."""
        scale: Scales = self.scale  # type: ignore[attr-defined]  # of the subclass; the class's docstring asks for it
        return scale

    @property
    def dim(self) -> int | None:
        """The number of factors that the scales are given for; None where one scale holds for any number of them."""
        return len(self.scales) if isinstance(self.scales, tuple) else None

    def draw_between(
        self, left: Float64[Tensor, "batch dim"], right: Float64[Tensor, "batch dim"], generator: torch.Generator
    ) -> Float64[Tensor, "batch dim"]:
        """Draw x between walls; here by drawing without walls until all are between theirs.

        Args:
            left: distances to the lower wall, in units of the scale, 0 or larger; infinite where
                there is none.
            right: distances to the upper wall.
            generator: source of the randomness.

        Returns:
            Numbers in [-left, right]; rounding may overstep a wall by an ulp.
        """
        low, high = -left.flatten(), right.flatten()

        def propose(rows: Tensor) -> tuple[Tensor, Tensor]:
            x = self.draw(len(rows), generator)
            return x, torch.where((x >= low[rows]) & (x <= high[rows]), 0.0, -torch.inf).to(x.dtype)

        return draw_by_rejection(low, propose, generator).view_as(left)

    def log_mass(
        self, left: Float64[Tensor, "batch dim"], right: Float64[Tensor, "batch dim"]
    ) -> Float64[Tensor, "batch dim"]:
        """Return ln of the integral of exp(log_density(x)) over [-left, right]."""
        return truncated(self.log_density, left, right).log_mass

    def mean_square(self, width: float) -> float:
        """Return the mean of x^2, over anchors that are uniform on an interval.

        Args:
            width: the interval's width, in units of the scale; infinite where there are no walls.
        """
        return truncated_mean_square(self.log_density, width)

    def information(self, width: float) -> float:
        """Return the mutual information of a factor of anchor and positive, for anchors uniform on an interval.

        Args:
            width: the interval's width, in units of the scale, finite.

        Returns:
            Nats, 0 or larger.
        """
        return truncated_information(self.log_density, width)

    def coordinates(self, space: Space) -> tuple[Coordinate, ...]:
        """Return the law of each factor, in the order of the columns."""
        self.check(space)
        scales = self.scales if isinstance(self.scales, tuple) else (self.scales,) * space.dim
        return tuple(_Scaled(self, scale) for scale in scales)

    def sample_unchecked(
        self, z: Float64[Tensor, "batch dim"], space: Space, generator: torch.Generator
    ) -> Float64[Tensor, "batch dim"]:
        """Draw positives between the walls; see :meth:`Conditional.sample_unchecked`."""
        scale = as_tensor(self.scales, z.device)
        if isinstance(space, Box):
            x = self.draw_between(*distance_to_walls(z, scale, space), generator)
        else:
            x = self.draw(z.numel(), generator).view_as(z)
        return (scale * x).add_(z)

    def log_prob_unchecked(
        self, z_pos: Float64[Tensor, "batch dim"], z: Float64[Tensor, "batch dim"], space: Space
    ) -> Float64[Tensor, " batch"]:
        """Return log densities; see :meth:`Conditional.log_prob_unchecked`."""
        scale = as_tensor(self.scales, z.device)
        log_mass = self.log_mass(*distance_to_walls(z, scale, space)) + scale.log()
        return (self.log_density((z_pos - z) / scale) - log_mass).sum(-1)


def distance_to_walls(z: Tensor, scale: Tensor, space: Space) -> tuple[Tensor, Tensor]:
    """Return how far the walls are below and above each coordinate, in units of ``scale``; infinite without walls."""
    if isinstance(space, Box):
        return (z - space.low) / scale, (space.high - z) / scale
    far = torch.full_like(z, torch.inf)
    return far, far


@dataclass(frozen=True)
class _Scaled(Coordinate):
    """The law of a conditional's factors at one of its scales."""

    law: FactorwiseConditional
    scale: float

    def displacement_std(self, width: float) -> float:
        return self.scale * math.sqrt(_mean_square(self.law, width / self.scale))

    def information(self, width: float) -> float:
        return _information(self.law, width / self.scale)


@lru_cache(maxsize=4096)
def _mean_square(law: FactorwiseConditional, width: float) -> float:
    return law.mean_square(width)


@lru_cache(maxsize=4096)
def _information(law: FactorwiseConditional, width: float) -> float:
    return law.information(width)
