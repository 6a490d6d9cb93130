"""The integral of y^m exp(-y^p) up to a wall, of which the truncated exponential-power laws are made."""

import math

import torch
from torch import Tensor

__all__ = ["power_integral"]

_TERMS = 18  # the series alternates, and its term k is below 1 / k!


def power_integral(wall: Tensor, p: float, order: int = 0) -> Tensor:
    """Return the integral of y^order exp(-y^p) from 0 to each wall, to rounding, however large p is.

    Up to y = 1 it is a series: there y^p may be less than any float64, while the integral is not. Beyond it is an
    incomplete gamma function.

    Args:
        wall: (...) float64, 0 or larger; infinite where there is none.
        p: the exponent, 1 or larger.
        order: m, 0 or larger.

    Returns:
        (...) float64.
    """
    shape = (order + 1) / p
    near = wall.clamp(max=1)
    power = near.pow(p)
    series, term = torch.full_like(near, 1 / (order + 1)), torch.ones_like(near)
    for k in range(1, _TERMS):
        term = -term * power / k
        series = series + term / (k * p + order + 1)
    share = torch.special.gammainc(torch.full_like(wall, shape), wall.clamp(min=1).pow(p))
    beyond = share * (math.gamma(1 + shape) / (order + 1))
    return torch.where(wall <= 1, near.pow(order + 1) * series, beyond)
