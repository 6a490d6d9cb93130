"""The generalised normal conditional."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ident3d.conditionals.exponential_power import ExponentialPower, two_sided_uniform
from ident3d.conditionals.power_integral import power_integral
from ident3d.conditionals.rejection import draw_by_rejection
from ident3d.conditionals.widths import Widths, WidthsLike, per_factor, positive

__all__ = ["GeneralizedNormal"]


@dataclass(frozen=True, init=False)
class GeneralizedNormal(ExponentialPower):
    """The generalised normal conditional: exp(-|z_pos - z|^p / scale^p) in every factor.

    ``p`` = 1 is :class:`~ident3d.Laplace` with the same scale, ``p`` = 2 is :class:`~ident3d.Normal` with
    sigma = scale / sqrt(2). Truncated on a box, plain on the unbounded space, projected on a sphere;
    see :class:`ExponentialPower`.

    Attributes:
        p: the exponent, 1 or larger, as the theory asks: |x|^p is a power of a metric.
        scale: where the density has fallen by the factor e: one number, or one a factor.
    """

    name: ClassVar[str] = "generalized_normal"

    p: float
    scale: Widths

    def __init__(self, p: float, scale: WidthsLike) -> None:
        exponent = positive(p, "p")
        if exponent < 1:
            raise ValueError(f"p must be 1 or larger, not {exponent}: below 1, |x|^p is no power of a metric")
        object.__setattr__(self, "p", exponent)
        object.__setattr__(self, "scale", per_factor(scale, "scale"))

    @property
    def _power(self) -> float:
        return self.p

    @property
    def _scale(self) -> Widths:
        return self.scale

    def _draw(self, left: Tensor, right: Tensor, generator: torch.Generator) -> Tensor:
        left_mass, right_mass = self._envelope_mass(left).flatten(), self._envelope_mass(right).flatten()
        drawn = draw_by_rejection(
            left_mass, lambda rows: self._propose(left_mass[rows], right_mass[rows], generator), generator
        )
        return drawn.view_as(left)

    def _propose(self, left: Tensor, right: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw from an envelope of exp(-|x|^p) with given masses up to the walls; return draws, ln(density / envelope).

        The envelope is 1 up to |x| = 1 and exp(-1 - p (|x| - 1)) beyond, the tangent of a convex power. At
        least 63% of its draws are kept, whatever p and the walls.
        """
        position = two_sided_uniform(left, right, generator)
        mass = position.abs()
        beyond = (mass - 1).clamp(min=0) * (math.e * self.p)  # share of a tail's mass that lies inside the draw
        distance = torch.where(mass <= 1, mass, 1 - torch.log1p(-beyond) / self.p)
        log_envelope = -torch.where(distance <= 1, 0.0, 1 + self.p * (distance - 1))
        return distance * position.sign(), -distance.pow(self.p) - log_envelope

    def _envelope_mass(self, wall: Tensor) -> Tensor:
        """Return the envelope's integral from 0 to ``wall``."""
        tail = -torch.expm1(-self.p * (wall - 1).clamp(min=0)) / (math.e * self.p)
        return wall.clamp(max=1) + tail

    def _log_mass(self, left: Tensor, right: Tensor) -> Tensor:
        return (power_integral(left, self.p) + power_integral(right, self.p)).log()
