"""``ident3d download``: fetch the published archives."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from ident3d.commandline import EXIT_OK, write_json
from ident3d.download import SOURCE, download_published
from ident3d.storage.layouts import open_split

__all__ = ["Download"]


@dataclass(frozen=True)
class Download:
    """Fetch the published 3DIdent archives, check them, and unpack them.

    An interrupted download is resumed; what is there already is not fetched again.

    Examples:
        ident3d download data/3dident
        ident3d download data/3dident --splits test --json
    """

    root: tyro.conf.Positional[str]
    """The folder that the splits go into; it is made if it is not there."""
    splits: tuple[Literal["train", "test"], ...] = ("train", "test")
    """The splits to fetch."""
    source: str = SOURCE
    """Address of the folder that holds the archives, for a mirror."""
    keep_archives: bool = False
    """Leave the archives beside what was unpacked from them."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Download, and print what is there now; return the exit status."""
        download_published(self.root, self.splits, source=self.source, keep_archives=self.keep_archives)
        counts = {split: len(open_split(self.root, split).ids) for split in self.splits}
        if self.json:
            write_json({"root": str(Path(self.root).expanduser()), "splits": counts})
        else:
            found = " and ".join(f"{count:,} {split}" for split, count in counts.items())
            sys.stdout.write(f"{self.root}: {found} images; next: ident3d verify {shlex.quote(self.root)}\n")
        return EXIT_OK
