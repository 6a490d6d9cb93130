"""What renders a dataset: Cycles in worker processes, or the live renderer in this process.

Both turn the same jobs into images, for the same folders. A manifest says which of them did, since their images differ.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from ident3d.codec import from_json, to_json
from ident3d.registry import Registry
from ident3d.scene.world import World
from ident3d.storage.images import encode_png
from render.blender.pool import PoolSpec
from render.blender.protocol import Job, Renderer
from render.blender.quality import QUALITIES, Quality

if TYPE_CHECKING:
    import numpy.typing as npt


__all__ = ["ENGINES", "About", "Engine", "LiveQuality", "LiveWorkers", "Workers"]

K = TypeVar("K")

_IMAGES_AT_ONCE = 16  # between which a run can be stopped without losing what is rendered


class About(Protocol):
    """What workers report about themselves."""

    @property
    def device(self) -> str:
        """The device that they render on."""

    @property
    def device_name(self) -> str:
        """The name of the hardware."""

    @property
    def series(self) -> str:
        """The series of the renderer: images of another may differ."""

    @property
    def version(self) -> str:
        """The renderer and its version, in words."""


class Workers(Renderer, Protocol):
    """What renders, and what it reports about itself."""

    @property
    def about(self) -> About:
        """The versions and the device."""


@dataclass(frozen=True)
class LiveQuality:
    """Settings of the live renderer.

    Attributes:
        name: name of the quality in a manifest.
        grid: number of sub-pixels along a pixel's edge.
        version: version of the live renderer, whose images differ from those of another.
    """

    engine: ClassVar[str] = "live"

    name: str
    grid: int
    version: int

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        plain: dict[str, Any] = to_json(self)
        return plain


@dataclass(frozen=True)
class Engine:
    """One way of rendering a dataset.

    Attributes:
        name: its name.
        find_quality: returns a quality by its name.
        read_quality: returns the quality that a manifest describes.
        workers: returns the workers, not started yet, of a world, a quality, a resolution and the options of a pool.
        made_by: returns what the record of a shard says of its renderer.
        has_series: whether what is installed decides which series renders, so that the first run of a dataset settles
            it; other engines say their version in their quality.
    """

    name: str
    find_quality: Callable[[str], Any]
    read_quality: Callable[[Mapping[str, Any]], Any]
    workers: Callable[[World, Any, int, PoolSpec], AbstractContextManager[Any]]
    made_by: Callable[[Any, Any], dict[str, str]]
    has_series: bool = False


@dataclass(frozen=True)
class LiveInfo:
    """What the live renderer reports about itself.

    Attributes:
        device: the device that it renders on.
        device_name: name of the hardware.
        series: version of its images.
        version: the renderer and its version, in words.
    """

    device: str
    device_name: str
    series: str
    version: str


class LiveWorkers:
    """Threads of this process that render live: a context manager.

    Args:
        world: what scenes latents make.
        quality: the grid.
        resolution: width and height in pixels.
        pool: device and number of threads; one for each core on the CPU, one on a GPU.

    Raises:
        MissingDependencyError: if Warp is not installed.
        ValueError: if a setting cannot be used, or is of Blender.
        UnsupportedWorldError: if the live renderer cannot draw the world.
    """

    def __init__(self, world: World, quality: LiveQuality, resolution: int, pool: PoolSpec) -> None:
        from ident3d.live import VERSION, LiveRenderer  # Warp is large, and Cycles does without

        if pool.blender is not None:
            raise ValueError(f"the live renderer takes no Blender: leave {pool.blender} out")
        if pool.device not in {"auto", "cpu", "cuda"}:
            raise ValueError(f"the live renderer works on auto, cpu and cuda, not on {pool.device!r}")
        if quality.version != VERSION:
            raise ValueError(
                f"the dataset is of version {quality.version} of the live renderer, and this is {VERSION}, whose "
                "images differ: install the ident3d that the dataset was begun with, or render into another folder"
            )
        first = LiveRenderer(resolution, pool.device, world, quality.grid)
        workers = pool.live_workers(first.device.type)
        others = (LiveRenderer(resolution, first.device, world, quality.grid) for _ in range(workers - 1))
        self._renderers = deque([first, *others])
        name = f"{workers} threads" if first.device.type == "cpu" else str(first.device)
        self.about = LiveInfo(first.device.type, name, str(VERSION), f"live renderer {VERSION}")
        self._threads = ThreadPoolExecutor(workers)
        self._ahead = 2 * workers

    def __enter__(self) -> Self:
        """Compile the kernels, if that was never done, by rendering one image."""
        world = self._renderers[0].world
        self._renderers[0].render(np.zeros((1, len(world.factors)), dtype=np.float32))
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)

    def render(self, jobs: Iterable[Job[K]]) -> Iterator[tuple[K, bytes]]:
        """Yield (key, PNG) for every job, in their order."""
        waiting = iter(jobs)
        parts = iter(lambda: list(islice(waiting, _IMAGES_AT_ONCE)), [])
        running: deque[Future[list[tuple[K, bytes]]]] = deque()
        running.extend(self._threads.submit(self._part, part) for part in islice(parts, self._ahead))
        while running:
            made = running.popleft().result()
            running.extend(self._threads.submit(self._part, part) for part in islice(parts, 1))
            yield from made

    def _part(self, jobs: list[Job[K]]) -> list[tuple[K, bytes]]:
        renderer = self._renderers.popleft()  # there are as many as threads
        try:
            pixels = renderer.render(np.stack([_latents(job) for job in jobs])).permute(0, 2, 3, 1).cpu().numpy()
        finally:
            self._renderers.append(renderer)
        return [(job.key, encode_png(image)) for job, image in zip(jobs, pixels, strict=True)]


def _latents(job: Job[Any]) -> "npt.NDArray[np.float32]":
    if job.latents is None:
        raise ValueError(f"the live renderer renders latents, and the image {job.key!r} is described by a scene alone")
    return job.latents


def _live_quality(name: str) -> LiveQuality:
    from ident3d.live import QUALITIES as GRIDS
    from ident3d.live import VERSION

    if name not in GRIDS:
        raise ValueError(f"unknown quality {name!r} of the live renderer; choose from {', '.join(GRIDS)}")
    return LiveQuality(name, GRIDS[name], VERSION)


def _by_blender(about: Any, quality: Quality) -> dict[str, str]:
    return {
        "blender": about.blender,
        "device": str(about.device),
        "device_name": about.device_name,
        "denoiser": "none" if quality.denoiser is None else "OpenImageDenoise",
    }


ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        "cycles": Engine(
            "cycles",
            QUALITIES.find,
            Quality.from_json,
            lambda _, quality, resolution, pool: pool.pool(quality, resolution),
            _by_blender,
            has_series=True,
        ),
        "live": Engine(
            "live",
            _live_quality,
            lambda data: from_json(LiveQuality, data, "quality"),
            LiveWorkers,
            lambda about, _: {"engine": about.version, "device": about.device, "device_name": about.device_name},
        ),
    },
)
"""The engines by name: "cycles", Blender's renderer in worker processes, and "live", :mod:`ident3d.live`."""
