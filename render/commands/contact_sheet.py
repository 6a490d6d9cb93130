"""``python -m render contact-sheet``: a look at a dataset."""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_OK
from render.contact_sheet import contact_sheet
from render.mosaic import check_output

__all__ = ["ContactSheet"]


@dataclass(frozen=True, kw_only=True)
class ContactSheet:
    """Put some pictures of a dataset into one, to look at. Needs no Blender.

    Example: python -m render contact-sheet ~/data/3dident sheet.png --split test --count 100
    """

    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    output: tyro.conf.Positional[Path]
    """The picture to write, PNG by its name."""
    split: str = "train"
    """The split."""
    count: int = 64
    """How many rows, evenly spaced over the split."""

    def run(self) -> int:
        """Draw and write; return the exit status."""
        check_output(self.output)
        picture = contact_sheet(self.root, self.split, self.count)
        self.output.parent.mkdir(parents=True, exist_ok=True)
        picture.save(self.output)
        sys.stdout.write(f"{self.output}: {picture.width}x{picture.height} pixels\n")
        return EXIT_OK
