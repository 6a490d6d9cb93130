"""The native layout: Parquet shards under ``data/``, a manifest beside them."""

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.factors import FACTORS, Factors
from ident3d.storage.manifest import MANIFEST_NAME, Manifest
from ident3d.storage.shard import ShardReader
from ident3d.storage.split import decode, no_positives, stack

__all__ = ["DATA_FOLDER", "NativeSplit", "native_splits"]

DATA_FOLDER = "data"
_SHARD = re.compile(r"(?P<split>\w+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.parquet")


def native_splits(root: Path) -> list[str]:
    """Return the splits of which at least one shard is there."""
    matches = (_SHARD.fullmatch(path.name) for path in (root / DATA_FOLDER).glob("*.parquet"))
    return sorted({match["split"] for match in matches if match}, reverse=True)


class NativeSplit:
    """One split in the native layout; see :class:`~ident3d.storage.split.StoredSplit`.

    A dataset that is still being rendered is read as far as it is there.

    Args:
        root: the dataset's folder.
        split: name of the split.

    Raises:
        DatasetError: if a shard is damaged, or latents and factors disagree.
    """

    layout = "native"

    def __init__(self, root: Path, split: str) -> None:
        self.root = root
        self.split = split
        self.manifest = Manifest.read(root) if (root / MANIFEST_NAME).exists() else None
        self._paths = sorted((root / DATA_FOLDER).glob(f"{split}-?????-of-?????.parquet"))
        self._readers: dict[int, ShardReader] = {}
        readers = [self._reader(k) for k in range(len(self._paths))]
        self._ends = np.cumsum([reader.rows for reader in readers])
        self.ids: npt.NDArray[np.int64] = np.concatenate([reader.index() for reader in readers])
        self.latents: npt.NDArray[np.float32] = np.concatenate([reader.latents() for reader in readers])
        self.latents_pos: npt.NDArray[np.float32] | None = None
        if all(reader.has_pairs for reader in readers):
            self.latents_pos = np.concatenate([reader.latents(positive=True) for reader in readers])
        self.factors: Factors = FACTORS if self.manifest is None else self.manifest.factors
        if self.latents.shape[1] != len(self.factors):
            raise DatasetError(
                f"{root}: the latents have {self.latents.shape[1]} columns, its factors are {len(self.factors)}"
            )

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_readers": {}}  # open files stay in their process

    def encoded(self, row: int, *, positive: bool = False) -> bytes:
        """Return the encoded picture of a row, as it is stored."""
        if positive and self.latents_pos is None:
            raise no_positives(self.root, self.split)
        shard = int(np.searchsorted(self._ends, row, side="right"))
        first = 0 if shard == 0 else int(self._ends[shard - 1])
        return self._reader(shard).picture(row - first, positive=positive)

    def pixels(self, row: int, *, positive: bool = False) -> npt.NDArray[np.uint8]:
        """Return the (H, W, 3) uint8 picture of a row."""
        return decode(self.encoded(row, positive=positive), f"{self.root}, {self.split}, row {row}")

    def batch(self, rows: npt.NDArray[np.int64], *, positive: bool = False) -> npt.NDArray[np.uint8]:
        """Return the (B, H, W, 3) uint8 pictures of the given rows."""
        return stack((self.pixels(int(row), positive=positive) for row in rows), f"{self.root}, {self.split}")

    def _reader(self, shard: int) -> ShardReader:
        reader = self._readers.get(shard)
        if reader is None:
            reader = self._readers[shard] = ShardReader(self._paths[shard])
        return reader
