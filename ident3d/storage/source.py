"""The dataset that a conversion reads: all splits of one layout, and their pictures in order."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.storage.decoded import DecodedSplit
from ident3d.storage.manifest import Manifest
from ident3d.storage.picture import decode, encode_png
from ident3d.storage.split import StoredSplit

__all__ = ["Picture", "Source", "manifest_of"]

_AT_ONCE = 256
_UNKNOWN = "a conditional that is not recorded"


class Picture(NamedTuple):
    """One picture, as it is stored and decoded.

    Attributes:
        encoded: the bytes of an image file.
        pixels: (H, W, 3) uint8.
    """

    encoded: bytes
    pixels: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Source:
    """The splits of a dataset, complete and described by one manifest.

    Attributes:
        splits: the splits by name.
        manifest: the dataset's manifest, or what can be told where it has none.
    """

    splits: Mapping[str, StoredSplit]
    manifest: Manifest

    @classmethod
    def of(cls, splits: Sequence[StoredSplit]) -> "Source":
        """Return the source that consists of ``splits``.

        Raises:
            DatasetError: if a split is incomplete, or some splits have exact positives and some do not.
        """
        for split in splits:
            planned = len(split.latents) if split.manifest is None else split.manifest.splits[split.split]
            if len(split.latents) != planned or not np.array_equal(split.ids, np.arange(planned)):
                raise DatasetError(
                    f"{split.root} holds {len(split.latents)} of the {planned} pictures of the split {split.split!r}, "
                    "or not in order: finish rendering it first"
                )
        if len({split.latents_pos is None for split in splits}) > 1:
            raise DatasetError(f"{splits[0].root}: some splits hold exact positives and some do not")
        return cls({split.split: split for split in splits}, manifest_of(splits))

    @property
    def has_positives(self) -> bool:
        """Whether every row also holds an exact positive."""
        return any(split.latents_pos is not None for split in self.splits.values())

    @property
    def rows(self) -> int:
        """The number of rows of all splits."""
        return sum(len(split.latents) for split in self.splits.values())

    def pictures(self, split: str, advance: Callable[[], object], *, positive: bool = False) -> Iterator[Picture]:
        """Yield the pictures of a split in order, a few hundred in memory at a time.

        Each is decoded, so that a damaged one is found here and not after the conversion.

        Args:
            split: name of the split.
            advance: called after every picture.
            positive: yield the exact positives instead.

        Raises:
            DatasetError: if a picture is damaged, or not as large as the manifest says.
        """
        stored = self.splits[split]
        side = self.manifest.resolution
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for start in range(0, len(stored.latents), _AT_ONCE):
                rows = range(start, min(start + _AT_ONCE, len(stored.latents)))
                for row, picture in zip(rows, _read(stored, rows, pool, positive=positive), strict=True):
                    height, width = picture.pixels.shape[:2]
                    if not height == width == side:
                        raise DatasetError(
                            f"{stored.place(row)} is {width}x{height} pixels; the dataset's are {side}x{side}"
                        )
                    advance()
                    yield picture


def _read(stored: StoredSplit, rows: range, pool: ThreadPoolExecutor, *, positive: bool) -> Iterator[Picture]:
    """Read pictures; what takes long, decoding or encoding, is done by the threads of ``pool``."""
    if isinstance(stored, DecodedSplit):
        pixels = stored.batch(np.array(rows), positive=positive)
        return map(Picture, pool.map(encode_png, pixels), pixels)
    encoded = [stored.encoded(row, positive=positive) for row in rows]
    return map(Picture, encoded, pool.map(decode, encoded, map(stored.place, rows)))


def manifest_of(splits: Sequence[StoredSplit]) -> Manifest:
    """Return the manifest of the dataset that ``splits`` make up, or what can be told of it where it has none."""
    told = [split.provenance() for split in splits]
    if splits[0].latents_pos is not None and told[0].pairs is None:
        told = [replace(manifest, pairs=_UNKNOWN) for manifest in told]
    if splits[0].manifest is not None:
        return told[0]
    # What can be told of a split without a manifest has one split, and one digest of its latents.
    counts = {split: count for manifest in told for split, count in manifest.splits.items()}
    digests = {
        split: manifest.latents[split]
        for manifest in told
        for split in manifest.splits
        if not isinstance(manifest.latents, str)
    }
    return replace(told[0], splits=counts, latents=digests)
