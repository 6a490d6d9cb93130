"""Verification of a dataset on disk: everything that can be told without rendering it again."""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.storage.atomic import sha256_of
from ident3d.storage.inspection import names_faults, pictures_faults, shard_faults
from ident3d.storage.layouts import LAYOUTS, resolve_root
from ident3d.storage.manifest import MANIFEST_NAME, Manifest, ShardRecord
from ident3d.storage.native import DATA_FOLDER
from ident3d.storage.shard import ShardReader

__all__ = ["verify"]


def verify(root: str | Path, tick: Callable[[int], object] = lambda _: None) -> list[str]:
    """Check a dataset of any layout.

    Of a folder that ``python -m render`` made: every planned shard is there and listed once, with the checksum and
    the ids of the manifest, and nothing else is; latents and exact positives are those that follow from the seed. Of
    every dataset: each picture decodes and has the right size, latents are finite and in [-1, 1], and no row of
    latents is in two splits.

    Args:
        root: the dataset's folder, or "sample".
        tick: called with the number of rows whose pictures were checked since the last call.

    Returns:
        One line for each thing that is wrong; none for a sound dataset.

    Raises:
        FileNotFoundError: if there is no such folder.
        DatasetError: if it holds no dataset at all.
    """
    folder = resolve_root(root)
    splits = {layout: find(folder) for layout, (find, _) in LAYOUTS.items()}
    has_manifest = (folder / MANIFEST_NAME).exists()
    if not has_manifest and not any(splits.values()):
        raise DatasetError(f"{folder} holds no dataset: no {MANIFEST_NAME}, and no pictures in any layout")
    verification = _Verification(folder, tick)
    manifest = verification.manifest() if has_manifest else None
    if manifest is not None and (splits["native"] or not any(splits.values())):
        verification.shards(manifest)
        splits["native"] = []
    for layout, names in splits.items():
        for split in names:
            verification.split(layout, split)
    verification.overlaps()
    return verification.faults


@dataclass(eq=False)
class _Verification:
    root: Path
    tick: Callable[[int], object]
    faults: list[str] = field(default_factory=list)
    latents: dict[str, list[npt.NDArray[np.float32]]] = field(default_factory=dict)

    def manifest(self) -> Manifest | None:
        try:
            return Manifest.read(self.root)
        except DatasetError as error:
            self.faults.append(str(error))
            return None

    def shards(self, manifest: Manifest) -> None:
        """Check the shards of a manifest one by one, so that one that is damaged hides nothing about the others."""
        self.faults += names_faults(self.root, manifest)
        planned = {name: rows for split in manifest.splits for name, rows in manifest.planned(split)}
        for record in manifest.shards:
            if record.name in planned and (self.root / DATA_FOLDER / record.name).is_file():
                try:
                    self.shard(manifest, record, planned[record.name])
                except DatasetError as error:
                    self.faults.append(str(error))
        self.given(manifest)

    def shard(self, manifest: Manifest, record: ShardRecord, rows: range) -> None:
        path = self.root / DATA_FOLDER / record.name
        if sha256_of(path) != record.sha256:
            self.faults.append(f"{path}: its checksum is not that of the manifest; render or fetch it again")
        reader = ShardReader(path)
        self.faults += list(shard_faults(reader, manifest, record, rows))
        self.latents.setdefault(record.split, []).append(reader.latents())
        self.pictures(str(path), reader.index(), reader.picture, (manifest.resolution,), pairs=reader.has_pairs)

    def pictures(
        self,
        where: str,
        ids: npt.NDArray[np.int64],
        encoded: Callable[..., bytes],
        sizes: Collection[int],
        *,
        pairs: bool,
    ) -> None:
        self.faults += pictures_faults(where, ids, encoded, sizes, self.tick)
        if pairs:
            positives = partial(encoded, positive=True)
            self.faults += pictures_faults(f"{where}, exact positives", ids, positives, sizes, lambda _: None)

    def given(self, manifest: Manifest) -> None:
        """Check the checksum of latents that were given, once all of them are there."""
        sources = manifest.latents if not isinstance(manifest.latents, str) else {}
        for split, source in sources.items():
            found = np.concatenate(self.latents.get(split, [np.empty((0, len(manifest.factors)), np.float32)]))
            digest = hashlib.sha256(np.ascontiguousarray(found, dtype="<f4").tobytes()).hexdigest()
            if source not in ("uniform", digest) and len(found) == manifest.splits[split]:
                self.faults.append(f"{self.root}, {split}: the latents are not those that the manifest was made for")

    def split(self, layout: str, split: str) -> None:
        """Check a split that is no shard of a manifest, as its reader sees it."""
        try:
            stored = LAYOUTS[layout][1](self.root, split)
        except (DatasetError, FileNotFoundError) as error:
            self.faults.append(str(error))
            return
        where = f"{self.root}, {split} ({layout})"
        twice = len(stored.ids) - len(np.unique(stored.ids))
        if twice:
            self.faults.append(f"{where}: {twice} ids are there more than once")
        sizes = () if stored.manifest is None else (stored.manifest.resolution,)
        self.latents.setdefault(split, []).append(stored.latents)
        pairs = stored.latents_pos is not None
        self.pictures(where, stored.ids, stored.encoded, sizes, pairs=pairs)

    def overlaps(self) -> None:
        """Check that no row of latents is in two splits."""
        rows = {split: {row.tobytes() for part in parts for row in part} for split, parts in self.latents.items()}
        for one, other in combinations(sorted(rows, reverse=True), 2):
            shared = len(rows[one] & rows[other])
            if shared:
                self.faults.append(f"{self.root}: {shared} rows of latents are both in {one} and in {other}")
