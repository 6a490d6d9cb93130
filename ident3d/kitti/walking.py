"""Masks of walking figures, a stand-in for KITTI Masks whose transitions are known."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ident3d.arguments import as_array, check_count
from ident3d.conditionals import Conditional, Laplace
from ident3d.kitti.archive import MASK_SIZE, Pedestrian
from ident3d.kitti.masks import MaskSequences
from ident3d.randomness import torch_generator
from ident3d.spaces import Box

__all__ = ["WALKER_CENTRES", "WALKER_HALF_WIDTHS", "WalkerPath", "draw_walkers", "walk", "walkers"]

_AREA = 0.1916
"""Area of the figure over the square of its height: the mean over the phases of a step, from masks of 1,024 pixels."""

_LEAST_HEIGHT, _MOST_HEIGHT = 26.0, 46.0
_AREAS = (_AREA * _LEAST_HEIGHT**2, _AREA * _MOST_HEIGHT**2)

WALKER_CENTRES = (32.0, 32.0, sum(_AREAS) / 2)
"""Vertical centre, horizontal centre (px) and area (px^2) at the middle of the box that a walker stays in."""

WALKER_HALF_WIDTHS = (8.0, 16.0, (_AREAS[1] - _AREAS[0]) / 2)
"""Half of the box's width along each, in the same units."""

_SHORTEST, _MEAN_LENGTH, _LONGEST = 2, 40, 400
_PHASE_PER_FRAME = 0.9  # radians of a step
_AT_ONCE = 256
_STRIDE, _SWING = 0.16, 0.12  # of the feet and the hands, in heights


class _Limb(NamedTuple):
    """All points within a radius of a line that begins in the middle of the figure; in heights from its centre.

    Attributes:
        start_down: how far below the centre the line begins.
        end_down: how far below the centre it ends.
        swing: how far the end moves to the right and to the left.
        radius: the radius.
    """

    start_down: float
    end_down: float
    swing: float
    radius: float

    def covers(
        self, down: npt.NDArray[np.float32], right: npt.NDArray[np.float32], phases: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.bool_]:
        """Return (N, H, W) whether points (N, H, 1) below and (N, 1, W) right of the centre are in it."""
        along_down = np.float32(self.end_down - self.start_down)
        along_right = (self.swing * np.sin(phases)).astype(np.float32)[:, None, None]
        from_start = down - np.float32(self.start_down)
        length = np.maximum(along_down**2 + along_right**2, np.float32(1e-12))
        share = np.clip((from_start * along_down + right * along_right) / length, 0, 1)
        distance: npt.NDArray[np.float32] = (from_start - share * along_down) ** 2 + (right - share * along_right) ** 2
        return distance <= self.radius**2


_FIGURE = (
    _Limb(-0.40, -0.40, 0.0, 0.085),  # head
    _Limb(-0.25, 0.00, 0.0, 0.105),  # trunk
    _Limb(0.02, 0.45, _STRIDE, 0.055),  # legs
    _Limb(0.02, 0.45, -_STRIDE, 0.055),
    _Limb(-0.26, 0.02, _SWING, 0.045),  # arms
    _Limb(-0.26, 0.02, -_SWING, 0.045),
)


def walkers(n: int, seed: int = 0, conditional: Conditional | None = None) -> MaskSequences:
    """Make masks of ``n`` walkers whose position and size follow a known conditional from frame to frame.

    Coordinates in the box [-1, 1]^3 begin uniformly distributed, and those of a frame are drawn from the conditional
    given those of the frame before. They map linearly to centre and area, see :data:`WALKER_CENTRES` and
    :data:`WALKER_HALF_WIDTHS`. The limbs swing at a pace of their own, which no latent tells. Lengths are geometric
    with a mean of 40 frames, 2 at least and 400 at most.

    Args:
        n: number of walkers, 1 or more.
        seed: seed, 0 or larger.
        conditional: of the coordinates, on the box; Laplace(0.05) where None, whose steps are sparse.

    Returns:
        The masks, with the latents that they were drawn from: not measured on the mask, so that they follow the
        conditional exactly.

    Raises:
        TypeError: if n or seed is not an integer.
        ValueError: if n or seed is too small, or the conditional is not defined on a box.
    """
    paths = walk(n, seed, conditional)
    return MaskSequences(Pedestrian(draw_walkers(path.latents, path.phases), path.latents) for path in paths)


