"""``python -m render check``: what this machine can render with."""

import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ident3d.commandline import EXIT_FAILED, EXIT_OK
from ident3d.latents import sample_latents
from ident3d.machine.blender import RELEASES, missing_packages
from ident3d.storage.picture import decode
from render.commands.hardware import Hardware, QualityName
from render.devices import GPUS
from render.errors import DeviceMissingError, RenderError
from render.pool import Job
from render.quality import quality
from render.world import World

__all__ = ["Check"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """Say what this machine can render with: Python and bpy, system libraries, devices; and render one picture.

    Ends with exit status 1 if nothing can be rendered.

    Example: python -m render check --device cuda
    """

    quality: QualityName = "standard"
    """Quality of the picture."""
    resolution: int = 224
    """Width and height of the picture in pixels."""

    hardware: Hardware = field(default_factory=Hardware)

    def run(self) -> int:
        """Print what is found, line by line; return the exit status."""
        for line in self._surroundings():
            sys.stdout.write(f"{line}\n")
        try:
            for line in self._attempts():
                sys.stdout.write(f"{line}\n")
        except RenderError as error:
            sys.stdout.write(f"nothing can be rendered: {error}\n")
            return EXIT_FAILED
        return EXIT_OK

    def _surroundings(self) -> Iterator[str]:
        releases = ", ".join(f"Python {major}.{minor} runs bpy {bpy}" for (major, minor), bpy in RELEASES.items())
        yield f"Python {platform.python_version()} on {platform.system()} {platform.machine()}; {releases}"
        packages = missing_packages()
        missing = f"missing: apt-get install {' '.join(packages)}" if packages else "all there"
        yield f"system libraries that Blender loads: {missing}"

    def _attempts(self) -> Iterator[str]:
        """Start workers, one on each device that there may be; render a picture with the one that was asked for."""
        settings = quality(self.quality)
        start = time.perf_counter()
        with replace(self.hardware, workers=1).pool(settings, self.resolution) as pool:
            about, started = pool.about, time.perf_counter()
            yield f"Blender {about.blender} in Python {about.python}, a worker started in {started - start:.1f} s"
            world = World()
            scene = world.scene(sample_latents(1)[0])
            for what in ("first", "second"):  # the first one also builds the scene, and kernels on a GPU
                start = time.perf_counter()
                [(_, png)] = pool.render([Job(what, scene, 0)])
                seconds = time.perf_counter() - start
                height, width, _ = decode(png, "the picture").shape
                device = f"{about.device} ({about.device_name})"
                yield f"{what} picture, {width}x{height}, {self.quality}: {seconds:.2f} s on {device}"
        yield f"devices: {', '.join(['cpu', *self._gpus()])}"

    def _gpus(self) -> Iterator[str]:
        for device in GPUS:
            try:
                with replace(self.hardware, workers=1, device=device.value).pool(quality("draft"), 16) as pool:
                    yield f"{device} ({pool.about.device_name})"
            except DeviceMissingError:
                continue
            except RenderError as error:  # a broken driver, say, which does no harm to the other devices
                yield f"{device} (not usable: {error})"
