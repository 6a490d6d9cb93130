"""``python -m render world``: the world of 3DIdent as JSON, to start a variant from."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ident3d.codec import dumps
from ident3d.commandline import EXIT_OK
from ident3d.files import write_text
from ident3d.scene.world import World

__all__ = ["WorldCommand"]


@dataclass(frozen=True, kw_only=True)
class WorldCommand:
    """Write the world of 3DIdent as JSON: factors, ranges, objects, lights, colours. Needs no Blender.

    Edit the file, and render it with --world FILE. A number in a location, a rotation, an orbit, a paint, a scale or a
    power may be replaced by the name of a factor.

    Examples:
        python -m render world -o variant.json
        python -m render world
    """

    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The file to write; by default it is printed."""

    def run(self) -> int:
        """Write; return the exit status."""
        text = dumps(World().to_json())
        if self.out is None:
            sys.stdout.write(text)
        else:
            write_text(self.out, text)
            sys.stdout.write(f"{self.out}: edit it, and render it with --world {self.out}\n")
        return EXIT_OK
