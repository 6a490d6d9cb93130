"""Integrals along the rays from the origin, which turn densities of R^n into densities of directions."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["RadialIntegral", "gauss_legendre", "radial_integral"]

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
