"""What passes between a process that wants images and the workers that render them: settings, jobs, answers, errors.

Both sides import this module, so it needs the standard library alone.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ident3d.errors import Ident3DError
from render.blender.quality import Quality

if TYPE_CHECKING:  # its package needs NumPy, which a Python without bpy may lack
    import numpy as np
    import numpy.typing as npt

    from ident3d.scene.scene import Scene

__all__ = [
    "GPUS",
    "GREETING",
    "LARGEST",
    "SMALLEST",
    "BlenderMissingError",
    "Device",
    "DeviceMissingError",
    "Job",
    "RenderError",
    "Renderer",
    "Settings",
    "WorkerDiedError",
    "WorkerInfo",
]

K = TypeVar("K", bound=Hashable)

GREETING = b"ident3d worker 1 "
"""The beginning of a worker's first answer; whatever the program printed before is skipped."""


class RenderError(Ident3DError):
    """An image could not be rendered."""


class BlenderMissingError(RenderError):
    """Blender cannot be loaded; the message says why, and what to do about it."""


class DeviceMissingError(RenderError):
    """The requested device is not available."""


class WorkerDiedError(RenderError):
    """A worker process ended in the middle of its work."""


class Device(StrEnum):
    """A device that Blender can render on.

    Attributes:
        AUTO: the first available of OPTIX, CUDA, HIP, METAL and ONEAPI, or else the CPU.
    """

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    OPTIX = "optix"
    HIP = "hip"
    METAL = "metal"
    ONEAPI = "oneapi"


GPUS = (Device.OPTIX, Device.CUDA, Device.HIP, Device.METAL, Device.ONEAPI)
"""The devices other than the CPU, in the order in which ``AUTO`` tries them."""

SMALLEST, LARGEST = 4, 8192
"""Bounds of an image's width and height in pixels: Blender silently renders smaller ones at another size, and
larger ones are not read (see ``ident3d.storage.images.MOST_PIXELS``)."""


@dataclass(frozen=True)
class Settings:
    """The settings of all images of a worker.

    Attributes:
        quality: settings of the sampler and the denoiser.
        resolution: width and height in pixels, from SMALLEST to LARGEST.
        device: the device to render on.
        threads: threads of one worker, 1 or more.
    """

    quality: Quality
    resolution: int
    device: Device = Device.AUTO
    threads: int = 1

    def __post_init__(self) -> None:
        if not SMALLEST <= self.resolution <= LARGEST:
            raise ValueError(f"expected {SMALLEST} to {LARGEST} pixels per side, not {self.resolution}")
        if self.threads < 1:
            raise ValueError(f"expected 1 or more threads, not {self.threads}")


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker reports about itself.

    Attributes:
        blender: version of Blender.
        python: version of its Python.
        device: the device that it renders on, never ``AUTO``.
        device_name: name of the hardware.
    """

    blender: str
    python: str
    device: Device
    device_name: str

    @property
    def series(self) -> str:
        """The series of Blender that the version belongs to: "4.5" of "4.5.15 LTS"."""
        return ".".join(self.blender.split(".")[:2])

    @property
    def version(self) -> str:
        """The renderer and its version, in words."""
        return f"Blender {self.blender}"


@dataclass(frozen=True)
class Job(Generic[K]):
    """An image to be rendered.

    Attributes:
        key: what the caller identifies the image by.
        scene: what the image shows.
        seed: seed of its sampling noise, 0 or larger and below 2**31.
        latents: (d,) float32 raw latents that the scene is made of, which the live renderer takes; None where a scene
            is all there is.
    """

    key: K
    scene: "Scene"
    seed: int
    latents: "npt.NDArray[np.float32] | None" = field(default=None, compare=False)


class Renderer(Protocol):
    """What turns jobs into images, such as a :class:`~render.blender.pool.Pool`."""

    def render(self, jobs: Iterable[Job[K]]) -> Iterator[tuple[K, bytes]]:
        """Yield (key, PNG) for every job, in any order."""
