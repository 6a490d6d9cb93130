"""``python -m render contact-sheet``: a look at a dataset."""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_OK
from render.figures import check_output, contact_sheet

__all__ = ["ContactSheet"]


@dataclass(frozen=True, kw_only=True)
class ContactSheet:
    """Draw some images of a dataset as one. Needs no Blender.

    Examples:
        python -m render contact-sheet data/small sheet.png
        python -m render contact-sheet sample sheet.png --split test --count 100
    """

    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    out: tyro.conf.Positional[Path]
    """The image to write, for example a name that ends in .png."""
    split: str = "train"
    """The split."""
    count: int = 64
    """Number of rows, evenly spaced over the split."""

    def run(self) -> int:
        """Draw and write; return the exit status."""
        check_output(self.out)
        image = contact_sheet(self.root, self.split, self.count)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        image.save(self.out)
        sys.stdout.write(f"{self.out}: {image.width}x{image.height} pixels\n")
        return EXIT_OK
