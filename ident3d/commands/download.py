"""``ident3d download``: fetch the published archives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import tyro

from ident3d.commandline import EXIT_OK
from ident3d.download import SOURCE, download_published

__all__ = ["Download"]


@dataclass(frozen=True)
class Download:
    """Fetch the published 3DIdent archives, check them, and unpack them.

    An interrupted download is resumed; what is there already is not fetched again.

    Examples:
        ident3d download data/3dident
        ident3d download data/3dident --splits test
    """

    root: tyro.conf.Positional[str]
    """The folder that the splits go into; it is made if it is not there."""
    splits: tuple[Literal["train", "test"], ...] = ("train", "test")
    """The splits to fetch."""
    source: str = SOURCE
    """Address of the folder that holds the archives, for a mirror."""
    keep_archives: bool = False
    """Leave the archives beside what was unpacked from them."""

    def run(self) -> int:
        """Download; return the exit status."""
        download_published(self.root, self.splits, source=self.source, keep_archives=self.keep_archives)
        return EXIT_OK
