"""What passes between a process that wants images and the workers that render them: settings, jobs, answers, errors.

Both sides import this module, so it needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ident3d.errors import Ident3DError
from render.blender.quality import Quality

if TYPE_CHECKING:  # its package needs NumPy, which a Python without bpy may lack
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
"""How a worker's first answer begins; whatever a program printed before is skipped."""


class RenderError(Ident3DError):
    """An image could not be rendered."""


class BlenderMissingError(RenderError):
    """Blender cannot be loaded by what was to render; the message says why, and what to do about it."""


class DeviceMissingError(RenderError):
    """The device that was asked for is not there."""


class WorkerDiedError(RenderError):
    """A worker process ended in the middle of its work."""


class Device(StrEnum):
    """What renders.

    Attributes:
        AUTO: the first of OPTIX, CUDA, HIP, METAL and ONEAPI that is there; else the CPU.
    """

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    OPTIX = "optix"
    HIP = "hip"
    METAL = "metal"
    ONEAPI = "oneapi"


GPUS = (Device.OPTIX, Device.CUDA, Device.HIP, Device.METAL, Device.ONEAPI)
"""The devices other than the CPU, the one that ``AUTO`` prefers first."""

SMALLEST, LARGEST = 4, 65536
"""Bounds of an image's width and height in pixels; Blender would silently render another size."""


@dataclass(frozen=True)
class Settings:
    """What is the same for every image of a worker.

    Attributes:
        quality: settings of the sampler and the denoiser.
        resolution: width and height in pixels, from SMALLEST to LARGEST.
        device: what renders.
        threads: threads of one worker, 1 or more.
    """

    quality: Quality
    resolution: int
    device: Device = Device.AUTO
    threads: int = 1

    def __post_init__(self) -> None:
        if not SMALLEST <= self.resolution <= LARGEST:
            raise ValueError(f"Blender renders images of {SMALLEST} to {LARGEST} pixels a side, not {self.resolution}")
        if self.threads < 1:
            raise ValueError(f"expected 1 or more threads, not {self.threads}")


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker says of itself.

    Attributes:
        blender: version of Blender.
        python: version of its Python.
        device: what renders, never ``AUTO``.
        device_name: the hardware's own name.
    """

    blender: str
    python: str
    device: Device
    device_name: str

    @property
    def series(self) -> str:
        """The series of Blender that the version belongs to: "4.5" of "4.5.15 LTS"."""
        return ".".join(self.blender.split(".")[:2])


class Job(NamedTuple, Generic[K]):
    """An image to be rendered.

    Attributes:
        key: whatever tells the caller which image it is.
        scene: what the image shows.
        seed: seed of its sampling noise, 0 or larger and below 2**31.
    """

    key: K
    scene: Scene
    seed: int


class Renderer(Protocol):
    """Whatever turns jobs into images: a pool of workers."""

    def render(self, jobs: Iterable[Job[K]]) -> Iterator[tuple[K, bytes]]:
        """Yield (key, PNG) for every job, in any order."""
