"""One factor's law where factors are independent, and what is known of it in closed form or by quadrature."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from ident3d.conditionals.power_integral import power_integral

__all__ = ["Coordinate"]

_FALL = 42.0  # exp(-42) is below float64's resolution
_FLAT = 2.0**-53  # a width of the interval, in units of the scale, over which the density does not change
_OUTER_NODES = 128
_INNER_NODES = 96

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Coordinate:
    """A density proportional to exp(-|z_pos - z|^p / scale^p), truncated to an interval where the space has walls.

    Attributes:
        p: the exponent, 1 or larger.
        scale: the width, infinite for the uniform law.
    """

    p: float
    scale: float

    def displacement_std(self, width: float) -> float:
        """Return the standard deviation of z_pos - z, over anchors z that are uniform on an interval.

        Args:
            width: the interval's width; infinite where there are no walls.
        """
        if math.isinf(width):
            return self.scale * math.sqrt(math.gamma(3 / self.p) / math.gamma(1 / self.p))
        if width <= _FLAT * self.scale:
            return width / math.sqrt(6)
        return self.scale * math.sqrt(_mean_square(self.p, width / self.scale))

    def information(self, width: float) -> float:
        """Return the mutual information of z and z_pos in nats, for a z that is uniform on an interval.

        The positive is not uniform: it piles up less near the walls than elsewhere, which this takes into account.

        Args:
            width: the interval's width.
        """
        if width <= _FLAT * self.scale:
            return 0.0
        return max(0.0, _information(self.p, width / self.scale))  # a very wide conditional leaves rounding alone


@lru_cache(maxsize=4096)
def _mean_square(p: float, width: float) -> float:
    """Return the mean of (z_pos - z)^2 at scale 1: over anchors uniform on [0, width]."""
    z, weights, interior = _from_wall(p, width)
    near, far = _walls(z, p, width)
    square = (_moment(2, near, p) + _moment(2, far, p)) / (_moment(0, near, p) + _moment(0, far, p))
    plain = math.gamma(3 / p) / math.gamma(1 / p)
    return float(2 / width * (square @ weights + interior * plain))


@lru_cache(maxsize=4096)
def _information(p: float, width: float) -> float:
    """Return the mutual information at scale 1, for anchors uniform on [0, width].

    It is h(q) - E h(z), with h(z) the entropy of the positive given its anchor, which is ln Z(z) + E |z_pos - z|^p in
    closed form, and q(x) the marginal density of the positive, the mean of exp(-|x - z|^p) / Z(z) over anchors.
    """
    x, weights, interior = _from_wall(p, width)
    near, far = _walls(x, p, width)
    mass = _moment(0, near, p) + _moment(0, far, p)
    edge = near * np.exp(-(near**p)) + far * np.exp(-(far**p))
    entropy = np.log(mass) + (1 - edge / mass) / p
    density = _marginal(x, p, width)
    surprise = -width * density * np.log(density)
    plain = math.log(2 * math.gamma(1 + 1 / p)) + 1 / p
    return float(2 / width * ((surprise - entropy) @ weights + interior * (math.log(width) - plain)))


def _marginal(x: Array, p: float, width: float) -> Array:
    """Return the density of the positive at each x, for anchors uniform on [0, width]."""
    density = np.zeros_like(x)
    nodes, weights = _graded(_INNER_NODES, 3)
    for wall, side in ((x, -1.0), (width - x, 1.0)):
        reach = np.minimum(wall, _reach(p))[:, None]
        distance = reach * nodes  # (points, nodes): from the positive to the anchor
        anchor = x[:, None] + side * distance
        near, far = _walls(anchor, p, width)
        mass = _moment(0, near, p) + _moment(0, far, p)
        density += (np.exp(-(distance**p)) / mass * reach) @ weights
    return density / width


def _from_wall(p: float, width: float) -> tuple[Array, Array, float]:
    """Return nodes and weights for the part of [0, width / 2] that feels the wall at 0, and the length of the rest.

    Beyond twice the density's reach from both walls, everything is as if there were no walls.
    """
    end = min(width / 2, 2 * _reach(p))
    # The larger p is, the sharper is the bend of the density at a distance of 1 from a wall.
    bends = sorted({0.0, end, *(place for place in (1.0, width - 1) if 0 < place < end)})
    start, length = np.array(bends[:-1])[:, None], np.diff(bends)[:, None]
    nodes, weights = _graded(_OUTER_NODES, 2)
    return (start + length * nodes).ravel(), (length * weights).ravel(), width / 2 - end


def _walls(x: Array, p: float, width: float) -> tuple[Array, Array]:
    """Return the distances from x to both walls, at most so far as the density reaches."""
    return np.clip(x, 0, _reach(p)), np.clip(width - x, 0, _reach(p))


def _reach(p: float) -> float:
    return float(_FALL ** (1 / p))


def _moment(order: int, wall: Array, p: float) -> Array:
    """Return the integral of y^order exp(-y^p) from 0 to ``wall``."""
    moment: Array = power_integral(torch.from_numpy(wall), p, order).numpy()
    return moment


@lru_cache(maxsize=4)
def _graded(count: int, grade: int) -> tuple[Array, Array]:
    """Return nodes and weights over [0, 1] for functions that are rough at 0: Gauss-Legendre in x^(1 / grade)."""
    from scipy import special  # here, because nothing that is drawn needs it

    nodes, weights = special.roots_legendre(count)
    unit = (nodes + 1) / 2
    return unit**grade, grade * unit ** (grade - 1) * weights / 2
