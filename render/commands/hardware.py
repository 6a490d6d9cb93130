"""The options that say how, and by what, images are rendered: the same for every command that renders."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from render.blender.pool import Pool
from render.blender.quality import Device, Quality, Settings

__all__ = ["Hardware", "HueMapName", "QualityName"]

QualityName = Literal["published", "standard", "draft"]
HueMapName = Literal["wrapped", "published"]

_WORKERS_ON_A_GPU = 2  # one prepares its scene while the other's is rendered


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What renders."""

    device: Literal["auto", "cpu", "cuda", "optix", "hip", "metal", "oneapi"] = "auto"
    """What Blender renders on. "auto" takes the best GPU that is there, else the CPU; any other one has to be there."""
    workers: int | None = None
    """Worker processes, one thread each. By default one a core on the CPU, and two on a GPU that is named here."""
    blender: Path | None = None
    """Another Python that has bpy, or a Blender executable, to run the workers; by default this Python."""

    def pool(self, quality: Quality, resolution: int) -> Pool:
        """Return the workers, not started yet.

        Raises:
            ValueError: if a number is not positive.
            FileNotFoundError: if ``blender`` is not there.
            BlenderMissingError: if it is no program that can render.
        """
        return Pool(Settings(quality, resolution, Device(self.device)), self.count, blender=self.blender)

    @property
    def count(self) -> int:
        """Number of worker processes."""
        if self.workers is not None:
            return self.workers
        return _cores() if self.device in {"auto", "cpu"} else _WORKERS_ON_A_GPU


def _cores() -> int:
    """Return how many cores this process may use, which on a shared machine are fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