class WalkerPath(NamedTuple):
    """Where a walker is in each of its T frames.

    Attributes:
        latents: (T, 3) float32: vertical and horizontal centre in pixels, and area in square pixels.
        phases: (T,) float64: phase of its step, in radians.
    """

    latents: npt.NDArray[np.float32]
    phases: npt.NDArray[np.float64]


def walk(n: int, seed: int = 0, conditional: Conditional | None = None) -> list[WalkerPath]:
    """Draw the paths of ``n`` walkers; see :func:`walkers`, which draws them as masks.

    Raises:
        TypeError: if n or seed is not an integer.
        ValueError: if n or seed is too small, or the conditional is not defined on a box.
    """
    check_count(n, "the number of walkers", 1)
    check_count(seed, "the seed", 0)
    law, box = Laplace(0.05) if conditional is None else conditional, Box(3)
    law.check(box)
    generator = torch_generator(seed, "kitti/walkers")
    lengths = _lengths(n, generator)
    phases = 2 * np.pi * torch.rand(n, dtype=torch.float64, device="cpu", generator=generator).numpy()
    frames = [box.uniform(n, generator)]
    alive = torch.arange(n, dtype=torch.int64, device="cpu")
    for step in range(1, int(lengths.max())):
        alive = alive[lengths[alive] > step]
        following = frames[-1].clone()
        following[alive] = law.sample(frames[-1][alive], box, generator)
        frames.append(following)
    coordinates = torch.stack(frames, dim=1).numpy()
    latents = (np.array(WALKER_CENTRES) + np.array(WALKER_HALF_WIDTHS) * coordinates).astype(np.float32)
    return [
        WalkerPath(latents[walker, :length], phases[walker] + _PHASE_PER_FRAME * np.arange(length))
        for walker, length in enumerate(lengths.tolist())
    ]


def draw_walkers(latents: npt.ArrayLike, phases: npt.ArrayLike, size: int = MASK_SIZE) -> npt.NDArray[np.bool_]:
    """Draw walking figures.

    Args:
        latents: (N, 3) vertical and horizontal centre in pixels of a 64x64 mask, and area in square pixels.
        phases: (N,) phases of the step, in radians.
        size: height and width of the masks; other than 64, the figure is scaled with the mask.

    Returns:
        (N, size, size) bool; a pixel is True where its centre is in the figure.

    Raises:
        ValueError: if latents and phases do not go together, are not finite, or an area is not positive.
    """
    values, turns = as_array(latents, "latents").astype(np.float64), as_array(phases, "phases").astype(np.float64)
    if values.ndim != 2 or values.shape[1] != 3 or turns.shape != values.shape[:1]:
        raise ValueError(
            f"expected latents (N, 3) and phases (N,) of walkers, not shapes {values.shape} and {turns.shape}"
        )
    if not (np.isfinite(values).all() and np.isfinite(turns).all() and (values[:, 2] > 0).all()):
        raise ValueError("expected finite latents and phases of walkers, with positive areas")
    masks = np.zeros((len(values), size, size), np.bool_)
    for start in range(0, len(values), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        masks[rows] = _drawn(values[rows], turns[rows], size)
    return masks


def _drawn(latents: npt.NDArray[np.float64], phases: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.bool_]:
    scale = size / MASK_SIZE
    heights = np.sqrt(latents[:, 2] / _AREA)
    pixels = (np.arange(size) + 0.5) / scale - 0.5
    # In heights from the centre: (N, size) each.
    down = ((pixels[None] - latents[:, :1]) / heights[:, None]).astype(np.float32)
    right = ((pixels[None] - latents[:, 1:2]) / heights[:, None]).astype(np.float32)
    masks = np.zeros((len(latents), size, size), np.bool_)
    for limb in _FIGURE:
        masks |= limb.covers(down[:, :, None], right[:, None, :], phases)
    return masks


def _lengths(n: int, generator: torch.Generator) -> torch.Tensor:
    uniform = torch.rand(n, dtype=torch.float64, device="cpu", generator=generator)
    stay = 1 - 1 / (_MEAN_LENGTH - _SHORTEST + 1)
    drawn = _SHORTEST + (uniform.log() / float(np.log(stay))).floor().long()
    return drawn.clamp(max=_LONGEST)
