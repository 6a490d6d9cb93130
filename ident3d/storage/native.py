"""The native layout: Parquet shards under ``data/``, a manifest beside them."""

import re
from pathlib import Path

import numpy as np

from ident3d.errors import DatasetError
from ident3d.factors import FACTORS
from ident3d.storage.manifest import MANIFEST_NAME, Manifest, shard_name
from ident3d.storage.shard import ShardReader
from ident3d.storage.split import StoredSplit, checked_latents

__all__ = ["DATA_FOLDER", "NativeSplit", "native_splits", "shard_paths"]

DATA_FOLDER = "data"
_SHARD = re.compile(r"(?P<split>\w+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.parquet")


def native_splits(root: Path) -> list[str]:
    """Return the splits of which at least one shard is there."""
    matches = (_SHARD.fullmatch(path.name) for path in (root / DATA_FOLDER).glob("*.parquet"))
    return sorted({match["split"] for match in matches if match}, reverse=True)


def shard_paths(root: Path, split: str) -> list[Path]:
    """Return the shards of a split that are there, in order."""
    return sorted((root / DATA_FOLDER).glob(f"{split}-?????-of-?????.parquet"))


class NativeSplit(StoredSplit):
    """One split in the native layout.

    A dataset that is still being rendered is read as far as it is there.

    Args:
        root: the dataset's folder.
        split: name of the split.

    Raises:
        DatasetError: if a shard is damaged or missing, shards and manifest disagree, or latents are not what the
            factors say.
    """

    layout = "native"

    def __init__(self, root: Path, split: str) -> None:
        self.root = root
        self.split = split
        self.manifest = Manifest.read(root) if (root / MANIFEST_NAME).exists() else None
        self.factors = FACTORS if self.manifest is None else self.manifest.factors
        self._paths = shard_paths(root, split)
        self._check_names()
        readers = [ShardReader(path) for path in self._paths]
        self._readers = dict(enumerate(readers))
        self._signatures = [reader.signature for reader in readers]
        self._check_rows(readers)
        self._ends = np.cumsum([reader.rows for reader in readers])
        self.ids = np.concatenate([reader.index() for reader in readers])
        where = f"{root}, {split}"
        self.latents = checked_latents(np.concatenate([r.latents() for r in readers]), self.factors, where)
        self.latents_pos = None
        if all(reader.has_pairs for reader in readers):
            positives = np.concatenate([reader.latents(positive=True) for reader in readers])
            self.latents_pos = checked_latents(positives, self.factors, f"{where}, exact positives")
        elif any(reader.has_pairs for reader in readers):
            raise DatasetError(f"{where}: some shards hold exact positives and some do not; render it again")

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_readers": {}}  # open files stay in their process, and are opened again where they go

    def encoded(self, row: int, *, positive: bool = False) -> bytes:
        """Return the encoded picture of a row, as it is stored."""
        if positive and self.latents_pos is None:
            raise self._positives_missing()
        shard, first = self._shard_of(row)
        return self._reader(shard).picture(row - first, positive=positive)

    def place(self, row: int) -> str:
        """Return where the picture of a row is, for messages."""
        shard, first = self._shard_of(row)
        return f"{self._paths[shard]}, row {row - first},"

    def _shard_of(self, row: int) -> tuple[int, int]:
        """Return the shard that holds a row, and the row that it begins with."""
        shard = int(np.searchsorted(self._ends, row, side="right"))
        return shard, 0 if shard == 0 else int(self._ends[shard - 1])

    def _reader(self, shard: int) -> ShardReader:
        reader = self._readers.get(shard)
        if reader is None:
            reader = ShardReader(self._paths[shard])
            if reader.signature != self._signatures[shard]:
                raise DatasetError(
                    f"{reader.path} is not the file that it was when the dataset was opened: it was changed or "
                    "replaced since; open the dataset again"
                )
            self._readers[shard] = reader
        return reader

    def _check_names(self) -> None:
        """Raise DatasetError unless the shards that are there belong together."""
        there = [path.name for path in self._paths]
        if not there:
            raise DatasetError(f"{self.root} holds no shard of the split {self.split!r}")
        if self.manifest is None:
            total = int(self._paths[0].stem[-5:])
            planned = [shard_name(self.split, k, total) for k in range(total)]
            needed = planned  # nothing says that it is still being rendered
        elif self.split in self.manifest.splits:
            planned = [name for name, _ in self.manifest.planned(self.split)]
            needed = [record.name for record in self.manifest.shards if record.split == self.split]
        else:
            raise DatasetError(
                f"{self.root} holds shards of the split {self.split!r}, but its manifest knows only "
                f"{', '.join(self.manifest.splits)}"
            )
        foreign, missing = sorted(set(there) - set(planned)), sorted(set(needed) - set(there))
        if foreign:
            raise DatasetError(
                f"{self.root / DATA_FOLDER}: {foreign[0]} does not belong to the {len(planned)} shards of the split "
                f"{self.split!r}; two datasets may have been mixed ({len(foreign)} such files)"
            )
        if missing:
            raise DatasetError(
                f"{self.root / DATA_FOLDER}: {missing[0]} is missing; {len(there)} of {len(needed)} finished shards of "
                f"the split {self.split!r} are there: fetch or render it again"
            )

    def _check_rows(self, readers: list[ShardReader]) -> None:
        """Raise DatasetError where a shard holds another number of rows than the manifest says."""
        recorded = {} if self.manifest is None else {record.name: record.rows for record in self.manifest.shards}
        for path, reader in zip(self._paths, readers, strict=True):
            expected = recorded.get(path.name, reader.rows)
            if reader.rows != expected:
                raise DatasetError(
                    f"{path} holds {reader.rows} rows, but the manifest says {expected}; fetch or render it again"
                )
