"""Verification of a dataset on disk: everything that can be checked without rendering it again."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ident3d.codec import read_file, unsealed
from ident3d.errors import DatasetError, Ident3DError, NotLoadedError
from ident3d.files import sha256_of
from ident3d.latents import check_latents, latents_sha256, sample_latents
from ident3d.storage.card import CARD_NAME, card_fault, is_card_as_composed
from ident3d.storage.decoded import CACHE_FOLDER, CacheRecord
from ident3d.storage.images import check_integrity, decode
from ident3d.storage.layouts import LAYOUTS, no_dataset, resolve_root
from ident3d.storage.manifest import (
    DATA_FOLDER,
    MANIFEST_NAME,
    Manifest,
    ShardRecord,
    native_splits,
    shard_paths,
)
from ident3d.storage.native import NativeSplit, ShardReader
from ident3d.storage.published import CHECKSUMS, PublishedSplit, published_splits, read_checksums
from ident3d.storage.split import StoredSplit

if TYPE_CHECKING:  # it loads torch, which most datasets are verified without
    from ident3d.conditionals import Conditional

__all__ = [
    "VerificationReport",
    "images_faults",
    "images_to_verify",
    "latents_faults",
    "names_faults",
    "positives_conditional",
    "shard_faults",
    "verify",
]

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
        "there and not planned: they belong to another dataset, move them away or delete them": there - planned,
        "in the manifest and not planned": listed - planned,
        "in the manifest more than once": {name for name in names if names.count(name) > 1},
    }
    for what, found in kinds.items():
        if found:
            yield f"{root / DATA_FOLDER}: {_shown(list(found))}: {what}"


def positives_conditional(manifest: Manifest, given: str | None = None) -> "Conditional | None":
    """Return what the exact positives of a dataset were drawn from; None where it has none, or their seed is unknown.

    A manifest may come from anybody, so its own text imports no module: it names what is registered, or a class of a
    module that is imported already.

    Args:
        manifest: the dataset's manifest.
        given: the conditional's text once more, from the user, which may import the module that it names.

    Raises:
        NotLoadedError: if the manifest names something that is neither registered nor imported.
        ValueError: if the manifest's text cannot be read, or is of no conditional on the space of its latents,
            or ``given`` is another one or cannot be read.
    """
    if manifest.pairs is None or manifest.seed is None:
        if given is not None:
            raise ValueError(
                f"{given!r} is given as the conditional of exact positives, and there are none that follow from a seed"
            )
        return None
    from ident3d.conditionals import parse

    space = manifest.factor_space()
    wanted = None if given is None else parse(given, space.own)
    conditional = parse(manifest.pairs, space.own, may_import=False)
    conditional.check(space.space)
    if wanted not in (None, conditional):
        raise ValueError(
            f"the exact positives were drawn from {manifest.pairs}, as the manifest says, not from {given}"
        )
    return conditional


def shard_faults(
    reader: ShardReader, manifest: Manifest, record: ShardRecord, rows: range, conditional: "Conditional | None"
) -> Iterator[str]:
    """Yield what is wrong with the ids and the latents of a shard.

    Args:
        reader: the shard.
        manifest: the manifest that lists it.
        record: its record in the manifest.
        rows: the ids that are planned for it.
        conditional: what exact positives were drawn from; they are not held against it where None.

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
        if conditional is not None and manifest.seed is not None and not faults:  # they follow from the latents
            expected = _drawn(conditional, latents, manifest, record)
            different = np.flatnonzero((np.abs(positives - expected) > _SAMPLER_TOLERANCE).any(axis=1))
            if len(different):
                first = record.start + different[0]
                faults.append(f"{where}: {len(different)} rows, {first} first, are not those of seed {manifest.seed}")
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
    if faults or manifest.latents_of(split) != "uniform" or manifest.seed is None:
        return
    if manifest.subset is None:
        expected = sample_latents(len(latents), manifest.seed, start, split=split, factors=manifest.factors)
        different = np.flatnonzero((latents != expected).any(axis=1))
    else:
        expected = manifest.factor_space().rows(len(latents), manifest.seed, start, split=split).numpy()
        different = np.flatnonzero((np.abs(latents - expected) > _SAMPLER_TOLERANCE).any(axis=1))
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
        if manifest.subset is not None:
            import torch

            manifest.factor_space().check(torch.from_numpy(np.array(latents)))
    except ValueError as error:
        yield f"{where}: {error}"


def _drawn(
    conditional: "Conditional", latents: npt.NDArray[np.float32], manifest: Manifest, record: ShardRecord
) -> npt.NDArray[np.float32]:
    """Return the positives of a shard's rows as they follow from its latents."""
    from ident3d.pairs.rendered import exact_positives

    space = None if manifest.subset is None else manifest.factor_space()
    seed = manifest.seed or 0
    return exact_positives(latents, conditional, seed, split=record.split, start=record.start, space=space)


