"""From latents to images on a device: what a caller of the live renderer meets."""

import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
import warp as wp
from torch import Tensor

from ident3d.arguments import check_count
from ident3d.device import usable_device
from ident3d.latents import check_latents
from ident3d.live import kernels
from ident3d.live.sampling import filter_weights, lamp_places
from ident3d.live.scenes import SceneArrays, Scenes
from ident3d.live.solid import resident_solid
from ident3d.scene.scene import Material
from ident3d.scene.world import World

__all__ = ["QUALITIES", "VERSION", "LiveRenderer", "render"]

VERSION = 1
"""Version of the images: another one where the same latents make other images than before."""

QUALITIES = {"draft": 2, "standard": 3, "fine": 4}
"""The grid of sub-pixels of each quality.

PSNR at 64x64 beside grid 8, mean and minimum over 96 latents: draft 43 and 38 dB, standard 48 and 42, fine 51 and 45.
The least is where the object is next to the square lamp.
"""

_GRIDS = (2, 3, 4, 8)
_MEMORY = {"cpu": 16 << 20, "cuda": 1 << 30}  # bytes: what stays in a core's cache, and what keeps a GPU busy
_MOST_PIXELS = 2**31 - 1  # the queue counts pixels in int32


class LiveRenderer:
    """Renders the images of latents, again and again.

    The images are those of Cycles with infinitely many samples but for what the grid leaves out; with the quality
    standard they are 49 dB from reference images of 224x224. An image depends on its latents alone: it is the same
    alone and in any batch. Batches are split into parts of bounded memory.

    Args:
        resolution: width and height in pixels.
        device: "cpu", "cuda", ..., or "auto": the first CUDA device, and the CPU where there is none.
        world: what scenes latents make; None: 3DIdent.
        grid: a quality of :data:`QUALITIES`, or its number of sub-pixels along a pixel's edge: 2, 3, 4 or 8.
        memory: bytes that intermediate results may take; None: 16 MiB on the CPU, 1 GiB on a GPU. One image's are
            taken in any case.

    Attributes:
        resolution: width and height in pixels.
        device: where images are made.
        world: what scenes latents make.
        grid: number of sub-pixels along a pixel's edge.
        bytes_per_image: memory that intermediate results of one image take.
        images_at_once: number of images that are rendered together.

    Raises:
        TypeError: if resolution or grid are of another type.
        ValueError: if the resolution is 0 or takes more memory than there is, the device cannot be used, or the
            quality is unknown.
        UnsupportedWorldError: if the live renderer cannot draw the world; the message says why.
    """

    def __init__(
        self,
        resolution: int,
        device: torch.device | str = "auto",
        world: World | None = None,
        grid: int | str = "standard",
        *,
        memory: int | None = None,
    ) -> None:
        check_count(resolution, "the resolution", 1)
        self.resolution = int(resolution)
        self.grid = _grid_of(grid)
        self.device = usable_device(device)
        self._name = _warp_device(self.device)
        self.world = World() if world is None else world
        self._scenes = Scenes(self.world)
        self._memory = memory
        self._padded = self.resolution + 2  # the filter reaches one pixel beyond the image
        self._solid = resident_solid(self._scenes.object.shape, self._name)
        self.bytes_per_image = self._bytes_per_image()
        limit = _MEMORY[self.device.type] if memory is None else memory
        self.images_at_once = max(1, min(limit // self.bytes_per_image, _MOST_PIXELS // self._padded**2))
        self._check_memory()
        self._scratch: _Scratch | None = None
        self._constants = _Constants(self._scenes, self.grid, self._name)
        self._lock = threading.Lock()

    def render(self, latents: Tensor | npt.ArrayLike) -> Tensor:
        """Return the images of latents.

        Args:
            latents: (N, d) raw latents in [-1, 1], one column for each factor of the world.

        Returns:
            (N, 3, H, W) uint8 sRGB on the renderer's device, channels last in memory.

        Raises:
            ValueError: if the shape is another, a latent is not finite or outside [-1, 1], or the object is so near to
                the camera that it does not fit before it; the row is named.
        """
        rows = latents.detach().cpu().numpy() if isinstance(latents, Tensor) else latents
        checked = torch.from_numpy(check_latents(rows, self.world.factors)).to(self.device)
        pixels = torch.empty((len(checked), self.resolution, self.resolution, 3), dtype=torch.uint8, device=self.device)
        with self._lock, self._stream():
            for start in range(0, len(checked), self.images_at_once):
                part = slice(start, start + self.images_at_once)
                scenes = self._scenes.arrays(checked[part])
                self._check_distance(scenes, start)
                self._draw(scenes, pixels[part])
        return pixels.permute(0, 3, 1, 2)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it was made of: what is on the device stays there."""
        return _renderer, (self.resolution, str(self.device), self.world, self.grid, self._memory)

    def _draw(self, scenes: SceneArrays, pixels: Tensor) -> None:
        if self._scratch is None:
            self._scratch = _Scratch(
                self.images_at_once, self._padded, self.grid, self._solid.vertices.size, self._name
            )
        solid, constants, scratch = self._solid, self._constants, self._scratch
        count, padded, blocks = len(pixels), self._padded, -(-self._padded // kernels.BLOCK)
        images, lights = wp.from_torch(scenes.images, wp.vec3), wp.from_torch(scenes.lights, wp.vec3)
        scratch.nearest.zero_()
        scratch.count.zero_()
        self._launch(
            kernels.project,
            (count, solid.vertices.size),
            [solid.vertices, images, constants.spread, self.resolution, self.grid],
            [scratch.projected],
        )
        self._launch(
            kernels.rasterise,
            (count, len(solid.faces)),
            [solid.faces, scratch.projected, padded * self.grid],
            [scratch.nearest],
        )
        self._launch(
            kernels.survey,
            (count, blocks, blocks),
            [solid.solid, constants.kinds, images, lights, self.resolution],
            [scratch.blocks],
        )
        self._launch(
            kernels.classify,
            (count, padded, padded),
            [
                solid.solid,
                constants.ground,
                constants.kinds,
                images,
                lights,
                scratch.nearest,
                scratch.blocks,
                self.resolution,
                self.grid,
            ],
            [scratch.even, scratch.slots, scratch.queue, scratch.doubts, scratch.count],
        )
        self._launch(
            kernels.shade,
            (count * padded * padded,),
            [
                solid.solid,
                constants.surface,
                constants.ground,
                constants.kinds,
                constants.places,
                images,
                lights,
                scratch.nearest,
                constants.weights,
                self.resolution,
                self.grid,
                solid.lift,
                scratch.queue,
                scratch.doubts,
                scratch.count,
            ],
            [scratch.moments],
        )
        self._launch(
            kernels.develop,
            (count, self.resolution, self.resolution),
            [scratch.even, scratch.slots, scratch.moments, constants.sums],
            [wp.from_torch(pixels)],
        )

    def _launch(self, kernel: Any, dim: tuple[int, ...], inputs: list[Any], outputs: list[Any]) -> None:
        wp.launch(kernel, dim=dim, inputs=inputs, outputs=outputs, device=self._name)

    def _stream(self) -> AbstractContextManager[Any]:
        """Return a context in which Warp works in torch's order of things."""
        if self.device.type == "cpu":
            return nullcontext()
        context: AbstractContextManager[Any] = wp.ScopedStream(
            wp.stream_from_torch(torch.cuda.current_stream(self.device))
        )
        return context

    def _bytes_per_image(self) -> int:
        pixels = self._padded**2
        in_pixels = _Scratch.BYTES_PER_PIXEL + _Scratch.BYTES_PER_SUB_PIXEL * self.grid**2
        return pixels * in_pixels + _Scratch.BYTES_PER_VERTEX * int(self._solid.vertices.size)

    def _check_memory(self) -> None:
        needed, free = self.images_at_once * self.bytes_per_image, _free_memory(self.device)
        if self._padded**2 > _MOST_PIXELS or needed > free:
            raise ValueError(
                f"{self.images_at_once} images of {self.resolution}x{self.resolution} at a grid of {self.grid} take "
                f"{needed / 2**30:.1f} GiB, and {self.device} has {free / 2**30:.1f} GiB free: ask for a lower "
                "resolution or a smaller grid, or give less memory"
            )

    def _check_distance(self, scenes: SceneArrays, start: int) -> None:
        solid = self._solid.solid
        centre = torch.tensor([*solid.centre], device=self.device)
        distance = torch.linalg.vector_norm(scenes.images[:, kernels.CAMERA] - centre, dim=1)
        is_near = distance <= solid.radius + scenes.images[:, kernels.GROUND_HEIGHT, 2]
        if bool(is_near.any()):
            row = start + int(is_near.nonzero()[0])
            raise ValueError(
                f"the object is too near to the camera for the live renderer: row {row} "
                f"({int(is_near.sum())} such rows among those rendered with it); python -m render draws any distance"
            )


def render(
    latents: Tensor | npt.ArrayLike,
    resolution: int = 64,
    device: torch.device | str = "auto",
    world: World | None = None,
    grid: int | str = "standard",
) -> Tensor:
    """Return the images of latents; :class:`LiveRenderer` for more than one call.

    Args:
        latents: (N, d) raw latents in [-1, 1], one column for each factor of the world.
        resolution: width and height in pixels.
        device: "cpu", "cuda", ..., or "auto": the first CUDA device, and the CPU where there is none.
        world: what scenes latents make; None: 3DIdent.
        grid: a quality of :data:`QUALITIES`, or its number of sub-pixels along a pixel's edge: 2, 3, 4 or 8.

    Returns:
        (N, 3, H, W) uint8 sRGB on the device, channels last in memory.

    Raises:
        TypeError: if resolution or grid are of another type.
        ValueError: for latents, resolutions, devices, qualities and worlds that cannot be rendered; see
            :class:`LiveRenderer`.
    """
    return LiveRenderer(resolution, device, world, grid).render(latents)


class _Constants:
    """What is the same for all images of a world, on a device."""

    def __init__(self, scenes: Scenes, grid: int, device: str) -> None:
        camera = scenes.world.camera
        weights = filter_weights(grid)
        self.spread = (2 * camera.lens_mm / camera.sensor_mm) ** 2
        self.surface = _surface(scenes.object.material)
        self.ground = _surface(scenes.ground.material)
        self.kinds = wp.array(scenes.kinds, dtype=wp.int32, device=device)
        self.places = wp.array(lamp_places(grid, scenes.kinds), dtype=wp.vec2, device=device)
        self.weights = wp.array(weights, dtype=wp.vec3, device=device)
        self.sums = wp.vec3(*weights.sum(axis=0))


class _Scratch:
    """Intermediate results of the images that are rendered together."""

    BYTES_PER_PIXEL = 132
    BYTES_PER_SUB_PIXEL = 8
    BYTES_PER_VERTEX = 12

    def __init__(self, images: int, padded: int, grid: int, vertices: int, device: str) -> None:
        def empty(shape: tuple[int, ...], dtype: Any) -> wp.array:
            return wp.empty(shape, dtype=dtype, device=device)

        blocks = -(-padded // kernels.BLOCK)
        self.projected = empty((images, vertices), wp.vec3)
        self.nearest = empty((images, padded * grid, padded * grid), wp.int64)
        self.blocks = empty((images, blocks, blocks), wp.int32)
        self.even = empty((images, padded, padded), wp.vec3)
        self.slots = empty((images, padded, padded), wp.int32)
        self.queue = empty((images * padded * padded,), wp.int32)
        self.doubts = empty((images * padded * padded,), wp.int32)
        self.moments = empty((images * padded * padded, 3), wp.mat33)
        self.count = empty((1,), wp.int32)


def _surface(material: Material) -> Any:
    surface = kernels.Surface()
    surface.ior, surface.inner_ior = material.ior, material.ior + material.velvet_ior_offset
    surface.velvet = 1 / material.velvet_sigma**2
    surface.alpha, surface.coat = material.roughness, material.coat
    return surface


def _grid_of(grid: int | str) -> int:
    if isinstance(grid, str):
        if grid not in QUALITIES:
            raise ValueError(f"unknown quality {grid!r}; choose from {', '.join(QUALITIES)}")
        return QUALITIES[grid]
    check_count(grid, "the grid", 1)
    if grid not in _GRIDS:
        raise ValueError(f"unknown grid {grid}; choose from {', '.join(map(str, _GRIDS))}")
    return int(grid)


def _warp_device(device: torch.device) -> str:
    """Return Warp's name of a device of torch."""
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda":
        raise ValueError(f"the live renderer works on cpu and cuda, not on '{device}'")
    if not wp.is_cuda_available():
        raise ValueError(
            f"torch has '{device}' and Warp {wp.__version__} does not: it is built for CUDA "
            f"{'.'.join(map(str, wp.get_cuda_toolkit_version()))} and needs a driver for it"
        )
    return str(wp.device_from_torch(device))


def _free_memory(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux: the system does not tell
        return float("inf")
    return 1024.0 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])


def _renderer(resolution: int, device: str, world: World, grid: int, memory: int | None) -> LiveRenderer:
    return LiveRenderer(resolution, device, world, grid, memory=memory)
