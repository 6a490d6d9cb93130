"""``python -m render check``: what this machine can render with."""

import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from ident3d.doctor.libraries import RELEASES, missing_packages
from ident3d.latents import sample_latents
from ident3d.scene.world import World
from ident3d.storage.images import decode
from render.blender.pool import PoolSpec
from render.blender.protocol import GPUS, DeviceMissingError, Job, RenderError
from render.blender.quality import QUALITIES
from render.commands.options import QualityName

__all__ = ["Check"]

_Finding = tuple[str, Any, str]
"""What was found: its key in JSON, its value there, and the line that says it."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """Say what this machine can render with: Python and bpy, system libraries, devices; and render one image.

    Ends with exit status 1 if nothing can be rendered.

    Examples:
        python -m render check
        python -m render check --device cuda --json
    """

    quality: QualityName = "standard"
    """Quality of the image."""
    resolution: int = 224
    """Width and height of the image in pixels."""
    json: bool = False
    """Print what is found as JSON."""

    pool: PoolSpec = field(default_factory=PoolSpec)

    def run(self) -> int:
        """Print what is found, line by line; return the exit status."""
        found: dict[str, Any] = {"error": None}
        for key, value, line in self._findings():
            found[key] = value
            if not self.json:
                sys.stdout.write(f"{line}\n")
        if self.json:
            write_json(found)
        return EXIT_OK if found["error"] is None else EXIT_FAILED

    def _findings(self) -> Iterator[_Finding]:
        yield from self._surroundings()
        try:
            yield from self._attempts()
            gpus = list(self._gpus())
            yield "devices", ["cpu", *gpus], f"devices: {', '.join(['cpu', *gpus])}"
        except RenderError as error:
            yield "error", str(error), f"nothing can be rendered: {error}"

    def _surroundings(self) -> Iterator[_Finding]:
        releases = ", ".join(f"Python {major}.{minor} runs bpy {bpy}" for (major, minor), bpy in RELEASES.items())
        python, system = platform.python_version(), f"{platform.system()} {platform.machine()}"
        yield "python", python, f"Python {python} on {system}; {releases}"
        packages = list(missing_packages())
        missing = f"missing: apt-get install {' '.join(packages)}" if packages else "all there"
        yield "missing_packages", packages, f"system libraries that Blender loads: {missing}"

    def _attempts(self) -> Iterator[_Finding]:
        """Start workers, one on each device that there may be; render an image with the one that was asked for."""
        settings = QUALITIES.find(self.quality)
        start = time.perf_counter()
        with replace(self.pool, workers=1).pool(settings, self.resolution) as pool:
            about, started = pool.about, time.perf_counter()
            started_in = f"a worker started in {started - start:.1f} s"
            yield "blender", about.blender, f"Blender {about.blender} in Python {about.python}, {started_in}"
            world = World()
            scene = world.scene(sample_latents(1)[0])
            for what in ("first", "second"):  # the first one also builds the scene, and kernels on a GPU
                start = time.perf_counter()
                [(_, png)] = pool.render([Job(what, scene, 0)])
                seconds = time.perf_counter() - start
                height, width, _ = decode(png, "the image").shape
                device = f"{about.device} ({about.device_name})"
                said = f"{what} image, {width}x{height}, {self.quality}: {seconds:.2f} s on {device}"
                yield f"{what}_image_seconds", seconds, said

    def _gpus(self) -> Iterator[str]:
        for device in GPUS:
            try:
                with replace(self.pool, workers=1, device=device.value).pool(QUALITIES["draft"], 16) as pool:
                    yield f"{device} ({pool.about.device_name})"
            except DeviceMissingError:
                continue
            except RenderError as error:  # a broken driver, say, which does no harm to the other devices
                yield f"{device} (not usable: {error})"
