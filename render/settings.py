"""What a worker is told before its first picture, and what it answers."""

from dataclasses import dataclass

from render.devices import Device
from render.quality import Quality

__all__ = ["LARGEST", "SMALLEST", "About", "Settings"]

SMALLEST, LARGEST = 4, 65536
"""Bounds of a picture's width and height in pixels; Blender would silently render another size."""


@dataclass(frozen=True)
class Settings:
    """What is the same for every picture of a worker.

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
            raise ValueError(
                f"Blender renders pictures of {SMALLEST} to {LARGEST} pixels a side, not {self.resolution}"
            )
        if self.threads < 1:
            raise ValueError(f"expected 1 or more threads, not {self.threads}")


@dataclass(frozen=True)
class About:
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
