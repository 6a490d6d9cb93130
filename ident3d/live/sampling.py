"""Which place of each lamp a sub-pixel looks at, and how sub-pixels weigh in the pixel filter.

The places are the same in every image, so that an image depends on its latents alone and no noise tells two images
apart. They are a lattice whose low harmonics the pixel filter removes; on grids that none was searched for, scrambled
(0, 2)-sequences in Morton order.
"""

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from ident3d.live import kernels

__all__ = ["filter_weights", "lamp_places"]

Floats = npt.NDArray[np.float64]

_TILE = int(kernels.TILE)
# Sub-pixel (i, j) looks at (a i + b j, c i + d j) / 32 of a lamp; a, b, c, d by the grid.
_LATTICES = {2: (18, 5, 28, 14), 3: (10, 30, 30, 20), 4: (12, 26, 6, 20)}
_SHIFTS = ((0, 0), (11, 17), (21, 7))  # of the first lamp, the second and the third, and so on
_BLACKMAN_HARRIS = (0.35875, -0.48829, 0.14128, -0.01168)
_FILTER_WIDTH = 3.0  # pixels: Cycles takes its setting of 1.5 for half of it


def lamp_places(grid: int, kinds: list[int]) -> npt.NDArray[np.float32]:
    """Return the places of lamps that the sub-pixels of a tile look at.

    Args:
        grid: sub-pixels along a pixel's edge.
        kinds: the kind of each of L lamps, by the numbers of :mod:`ident3d.live.kernels`.

    Returns:
        (L, 32, 32, 2) places by lamp, row and column of the sub-pixel, modulo 32: in the square of edge 1 about the
        origin for an area, and in the unit disc for others.
    """
    unit = [_lattice(grid, lamp) if grid in _LATTICES else _scrambled(lamp) for lamp in range(len(kinds))]
    places = [u - 0.5 if kind == kernels.AREA else _disc(u) for u, kind in zip(unit, kinds, strict=True)]
    return np.asarray(np.stack(places), dtype=np.float32)


def _lattice(grid: int, lamp: int) -> Floats:
    a, b, c, d = _LATTICES[grid]
    j, i = np.mgrid[:_TILE, :_TILE]
    mirror = -1 if lamp % 2 else 1
    steps = np.stack([a * i + b * j, mirror * (c * i + d * j)], axis=-1) + _SHIFTS[lamp % len(_SHIFTS)]
    return np.asarray((steps % _TILE + 0.5) / _TILE)


def _scrambled(lamp: int) -> Floats:
    points = qmc.Sobol(2, seed=lamp).random(_TILE**2)
    row, column = np.mgrid[:_TILE, :_TILE]
    return points[_spread_bits(column) + 2 * _spread_bits(row)]


def _spread_bits(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return numbers of five bits with a 0 between every two of them: half of a place in Morton order."""
    bits = numbers[..., None] >> np.arange(5) & 1
    return np.asarray((bits << 2 * np.arange(5)).sum(axis=-1))


def _disc(unit: Floats) -> Floats:
    """Map the unit square to the unit disc, area by area and without tearing neighbours apart.

    Reference:
        Shirley and Chiu, A Low Distortion Map Between Disk and Square, Journal of Graphics Tools 2(3), 1997.
    """
    x, y = np.moveaxis(2 * unit - 1, -1, 0)
    is_wide = abs(x) > abs(y)
    radius, other = np.where(is_wide, x, y), np.where(is_wide, y, x)
    turn = np.pi / 4 * np.divide(other, radius, out=np.zeros_like(x), where=radius != 0)
    angle = np.where(is_wide, turn, np.pi / 2 - turn)
    return np.asarray(radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1))


def filter_weights(grid: int) -> Floats:
    """Return the weights of a pixel's sub-pixels along one axis.

    Args:
        grid: sub-pixels along a pixel's edge.

    Returns:
        (grid, 3): for the pixel before, the pixel itself and the pixel after; they sum to 1.
    """
    offset = (np.arange(grid)[:, None] + 0.5) / grid - 0.5 - np.array([-1, 0, 1])
    t = offset / _FILTER_WIDTH + 0.5
    weights = np.sum([a * np.cos(2 * np.pi * k * t) for k, a in enumerate(_BLACKMAN_HARRIS)], axis=0)
    return np.asarray(weights / weights.sum())
