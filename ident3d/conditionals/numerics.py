"""Integrals along the rays from the origin, which turn densities of R^n into densities of directions."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ident3d.errors import Ident3DError

__all__ = ["RadialIntegral", "draw_by_rejection", "gauss_legendre", "power_integral", "radial_integral"]

_MOST_ROUNDS = 100_000


def draw_by_rejection(
    like: Tensor, propose: Callable[[Tensor], tuple[Tensor, Tensor]], generator: torch.Generator
) -> Tensor:
    """Propose for every row, keep what is accepted, and propose again for the rows that are left.

    Args:
        like: (B, ...) tensor with the shape, dtype and device of the result.
        propose: given the indices (W,) of the rows that wait, returns a proposal for each, (W, ...), and the logarithm
            (W,) of the probability that it is kept.
        generator: source of the randomness.

    Returns:
        Accepted proposals, in the shape of ``like``.

    Raises:
        Ident3DError: if rows are left after 100,000 rounds: the proposals are far from the density.
    """
    drawn = torch.empty_like(like)
    waiting = torch.arange(len(like), device=like.device)
    for _ in range(_MOST_ROUNDS):
        if not len(waiting):
            return drawn
        proposal, log_chance = propose(waiting)
        luck = torch.rand(len(waiting), dtype=log_chance.dtype, device=like.device, generator=generator)
        kept = luck.log() < log_chance
        drawn[waiting[kept]] = proposal[kept]
        waiting = waiting[~kept]
    raise Ident3DError(
        f"rejection sampling found nothing for {len(waiting)} of {len(drawn)} rows in {_MOST_ROUNDS} rounds; the "
        "conditional's widths differ too much for it: bring the largest and the smallest closer together"
    )


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


_DROP = 38.0  # the integrand is cut where it has fallen by exp(-38), below float64's resolution
_NODES = 48


class RadialIntegral(NamedTuple):
    """The integral of r^(n-1) exp(-a r^2 + 2 c r) over r > 0, and the mean and variance of r under its integrand."""

    log_value: Tensor
    mean: Tensor
    variance: Tensor


def radial_integral(a: Tensor, c: Tensor, n: int) -> RadialIntegral:
    """Integrate r^(n-1) exp(-a r^2 + 2 c r) over r > 0.

    It is the density of a normal vector of n dimensions, integrated along a ray. The integrand is log-concave with
    one mode; Gauss-Legendre quadrature between the points where it has all but vanished is exact to rounding.

    Args:
        a: (...) float64, positive.
        c: (...) float64, any sign.
        n: 2 or larger.

    Returns:
        The logarithm of the integral, and the mean and variance of r, each (...).
    """
    root = torch.sqrt(c * c + 2 * a * (n - 1))
    mode = torch.where(c > 0, (c + root) / (2 * a), (n - 1) / (root - c))  # neither form subtracts like from like
    curvature = 2 * a * mode.square()
    # With r = mode (1 + x) the log integrand falls by (n - 1) (x - ln(1 + x)) + curvature x^2 / 2; the ends below
    # bound where that reaches the cut.
    third = 2 * _DROP / 3
    upper = torch.sqrt(2 * _DROP / curvature).clamp(max=(third + math.sqrt(third**2 + 2 * _DROP * (n - 1))) / (n - 1))
    lower = -torch.sqrt(2 * _DROP / (n - 1 + curvature)).clamp(max=1.0)
    nodes, weights = gauss_legendre(_NODES, a.device)
    half = (upper - lower) / 2
    x = ((upper + lower) / 2).unsqueeze(-1) + half.unsqueeze(-1) * nodes
    fall = (n - 1) * (x - torch.log1p(x)) + curvature.unsqueeze(-1) * x.square() / 2
    mass = torch.exp(-fall) * weights
    total = mass.sum(-1)
    mean = (mass * x).sum(-1) / total
    variance = (mass * (x - mean.unsqueeze(-1)).square()).sum(-1) / total
    log_value = n * mode.log() - a * mode.square() + 2 * c * mode + (total * half).log()
    return RadialIntegral(log_value, mode * (1 + mean), mode.square() * variance)


def gauss_legendre(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the nodes and weights of Gauss-Legendre quadrature on [-1, 1], each (count,) float64 on ``device``."""
    nodes, weights = _gauss_legendre(count)
    return torch.from_numpy(nodes).to(device), torch.from_numpy(weights).to(device)


@lru_cache(maxsize=16)
def _gauss_legendre(
    count: int,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    from scipy import special  # here, because nothing that is drawn needs it

    nodes, weights = special.roots_legendre(count)
    return np.asarray(nodes, dtype=np.float64), np.asarray(weights, dtype=np.float64)
