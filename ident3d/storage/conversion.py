"""Conversion of a dataset from one layout to another, pixel for pixel."""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from filelock import FileLock
from tqdm import tqdm

from ident3d.arguments import check_count
from ident3d.errors import DatasetError
from ident3d.files import check_disk_space, sha256_of
from ident3d.latents import to_physical
from ident3d.storage.card import write_card
from ident3d.storage.decoded import (
    CACHE_FOLDER,
    CacheRecord,
    DecodedSplit,
    array_path,
    decoded_splits,
    source_signature,
)
from ident3d.storage.images import EncodedImage, encode_png
from ident3d.storage.layouts import LAYOUTS, no_dataset, resolve_root
from ident3d.storage.manifest import DATA_FOLDER, Manifest, ShardRecord
from ident3d.storage.native import ShardRows, write_shard
from ident3d.storage.published import IMAGES_FOLDER, PHYSICAL_LATENTS, RAW_LATENTS, image_name
from ident3d.storage.split import StoredImages, StoredSplit

__all__ = [
    "ROWS_PER_SHARD",
    "Source",
    "Target",
    "convert",
    "manifest_of",
    "write_decoded",
    "write_native",
    "write_published",
]

_AT_ONCE = 256
_UNKNOWN = "a conditional that is not recorded"


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
                    f"{split.root} holds {len(split.latents)} of the {planned} images of the split {split.split!r}, "
                    "or not in order: finish rendering it first"
                )
        if len({split.positives is None for split in splits}) > 1:
            raise DatasetError(f"{splits[0].root}: some splits hold exact positives and some do not")
        return cls({split.split: split for split in splits}, manifest_of(splits))

    @property
    def has_positives(self) -> bool:
        """Whether every row also holds an exact positive."""
        return any(split.positives is not None for split in self.splits.values())

    @property
    def rows(self) -> int:
        """The number of rows of all splits."""
        return sum(len(split.latents) for split in self.splits.values())

    def images(self, stored: StoredImages, advance: Callable[[], object]) -> Iterator[EncodedImage]:
        """Yield images in order, a few hundred in memory at a time.

        Each is decoded, so that a damaged one is found here and not after the conversion.

        Args:
            stored: a split of this source, or the exact positives of one.
            advance: called after every image.

        Raises:
            DatasetError: if an image is damaged, or not as large as the manifest says.
        """
        side = self.manifest.resolution
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for start in range(0, len(stored.latents), _AT_ONCE):
                rows = range(start, min(start + _AT_ONCE, len(stored.latents)))
                for row, image in zip(rows, stored.read(rows, pool), strict=True):
                    height, width = image.pixels.shape[:2]
                    if not height == width == side:
                        raise DatasetError(
                            f"{stored.place(row)} is {width}x{height} pixels; the dataset's are {side}x{side}"
                        )
                    advance()
                    yield image


def manifest_of(splits: Sequence[StoredSplit]) -> Manifest:
    """Return the manifest of the dataset that ``splits`` make up, or what can be told of it where it has none."""
    told = [split.provenance() for split in splits]
    if splits[0].positives is not None and told[0].pairs is None:
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


_PNG = b"\x89PNG\r\n\x1a\n"
_ELSEWHERE = "other"  # the licence on a card, where images come from elsewhere


def write_native(source: Source, folder: Path, advance: Callable[[], object], rows_per_shard: int) -> None:
    """Write a dataset as Parquet shards, with manifest and card.

    Args:
        source: the dataset.
        folder: where it goes.
        advance: called after every image.
        rows_per_shard: images in a shard.
    """
    made_by = {tuple(record.made_by.items()) for record in source.manifest.shards}
    manifest = replace(source.manifest, rows_per_shard=rows_per_shard, shards=())
    records = []
    for split, stored in source.splits.items():
        images, positives = source.images(stored, advance), stored.positives
        images_pos = None if positives is None else source.images(positives, advance)
        for name, rows in manifest.planned(split):
            part = slice(rows.start, rows.stop)
            shard = ShardRows(
                index=stored.ids[part],
                images=_encoded(images, len(rows)),
                latents=stored.latents[part],
                images_pos=None if images_pos is None else _encoded(images_pos, len(rows)),
                latents_pos=None if positives is None else positives.latents[part],
            )
            path = folder / DATA_FOLDER / name
            write_shard(path, shard)
            # Who rendered a shard is known where all shards of the source were rendered alike.
            origin = dict(next(iter(made_by))) if len(made_by) == 1 else {}
            records.append(ShardRecord(name, split, rows.start, len(rows), sha256_of(path), origin))
    finished = manifest.with_shards(tuple(records))
    finished.write(folder)
    if _is_published(source):
        write_card(folder, finished, _ELSEWHERE)
    else:
        write_card(folder, finished)


