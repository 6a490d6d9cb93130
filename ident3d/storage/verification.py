"""Verification of a dataset on disk: everything that can be told without rendering it again."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.files import sha256_of
from ident3d.latents import check_latents, sample_latents
from ident3d.storage.images import check_integrity, decode
from ident3d.storage.layouts import LAYOUTS, resolve_root
from ident3d.storage.manifest import DATA_FOLDER, MANIFEST_NAME, Manifest, ShardRecord
from ident3d.storage.native import ShardReader

__all__ = ["images_faults", "latents_faults", "names_faults", "shard_faults", "verify"]

_ROWS_AT_ONCE = 512
_NAMES_SHOWN = 3
_SAMPLER_TOLERANCE = 1e-5  # releases of torch may round a draw differently


def names_faults(root: Path, manifest: Manifest) -> Iterator[str]:
    """Yield what is missing, duplicated or foreign among the shards that are planned, listed and there."""
    planned = {name for split in manifest.splits for name, _ in manifest.planned(split)}
    names = [record.name for record in manifest.shards]
    listed = set(names)
    there = {path.name for path in (root / DATA_FOLDER).glob("*.parquet")}
    kinds = {
        "planned and not there yet: render them": planned - there - listed,
        "in the manifest and not there: render or fetch them again": listed - there,
        "there and not in the manifest: python -m render ROOT --merge lists them": (there & planned) - listed,
        "there and not planned: they belong to another dataset": there - planned,
        "in the manifest and not planned": listed - planned,
        "in the manifest more than once": {name for name in names if names.count(name) > 1},
    }
    for what, found in kinds.items():
        if found:
            shown = ", ".join(sorted(found)[:_NAMES_SHOWN])
            rest = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
            yield f"{root / DATA_FOLDER}: {shown}{rest}: {what}"


def shard_faults(reader: ShardReader, manifest: Manifest, record: ShardRecord, rows: range) -> Iterator[str]:
    """Yield what is wrong with the ids and the latents of a shard.

    Args:
        reader: the shard.
        manifest: the manifest that lists it.
        record: its record in the manifest.
        rows: the ids that are planned for it.

    Raises:
        DatasetError: if a column cannot be read.
    """
    path = reader.path
    if (record.start, record.rows) != (rows.start, len(rows)):
        yield f"{path}: the manifest lists {record.rows} rows from {record.start} on, and plans {len(rows)}"
    if not np.array_equal(reader.index(), np.array(rows)):
        yield f"{path}: its ids are not {rows.start} to {rows.stop - 1}, as planned"
        return
    if reader.has_pairs != (manifest.pairs is not None):
        yield f"{path} holds {'' if reader.has_pairs else 'no '}exact positives, and the manifest says otherwise"
        return
    latents = reader.latents()
    faults = list(latents_faults(str(path), latents, manifest, record.split, rows.start))
    if reader.has_pairs:
        where, positives = f"{path}, exact positives", reader.latents("latents_pos")
        faults += _range_faults(where, positives, manifest)
        if not faults:  # the positives follow from the latents
            faults += _positives_faults(where, latents, positives, manifest, record)
    yield from faults


def latents_faults(
    where: str, latents: npt.NDArray[np.float32], manifest: Manifest, split: str, start: int
) -> Iterator[str]:
    """Yield what is wrong with the latents of consecutive rows: out of range, or not those of the seed.

    Args:
        where: what they are, for the message.
        latents: (n, d) float32.
        manifest: the manifest of their dataset.
        split: name of the split.
        start: id of the first row.
    """
    faults = list(_range_faults(where, latents, manifest))
    yield from faults
    source = manifest.latents if isinstance(manifest.latents, str) else manifest.latents[split]
    if faults or source != "uniform" or manifest.seed is None:
        return
    expected = sample_latents(len(latents), manifest.seed, start, split=split, factors=manifest.factors)
    different = np.flatnonzero((latents != expected).any(axis=1))
    if len(different):
        yield (
            f"{where}: {len(different)} rows of latents, {start + different[0]} first, are not those of seed "
            f"{manifest.seed}"
        )


def images_faults(
    where: str,
    ids: npt.NDArray[np.int64],
    encoded: Callable[[int], bytes],
    sizes: Collection[int],
    tick: Callable[[int], object],
) -> Iterator[str]:
    """Yield images that do not decode, are not square, or have an unexpected size; a line for each kind of fault.

    Args:
        where: what holds them, for the message.
        ids: (n,) int64, the ids of the rows.
        encoded: returns the file of the image of a row, 0 to n - 1.
        sizes: the sizes in pixels that are expected; any one size where empty.
        tick: called with the number of rows that were checked since the last call.
    """
    unreadable: list[str] = []
    shapes: dict[tuple[int, ...], int] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding runs without the interpreter's lock, reading does not
        for first in range(0, len(ids), _ROWS_AT_ONCE):
            rows = range(first, min(first + _ROWS_AT_ONCE, len(ids)))
            files = [_read(encoded, row) for row in rows]
            names = [f"{where}, id {ids[row]}," for row in rows]
            for row, found in zip(rows, pool.map(_shape, files, names), strict=True):
                if isinstance(found, str):
                    unreadable.append(found)
                else:
                    shapes.setdefault(found, row)
            tick(len(rows))
    if unreadable:
        yield f"{unreadable[0]}{f' ({len(unreadable)} such images)' if len(unreadable) > 1 else ''}"
    expected: set[tuple[int, ...]] = {(size, size, 3) for size in sizes}
    if not sizes:
        expected = {shape for shape in list(shapes)[:1] if shape[0] == shape[1]}
    for shape, row in shapes.items():
        if shape not in expected:
            sought = " or ".join(f"{size}x{size}" for size in sorted(sizes)) or "all square, and of one size"
            yield f"{where}, id {ids[row]}: an image of {shape[1]}x{shape[0]} pixels; expected {sought}"


def _read(encoded: Callable[[int], bytes], row: int) -> bytes | str:
    """Return the file of an image, or why it cannot be read."""
    try:
        return encoded(row)
    except DatasetError as error:
        return str(error)


def _shape(file: bytes | str, name: str) -> tuple[int, ...] | str:
    """Return the shape of an image, or why it has none."""
    if isinstance(file, str):
        return file
    try:
        check_integrity(file, name)
        return decode(file, name).shape
    except DatasetError as error:
        return str(error)


def _range_faults(where: str, latents: npt.NDArray[np.float32], manifest: Manifest) -> Iterator[str]:
    try:
        check_latents(latents, manifest.factors)
    except ValueError as error:
        yield f"{where}: {error}"


def _positives_faults(
    where: str,
    latents: npt.NDArray[np.float32],
    positives: npt.NDArray[np.float32],
    manifest: Manifest,
    record: ShardRecord,
) -> Iterator[str]:
    if manifest.pairs is None or manifest.seed is None:
        return
    # These load torch, which most datasets are verified without.
    from ident3d.conditionals import parse
    from ident3d.pairs.rendered import exact_positives

    try:
        conditional = parse(manifest.pairs, manifest.factors)
    except ValueError as error:
        yield f"{where}: the conditional {manifest.pairs!r} of the manifest is not understood: {error}"
        return
    expected = exact_positives(latents, conditional, manifest.seed, split=record.split, start=record.start)
    different = np.flatnonzero((np.abs(positives - expected) > _SAMPLER_TOLERANCE).any(axis=1))
    if len(different):
        first = record.start + different[0]
        yield f"{where}: {len(different)} rows, {first} first, are not those of seed {manifest.seed}"


def verify(root: str | Path, tick: Callable[[int], object] = lambda _: None) -> list[str]:
    """Check a dataset of any layout.

    Of a folder that ``python -m render`` made: every planned shard is there and listed once, with the checksum and
    the ids of the manifest, and nothing else is; latents and exact positives are those that follow from the seed. Of
    every dataset: each image decodes and has the right size, latents are finite and in [-1, 1], and no row of
    latents is in two splits.

    Args:
        root: the dataset's folder, or "sample".
        tick: called with the number of rows whose images were checked since the last call.

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
        raise DatasetError(f"{folder} holds no dataset: no {MANIFEST_NAME}, and no images in any layout")
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
        ids, sizes = reader.index(), (manifest.resolution,)
        self.faults += images_faults(str(path), ids, reader.image, sizes, self.tick)
        if reader.has_pairs:
            positives = partial(reader.image, column="image_pos")
            self.faults += images_faults(f"{path}, exact positives", ids, positives, sizes, lambda _: None)

    def given(self, manifest: Manifest) -> None:
        """Check the checksum of latents that were given, once all of them are there."""
        sources = manifest.latents if not isinstance(manifest.latents, str) else {}
        for split, source in sources.items():
            found = np.concatenate(self.latents.get(split, [np.empty((0, len(manifest.factors)), np.float32)]))
            digest = hashlib.sha256(np.ascontiguousarray(found, dtype="<f4").tobytes()).hexdigest()
            if source not in ("uniform", digest) and len(found) == manifest.splits[split]:
                self.faults.append(f"{self.root}, {split}: the latents are not those that the manifest was made for")

    def split(self, layout: str, split: str) -> None:
        """Check a split that no manifest lists the shards of, as its reader sees it."""
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
        self.faults += images_faults(where, stored.ids, stored.encoded, sizes, self.tick)
        if stored.positives is not None:
            positives = stored.positives.encoded
            self.faults += images_faults(f"{where}, exact positives", stored.ids, positives, sizes, lambda _: None)

    def overlaps(self) -> None:
        """Check that no row of latents is in two splits."""
        rows = {split: {row.tobytes() for part in parts for row in part} for split, parts in self.latents.items()}
        for one, other in combinations(sorted(rows, reverse=True), 2):
            shared = len(rows[one] & rows[other])
            if shared:
                self.faults.append(f"{self.root}: {shared} rows of latents are both in {one} and in {other}")
