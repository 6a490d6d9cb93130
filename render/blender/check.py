"""What this machine can render with: Python and bpy, system libraries, devices. One image is rendered as a test."""

import platform
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ident3d.doctor.libraries import RELEASES, missing_packages
from ident3d.latents import sample_latents
from ident3d.scene.world import World
from ident3d.storage.images import decode
from render.blender.pool import PoolSpec
from render.blender.protocol import GPUS, DeviceMissingError, Job, RenderError
from render.blender.quality import QUALITIES, Quality

__all__ = ["Finding", "check_rendering"]


class Finding(NamedTuple):
    """One result of the check.

    Attributes:
        key: its key in JSON; "error" where nothing can be rendered.
        value: its value in JSON.
        line: the same as a line of text.
    """

    key: str
    value: Any
    line: str


def check_rendering(quality: Quality, resolution: int, pool: PoolSpec) -> Iterator[Finding]:
    """Check what this machine can render with, and render an image twice.

    Args:
        quality: quality of the image.
        resolution: width and height of the image in pixels.
        pool: the device to render on, and the Python or Blender to render with.

    Yields:
        The findings, each as soon as it is known.

    Raises:
        ValueError: if the resolution cannot be rendered.
        FileNotFoundError: if ``pool.blender`` does not exist.
    """
    yield from _surroundings()
    try:
        yield from _attempts(quality, resolution, pool)
        devices = ["cpu", *usable_gpus(pool)]
        yield Finding("devices", devices, f"devices: {', '.join(devices)}")
    except RenderError as error:
        yield Finding("error", str(error), f"nothing can be rendered: {error}")


def usable_gpus(pool: PoolSpec) -> Iterator[str]:
    """Try a worker on every kind of GPU; yield the available ones with the names of the hardware."""
    for device in GPUS:
        try:
            with replace(pool, workers=1, device=device.value).pool(QUALITIES["draft"], 16) as workers:
                yield f"{device} ({workers.about.device_name})"
        except DeviceMissingError:
            continue
        except RenderError as error:  # for example a broken driver; the other devices may work
            yield f"{device} (not usable: {error})"


def _surroundings() -> Iterator[Finding]:
    releases = ", ".join(f"Python {major}.{minor} runs bpy {bpy}" for (major, minor), bpy in RELEASES.items())
    python, system = platform.python_version(), f"{platform.system()} {platform.machine()}"
    yield Finding("python", python, f"Python {python} on {system}; {releases}")
    packages = list(missing_packages())
    missing = f"missing: apt-get install {' '.join(packages)}" if packages else "all installed"
    yield Finding("missing_packages", packages, f"system libraries that Blender loads: {missing}")


def _attempts(quality: Quality, resolution: int, pool: PoolSpec) -> Iterator[Finding]:
    start = time.perf_counter()
    with replace(pool, workers=1).pool(quality, resolution) as workers:
        about, started_s = workers.about, time.perf_counter() - start
        line = f"Blender {about.blender} in Python {about.python}, a worker started in {started_s:.1f} s"
        yield Finding("blender", about.blender, line)
        scene = World().scene(sample_latents(1)[0])
        for what in ("first", "second"):  # the first also builds the scene and, on a GPU, the kernels
            start = time.perf_counter()
            [(_, png)] = workers.render([Job(what, scene, 0)])
            seconds = time.perf_counter() - start
            height, width, _ = decode(png, "the image").shape
            device = f"{about.device} ({about.device_name})"
            line = f"{what} image, {width}x{height}, {quality.name}: {seconds:.2f} s on {device}"
            yield Finding(f"{what}_image_seconds", seconds, line)
