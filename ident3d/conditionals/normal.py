"""The normal conditional."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ident3d.conditionals.exponential_power import ExponentialPower, two_sided_uniform
from ident3d.conditionals.widths import Widths, WidthsLike, per_factor

__all__ = ["Normal"]

_HALF_LOG_PI = 0.5 * math.log(math.pi)
_SQRT_2 = math.sqrt(2)


@dataclass(frozen=True, init=False)
class Normal(ExponentialPower):
    """The normal conditional: exp(-(z_pos - z)^2 / (2 sigma^2)) in every factor.

    Truncated on a box, plain on the unbounded space, projected on a sphere; see :class:`ExponentialPower`.

    Attributes:
        sigma: standard deviation before truncation, in the latents' unit: one number, or one a factor.
    """

    name: ClassVar[str] = "normal"

    sigma: Widths

    def __init__(self, sigma: WidthsLike) -> None:
        object.__setattr__(self, "sigma", per_factor(sigma, "sigma"))

    @property
    def _power(self) -> float:
        return 2.0

    @property
    def _scale(self) -> Widths:
        if isinstance(self.sigma, tuple):
            return tuple(_SQRT_2 * sigma for sigma in self.sigma)
        return _SQRT_2 * self.sigma

    def _draw(self, left: Tensor, right: Tensor, generator: torch.Generator) -> Tensor:
        # erf is odd and precise near 0, so both tails and both narrow and wide walls keep their digits.
        return torch.erfinv(two_sided_uniform(torch.erf(left), torch.erf(right), generator))

    def _log_mass(self, left: Tensor, right: Tensor) -> Tensor:
        return (torch.erf(left) + torch.erf(right)).log() + (_HALF_LOG_PI - math.log(2))
