"""``ident3d convert``: a dataset in another layout."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_OK, write_json
from ident3d.storage.conversion import ROWS_PER_SHARD, Target, convert
from ident3d.storage.decoded import CACHE_FOLDER, CacheRecord
from ident3d.storage.manifest import Manifest

__all__ = ["Convert"]


@dataclass(frozen=True)
class Convert:
    """Convert a dataset to another layout, pixel for pixel.

    The native layout is Parquet shards that Hugging Face datasets loads as they are. The published one is that of the
    published archives, raw_latents.npy and images/, without exact positives. The decoded one is uint8 memory maps, for
    training that decoding would slow down; where OUT is ROOT, they are stored beside the images and found
    automatically.

    Examples:
        ident3d convert data/small data/small --to decoded
        ident3d convert sample data/published --to published --json
    """

    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    out: tyro.conf.Positional[Path]
    """The folder to make, new or empty; or ROOT itself for a decoded cache."""
    to: Target
    """The layout to convert to."""
    rows_per_shard: int = ROWS_PER_SHARD
    """Images in a shard of the native layout."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Convert, and print what is there now; return the exit status."""
        out = convert(self.root, self.out, self.to, rows_per_shard=self.rows_per_shard)
        made = CacheRecord.read(out / CACHE_FOLDER).manifest if self.to == "decoded" else Manifest.read(out)
        if self.json:
            write_json({"out": str(out), "layout": self.to, "splits": dict(made.splits), "resolution": made.resolution})
            return EXIT_OK
        counts = " and ".join(f"{count:,} {split}" for split, count in made.splits.items())
        sys.stdout.write(f"{out}: {self.to} layout, {counts} images of {made.resolution}x{made.resolution}\n")
        return EXIT_OK
