"""``ident3d info``: what a folder holds."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import tyro

from ident3d.commandline import EXIT_OK
from ident3d.description import describe

__all__ = ["Info"]


@dataclass(frozen=True)
class Info:
    """Show what a dataset holds: splits, factors and their ranges, layout, provenance, fingerprints, size on disk.

    Example: ident3d info ~/data/3dident
    """

    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    json: bool = False
    """Print it as JSON."""

    def run(self) -> int:
        """Describe; return the exit status."""
        found = describe(self.root)
        text = json.dumps(found.to_json(), indent=1, allow_nan=False) if self.json else found.table()
        sys.stdout.write(text + "\n")
        return EXIT_OK
