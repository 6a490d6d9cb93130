"""``python -m render check``: what this machine can render with."""

import sys
from dataclasses import dataclass, field
from typing import Any

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from render.blender.check import check_rendering
from render.blender.pool import PoolSpec
from render.blender.quality import DEFAULT_QUALITY, QUALITIES
from render.commands.options import QualityName

__all__ = ["CheckMachine"]


@dataclass(frozen=True, kw_only=True)
class CheckMachine:
    """Say what this machine can render with: Python and bpy, system libraries, devices; and render one image.

    The exit status is 1 if nothing can be rendered.

    Examples:
        python -m render check
        python -m render check --device cuda --json
    """

    quality: QualityName = DEFAULT_QUALITY
    """Quality of the image."""
    resolution: int = 224
    """Width and height of the image in pixels."""
    json: bool = False
    """Print what is found as JSON."""

    pool: PoolSpec = field(default_factory=PoolSpec)

    def run(self) -> int:
        """Print the findings; return the exit status."""
        found: dict[str, Any] = {"error": None}
        for finding in check_rendering(QUALITIES[self.quality], self.resolution, self.pool):
            found[finding.key] = finding.value
            if not self.json:
                sys.stdout.write(f"{finding.line}\n")
        if self.json:
            write_json(found)
        return EXIT_OK if found["error"] is None else EXIT_FAILED