def write_published(source: Source, folder: Path, advance: Callable[[], object]) -> None:
    """Write a dataset as ``raw_latents.npy``, ``latents.npy`` and ``images/`` a split, and a manifest beside them.

    Exact positives have no place in this layout and are left out.

    Args:
        source: the dataset.
        folder: where it goes.
        advance: called after every image.
    """
    for split, stored in source.splits.items():
        files = folder / split / IMAGES_FOLDER
        files.mkdir(parents=True)
        np.save(folder / split / RAW_LATENTS, stored.latents)
        np.save(folder / split / PHYSICAL_LATENTS, to_physical(stored.latents, stored.factors))
        for row, image in enumerate(source.images(stored, advance)):
            is_png = image.encoded.startswith(_PNG)
            path = files / image_name(row, len(stored.latents))
            path.write_bytes(image.encoded if is_png else encode_png(image.pixels))
    replace(source.manifest, shards=(), pairs=None).write(folder)


def write_decoded(source: Source, folder: Path, advance: Callable[[], object]) -> None:
    """Write a dataset as uint8 arrays, with a record of what they were made from.

    Args:
        source: the dataset.
        folder: where the arrays go.
        advance: called after every image.

    Raises:
        OSError: if the disk is too small.
    """
    # Before the images are read: what changes meanwhile makes the cache stale.
    signatures = {split: source_signature(stored.root, split) or "" for split, stored in source.splits.items()}
    for split, stored in source.splits.items():
        np.save(array_path(folder, split, "ids"), stored.ids)
        np.save(array_path(folder, split, "latents"), stored.latents)
        _write_pixels(array_path(folder, split, "pixels"), source, split, source.images(stored, advance))
        positives = stored.positives
        if positives is not None:
            np.save(array_path(folder, split, "latents_pos"), positives.latents)
            _write_pixels(array_path(folder, split, "pixels_pos"), source, split, source.images(positives, advance))
    CacheRecord(source.manifest, signatures).write(folder)