@dataclass(frozen=True)
class VerificationReport:
    """What came of verifying a dataset.

    Attributes:
        faults: one line for each thing that is wrong.
        unchecked: one line for each thing that nothing in the folder allows to check.
    """

    faults: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether everything was checked, and nothing is wrong."""
        return not self.faults and not self.unchecked


def images_to_verify(root: str | Path) -> int | None:
    """Return how many images :func:`verify` looks at, for a progress bar; None where a fault hides it.

    Args:
        root: the dataset's folder, or "sample".
    """
    folder = resolve_root(root)
    try:
        native = [NativeSplit(folder, split) for split in native_splits(folder)]
        stored = [PublishedSplit(folder, split) for split in published_splits(folder)]
    except (OSError, ValueError, Ident3DError):
        return None
    return sum(len(one.ids) * (1 if one.positives is None else 2) for one in (*native, *stored))


def verify(
    root: str | Path, tick: Callable[[int], object] = lambda _: None, *, pairs: str | None = None
) -> VerificationReport:
    """Check a dataset of any layout.

    Of every dataset: each image decodes and has the right size, latents are finite, in [-1, 1] and those that follow
    from the seed where there is one, no row of latents is in two splits, and the manifest is as it was written. Of the
    native layout: every planned shard is there and listed once, with the checksum and the ids of the manifest, made
    with its settings, and nothing else is; the card says which files and columns there are, and its text is reported as
    unchecked where it was edited. Of a conversion to the published layout: every file has its checksum. Of a decoded
    cache: every file has its checksum, and where the images that it was made from are beside it, the pixels are theirs.

    Args:
        root: the dataset's folder, or "sample".
        tick: called with the number of rows whose images were checked since the last call.
        pairs: text of the conditional that exact positives were drawn from. It is needed only for one of your own in a
            module that is not imported: nothing that the folder holds is run, so that its manifest imports no module.

    Returns:
        What is wrong, and what could not be checked.

    Raises:
        ValueError: if ``pairs`` cannot be read, or is not the conditional of the manifest.
        FileNotFoundError: if there is no such folder.
        DatasetError: if it holds no dataset at all.
    """
    folder = resolve_root(root)
    splits = {layout: find(folder) for layout, (find, _) in LAYOUTS.items()}
    has_manifest = os.path.lexists(folder / MANIFEST_NAME)
    if not has_manifest and not any(splits.values()):
        raise no_dataset(folder)
    verification = _Verification(folder, tick)
    manifest = verification.read_manifest() if has_manifest else None
    if manifest is not None and (splits["native"] or not any(splits.values())):
        verification.shards(manifest, pairs)
        verification.card(manifest)
        splits["native"] = []
    elif manifest is not None:
        verification.missing_splits(manifest, {split for names in splits.values() for split in names})
    if not has_manifest:
        verification.without_manifest(splits)
    verification.published_files(splits["published"])
    verification.cache_files()
    for layout, names in splits.items():
        for split in names:
            verification.split(layout, split)
    verification.overlaps()
    return VerificationReport(tuple(verification.faults), tuple(verification.unchecked))


@dataclass(eq=False)
class _Verification:
    root: Path
    tick: Callable[[int], object]
    faults: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    latents: dict[str, list[npt.NDArray[np.float32]]] = field(default_factory=dict)
    is_sealed: bool | None = None  # whether the manifest is as it was written; None where it has no checksum

    def read_manifest(self) -> Manifest | None:
        path = self.root / MANIFEST_NAME
        try:
            manifest = Manifest.read(self.root)
            _, self.is_sealed = unsealed(read_file(path, ""))
        except (DatasetError, OSError, ValueError) as error:
            self.faults.append(str(error))
            return None
        if self.is_sealed is None:
            self.unchecked.append(f"{path}: whether it was changed, since it holds no checksum of its own")
        elif not self.is_sealed:
            self.faults.append(f"{path} was changed after it was written: restore it, or fetch it again")
        return manifest

    def conditional(self, manifest: Manifest, given: str | None) -> "Conditional | None":
        """Return what exact positives were drawn from; None where there are none, or it is not to be had."""
        try:
            return positives_conditional(manifest, given)
        except NotLoadedError as error:
            self.unchecked.append(
                f"{self.root}: whether the exact positives are those of the seed: {error}, or give the conditional as "
                "it was given for rendering, with --pairs"
            )
        except ValueError as error:
            if given is not None:
                raise
            self.faults.append(f"{self.root / MANIFEST_NAME}: its conditional is not understood: {error}")
        return None

    def shards(self, manifest: Manifest, pairs: str | None) -> None:
        """Check the shards of a manifest one by one, so that one that is damaged hides nothing about the others."""
        self.faults += names_faults(self.root, manifest)
        conditional = self.conditional(manifest, pairs)
        planned = {name: rows for split in manifest.splits for name, rows in manifest.planned(split)}
        settings: dict[str, str] = {}
        for record in manifest.shards:
            path = self.root / DATA_FOLDER / record.name
            if record.name not in planned or not os.path.lexists(path):
                continue
            if not path.is_file():
                self.faults.append(f"{path} is not a regular file; render or fetch it again")
                continue
            try:
                settings[record.name] = self.shard(manifest, record, planned[record.name], conditional)
            except (DatasetError, OSError) as error:
                self.faults.append(str(error))
        self.settings(manifest, settings)
        for split in manifest.splits if settings else ():
            found = np.concatenate(self.latents.get(split, [np.empty((0, len(manifest.factors)), np.float32)]))
            self.faults += _given_faults(self.root, found, manifest, split)

    def shard(self, manifest: Manifest, record: ShardRecord, rows: range, conditional: "Conditional | None") -> str:
        """Check a shard, and return the fingerprint of the settings that it was made with."""
        path = self.root / DATA_FOLDER / record.name
        if sha256_of(path) != record.sha256:
            self.faults.append(f"{path}: its checksum is not that of the manifest; render or fetch it again")
        reader = ShardReader(path)
        self.faults += list(shard_faults(reader, manifest, record, rows, conditional))
        self.latents.setdefault(record.split, []).append(reader.latents())
        ids, sizes = reader.index(), (manifest.resolution,)
        self.faults += images_faults(str(path), ids, reader.image, sizes, self.tick)
        if reader.has_pairs:
            positives = partial(reader.image, column="image_pos")
            self.faults += images_faults(f"{path}, exact positives", ids, positives, sizes, lambda _: None)
        return reader.settings

    def settings(self, manifest: Manifest, found: dict[str, str]) -> None:
        """Check that the manifest holds the settings that the shards were made with."""
        foreign = [name for name, settings in found.items() if settings not in ("", manifest.settings_digest)]
        # A manifest with a checksum of its own binds the settings to the shards, whose checksums it lists.
        silent = [name for name, settings in found.items() if not settings and not self.is_sealed]
        if foreign:
            self.faults.append(
                f"{self.root / MANIFEST_NAME} does not hold the settings that {_shown(foreign)} were made with: it was "
                "edited, or these shards are of another dataset; restore it, or render or fetch them again"
            )
        if silent:
            self.unchecked.append(
                f"{self.root / MANIFEST_NAME}: whether {_shown(silent)} were made with its settings, which they do not "
                "record"
            )

    def card(self, manifest: Manifest) -> None:
        """Check the card: what `datasets` reads of it has to be as composed, and the rest may have been edited."""
        path = self.root / CARD_NAME
        try:
            if is_card_as_composed(self.root, manifest):
                return
            fault = card_fault(self.root, manifest)
        except FileNotFoundError:
            fault = f"{path} is missing, the dataset card: fetch, convert or render the dataset again"
        except (OSError, ValueError) as error:
            fault = f"{path} cannot be read ({error})"
        if fault:
            self.faults.append(fault)
        else:
            self.unchecked.append(f"{path}: its text, which was edited, or written by another ident3d")

    def missing_splits(self, manifest: Manifest, there: set[str]) -> None:
        """Check that every split of the manifest is there in some layout."""
        self.faults += [
            f"{self.root}: the split {split!r} of the manifest is not there; fetch or convert it again"
            for split, count in manifest.splits.items()
            if count and split not in there
        ]

    def without_manifest(self, splits: Mapping[str, list[str]]) -> None:
        """Report what cannot be checked without a manifest, and whether there was one."""
        for split in splits["native"]:
            try:
                had_one = any(ShardReader(path).settings for path in shard_paths(self.root, split))
            except (DatasetError, OSError):
                continue  # the split's own check says so
            if had_one:
                self.faults.append(
                    f"{self.root / MANIFEST_NAME} is missing, and the shards of the split {split!r} were written "
                    "beside one: restore it, or fetch or render the dataset again"
                )
        named = {split for layout in ("native", "published") for split in splits[layout]}
        if named:
            self.unchecked.append(
                f"{self.root}: whether latents and settings of {', '.join(sorted(named, reverse=True))} are those that "
                f"were rendered: there is no {MANIFEST_NAME}"
            )

    def published_files(self, splits: list[str]) -> None:
        """Check the checksums of the published layout."""
        try:
            sums = read_checksums(self.root)
        except DatasetError as error:
            self.faults.append(str(error))
            return
        if sums is None:
            self.unchecked += [
                f"{self.root}, {split}: whether the images are those that were published or converted: there is no "
                f"{CHECKSUMS}"
                for split in splits
            ]
            return
        wrong = [fault for name, sha256 in sums.items() if (fault := _file_fault(self.root / name, sha256))]
        self.faults += wrong[:_NAMES_SHOWN]
        if len(wrong) > _NAMES_SHOWN:
            self.faults.append(f"{self.root}: {len(wrong) - _NAMES_SHOWN} more files are not as {CHECKSUMS} says")

    def cache_files(self) -> None:
        """Check the checksums of a decoded cache."""
        folder = self.root / CACHE_FOLDER
        if not folder.is_dir():
            return
        try:
            record = CacheRecord.read(folder)
        except DatasetError as error:
            self.faults.append(str(error))
            return
        if not record.checksums:
            self.unchecked.append(f"{folder}: whether its files are as they were written: it holds no checksums")
        for name, sha256 in record.checksums.items():
            fault = _file_fault(folder / Path(name).name, sha256)
            if fault:
                self.faults.append(f"{fault}; convert the dataset again")

    def split(self, layout: str, split: str) -> None:
        """Check a split that no manifest lists the shards of, as its reader sees it."""
        try:
            stored = LAYOUTS[layout][1](self.root, split)
        except (DatasetError, FileNotFoundError) as error:
            if str(error) not in self.faults:  # an unreadable manifest or record is reported once
                self.faults.append(str(error))
            return
        where = f"{self.root}, {split} ({layout})"
        twice = len(stored.ids) - len(np.unique(stored.ids))
        if twice:
            self.faults.append(f"{where}: {twice} ids are there more than once")
        sizes = () if stored.manifest is None else (stored.manifest.resolution,)
        self.latents.setdefault(split, []).append(stored.latents)
        if stored.manifest is not None and split in stored.manifest.splits:
            self.faults += latents_faults(where, stored.latents, stored.manifest, split, 0)
            self.faults += _given_faults(self.root, stored.latents, stored.manifest, split)
        self.faults += images_faults(where, stored.ids, stored.encoded, sizes, self.tick)
        if stored.positives is not None:
            positives = stored.positives.encoded
            self.faults += images_faults(f"{where}, exact positives", stored.ids, positives, sizes, lambda _: None)
        if layout == "decoded":
            self.against_source(stored)

    def against_source(self, cached: StoredSplit) -> None:
        """Check that the pixels of a decoded cache are those of the images beside it."""
        for layout in ("native", "published"):
            find, opened = LAYOUTS[layout]
            if cached.split not in find(self.root):
                continue
            try:
                different = _different_rows(cached, opened(self.root, cached.split))
            except (DatasetError, FileNotFoundError):
                return  # the check of that layout says so
            if different:
                self.faults.append(
                    f"{cached.place(different[0])} is not the image beside the cache ({len(different)} such "
                    f"rows): convert the dataset again, or remove {self.root / CACHE_FOLDER}"
                )
            return

    def overlaps(self) -> None:
        """Check that no row of latents is in two splits."""
        rows = {split: {row.tobytes() for part in parts for row in part} for split, parts in self.latents.items()}
        for one, other in combinations(sorted(rows, reverse=True), 2):
            shared = len(rows[one] & rows[other])
            if shared:
                self.faults.append(f"{self.root}: {shared} rows of latents are both in {one} and in {other}")


def _file_fault(path: Path, sha256: str) -> str:
    """Return what is wrong with a file that should have a checksum; nothing where it has it."""
    try:
        return "" if sha256_of(path) == sha256 else f"{path}: its checksum is not the one that was recorded"
    except FileNotFoundError:
        return f"{path} is missing"
    except (OSError, ValueError) as error:
        return f"{path} cannot be read ({error})"


def _given_faults(root: Path, latents: npt.NDArray[np.float32], manifest: Manifest, split: str) -> list[str]:
    """Return what is wrong with all the latents of a split that the manifest holds a checksum of."""
    if manifest.latents_of(split) in ("uniform", latents_sha256(latents)) or len(latents) != manifest.splits[split]:
        return []
    return [f"{root}, {split}: the latents are not those that the manifest was made for"]


def _different_rows(cached: StoredSplit, source: StoredSplit) -> list[int]:
    """Return the rows at which a cache holds other latents or other pixels than what it was made from."""
    if not np.array_equal(cached.ids, source.ids):
        return [0]
    different = set(np.flatnonzero((cached.latents != source.latents).any(axis=1)).tolist())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for first in range(0, len(source.ids), _ROWS_AT_ONCE):
            rows = range(first, min(first + _ROWS_AT_ONCE, len(source.ids)))
            images = zip(rows, source.read(rows, pool), strict=True)
            different |= {row for row, image in images if not np.array_equal(image.pixels, cached.pixels(row))}
    return sorted(different)


def _shown(names: list[str]) -> str:
    rest = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(sorted(names)[:_NAMES_SHOWN])}{rest}"
