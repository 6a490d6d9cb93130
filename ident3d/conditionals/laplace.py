"""The Laplace conditional."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ident3d.conditionals.exponential_power import ExponentialPower, two_sided_uniform
from ident3d.conditionals.widths import Widths, WidthsLike, per_factor

__all__ = ["Laplace"]


@dataclass(frozen=True, init=False)
class Laplace(ExponentialPower):
    """The Laplace conditional: exp(-|z_pos - z| / scale) in every factor.

    Truncated on a box, plain on the unbounded space, projected on a sphere; see :class:`ExponentialPower`.

    Attributes:
        scale: mean absolute displacement before truncation: one number, or one a factor.
    """

    name: ClassVar[str] = "laplace"

    scale: Widths

    def __init__(self, scale: WidthsLike) -> None:
        object.__setattr__(self, "scale", per_factor(scale, "scale"))

    @property
    def _power(self) -> float:
        return 1.0

    @property
    def _scale(self) -> Widths:
        return self.scale

    def _draw(self, left: Tensor, right: Tensor, generator: torch.Generator) -> Tensor:
        mass = two_sided_uniform(-torch.expm1(-left), -torch.expm1(-right), generator)
        return -mass.sign() * torch.log1p(-mass.abs())

    def _log_mass(self, left: Tensor, right: Tensor) -> Tensor:
        return (-torch.expm1(-left) - torch.expm1(-right)).log()