def _write_pixels(path: Path, source: Source, split: str, images: Iterator[EncodedImage]) -> None:
    """Write images as one array; bytes after bytes, since a full disk kills a process that writes to a map."""
    side = source.manifest.resolution
    shape = (len(source.splits[split].latents), side, side, 3)
    with path.open("wb") as file:
        write_header: Callable[..., None] = np.lib.format.write_array_header_1_0
        write_header(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for image in images:
            file.write(image.pixels.tobytes())
        file.flush()
        os.fsync(file.fileno())


def _encoded(images: Iterator[EncodedImage], count: int) -> list[bytes]:
    return [image.encoded for image in islice(images, count)]


def _is_published(source: Source) -> bool:
    return all(stored.manifest is None and stored.layout == "published" for stored in source.splits.values())


_LOG = logging.getLogger(__name__)

Target = Literal["native", "published", "decoded"]
"""The layouts that a dataset can be converted to."""

ROWS_PER_SHARD = 1000
"""Images in a shard of the native layout, where nothing else is asked for."""

_Writer = Callable[[Source, Path, Callable[[], object]], None]

_READ_FROM: tuple[Target, ...] = ("native", "published", "decoded")  # encoded images first: they stay as they are


def convert(root: str | Path, out: str | Path, to: Target, *, rows_per_shard: int = ROWS_PER_SHARD) -> Path:
    """Convert all splits of a dataset to another layout; every image keeps its pixels.

    What is made appears under its name only when it is whole. A run that was interrupted leaves a hidden folder at
    most, which the next run replaces. Of several processes that convert to one place, one works and the others wait;
    the empty file that they wait for, hidden beside what is made, stays.

    Args:
        root: the dataset, in any layout, or "sample".
        out: the folder to make, new or empty. A decoded cache may also go into ``root`` itself: it then lies beside
            the images that it was made from, and is made again if these have changed.
        to: "native": Parquet shards; "published": raw_latents.npy and images/, which leaves exact positives behind;
            "decoded": uint8 memory maps.
        rows_per_shard: images in a shard of the native layout.

    Returns:
        The folder to open, ``out``.

    Raises:
        FileNotFoundError: if ``root`` is not there.
        ValueError: if ``root`` has that layout already, or ``out`` holds something else.
        DatasetError: if the dataset is incomplete, damaged, or holds images of different sizes.
        OSError: if ``out`` cannot be written to, or its disk is too small.
    """
    if to not in LAYOUTS:
        raise ValueError(f"expected one of the layouts {', '.join(_READ_FROM)}, not {to!r}")
    check_count(rows_per_shard, "the number of rows in a shard", 1)
    folder, target = resolve_root(root), Path(out).expanduser().absolute()
    source = _open(folder, to)
    place = _place(folder, target, to)
    if to == "decoded" and _has_cache(source, folder, target):
        return target
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = _hidden(place, "lock")
    lock.touch()  # FileLock would try for ever where no file can be made
    with FileLock(lock):
        _place(folder, target, to)  # again: another process may have made it meanwhile
        if not (to == "decoded" and _has_cache(source, folder, target)):
            _write(source, place, to, rows_per_shard)
    return target


def _write(source: Source, place: Path, to: Target, rows_per_shard: int) -> None:
    """Write a dataset in the layout ``to``, which takes the name ``place`` when it is whole."""
    if to == "published" and source.has_positives:
        _LOG.warning("the published layout has no place for exact positives: they are left behind")
    writers: dict[Target, _Writer] = {
        "native": partial(write_native, rows_per_shard=rows_per_shard),
        "published": write_published,
        "decoded": write_decoded,
    }
    images = source.rows * (2 if source.has_positives and to != "published" else 1)
    if to == "decoded":
        check_disk_space(place.parent, images * 3 * source.manifest.resolution**2, "decoding the images")
    with tqdm(total=images, unit=" images", desc=f"converting to {to}", disable=None) as bar:
        _make(place, lambda folder: writers[to](source, folder, bar.update))


def _make(place: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a hidden neighbour of ``place``, which takes that name when it is whole."""
    staging, old = _hidden(place, "converting"), _hidden(place, "old")
    for left in (staging, old):
        shutil.rmtree(left, ignore_errors=True)  # by a run that was interrupted
    try:
        staging.mkdir()
        write(staging)
        if place.exists():
            place.rename(old)
        staging.rename(place)
    finally:
        for left in (staging, old):
            shutil.rmtree(left, ignore_errors=True)


def _hidden(place: Path, state: str) -> Path:
    return place.with_name(f".{place.name}.{state}")


def _open(folder: Path, to: Target) -> Source:
    for layout in _READ_FROM:
        splits, opened = LAYOUTS[layout]
        there = splits(folder)
        if there and layout == to:
            raise ValueError(f"{folder} is in the {to} layout already")
        if there:
            return Source.of([opened(folder, split) for split in there])
    raise no_dataset(folder)


def _place(folder: Path, target: Path, to: Target) -> Path:
    """Return the folder that is made; ValueError where something else lies there."""
    source, out = folder.resolve(), target.resolve()
    beside = f"to put a decoded cache beside the images of {folder}, give it as OUT too, with --to decoded"
    if out == source and to != "decoded":
        raise ValueError(f"OUT is the dataset itself, {folder}: give another folder ({beside})")
    if out != source and out.is_relative_to(source):
        raise ValueError(f"OUT {target} lies inside of the dataset {folder}: give another folder ({beside})")
    there = next(part for part in (target, *target.parents) if part.exists())
    if not there.is_dir():
        raise ValueError(f"OUT {target} is no folder: {there} is a file; give a folder that is new or empty")
    place = target / CACHE_FOLDER if to == "decoded" else target
    if out != source and target.exists():
        ours = [place, *(_hidden(place, state) for state in ("lock", "converting", "old"))]
        others = sorted(path.name for path in target.iterdir() if path not in ours)
        if others:
            raise ValueError(f"OUT {target} holds something else already ({others[0]}); give a new or empty folder")
    return place


def _has_cache(source: Source, folder: Path, target: Path) -> bool:
    """Return whether an up-to-date cache is in ``target``; ValueError where it is one of something else."""
    if not decoded_splits(target):
        return False
    try:
        record = CacheRecord.read(target / CACHE_FOLDER)
        for split in source.splits:
            DecodedSplit(target, split)
        signatures = {split: source_signature(stored.root, split) for split, stored in source.splits.items()}
        if record.signatures == signatures:
            _LOG.info("%s is up to date", target / CACHE_FOLDER)
            return True
    except DatasetError:
        pass  # damaged or stale
    if target.resolve() != folder.resolve():
        raise ValueError(
            f"{target / CACHE_FOLDER} is a cache of something else: give another folder, or remove it first"
        )
    return False
