"""Conversion of a dataset from one layout to another, pixel for pixel."""

import logging
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from filelock import FileLock

from ident3d.arguments import check_count
from ident3d.errors import DatasetError
from ident3d.files import check_disk_space
from ident3d.progress import ProgressBar
from ident3d.storage.decoded import (
    CACHE_FOLDER,
    CacheRecord,
    DecodedSplit,
    decoded_splits,
    write_decoded,
)
from ident3d.storage.layouts import LAYOUTS, no_dataset, resolve_root
from ident3d.storage.native import write_native
from ident3d.storage.published import write_published
from ident3d.storage.split import StoredDataset

__all__ = ["ROWS_PER_SHARD", "Target", "convert"]

_LOG = logging.getLogger(__name__)

Target = Literal["native", "published", "decoded"]
"""The layouts that a dataset can be converted to."""

ROWS_PER_SHARD = 1000
"""Images in a shard of the native layout, where nothing else is asked for."""

_Writer = Callable[[StoredDataset, Path, Callable[[], object]], None]

_READ_FROM: tuple[Target, ...] = ("native", "published", "decoded")  # encoded images first: they stay as they are


def convert(root: str | Path, out: str | Path, to: Target, *, rows_per_shard: int = ROWS_PER_SHARD) -> Path:
    """Convert all splits of a dataset to another layout; every image keeps its pixels.

    What is made appears under its name only when it is whole. A run that was interrupted leaves a hidden folder at
    most, which the next run replaces. Of several processes that convert to one place, one works and the others wait;
    the empty file that they wait for, hidden beside what is made, stays.

    Args:
        root: the dataset, in any layout, or "sample".
        out: the folder to make, new or empty. A decoded cache may also go into ``root`` itself: it is then
            stored beside the images that it was made from, and is made again if these have changed.
        to: "native": Parquet shards; "published": raw_latents.npy and images/, without exact positives;
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
        raise ValueError(f"unknown layout {to!r}; choose from {', '.join(_READ_FROM)}")
    check_count(rows_per_shard, "the number of rows in a shard", 1)
    folder, target = resolve_root(root), Path(out).expanduser().absolute()
    source = _open(folder, to)
    place = _place(folder, target, to)
    if to == "decoded" and _has_cache(source, folder, target):
        return target
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = _hidden(place, "lock")
    lock.touch()  # FileLock would retry forever where no file can be made
    with FileLock(lock):
        _place(folder, target, to)  # again: another process may have made it meanwhile
        if not (to == "decoded" and _has_cache(source, folder, target)):
            _write(source, place, to, rows_per_shard)
    return target


def _write(source: StoredDataset, place: Path, to: Target, rows_per_shard: int) -> None:
    """Write a dataset in the layout ``to``, which takes the name ``place`` when it is whole."""
    if to == "published" and source.has_positives:
        _LOG.warning("the published layout cannot hold exact positives: they are left out")
    writers: dict[Target, _Writer] = {
        "native": partial(write_native, rows_per_shard=rows_per_shard),
        "published": write_published,
        "decoded": write_decoded,
    }
    images = source.rows * (2 if source.has_positives and to != "published" else 1)
    if to == "decoded":
        check_disk_space(place.parent, images * 3 * source.manifest.resolution**2, "decoding the images")
    with ProgressBar(images, unit="images", label=f"converting to {to}") as bar:
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


def _open(folder: Path, to: Target) -> StoredDataset:
    for layout in _READ_FROM:
        splits, opened = LAYOUTS[layout]
        there = splits(folder)
        if there and layout == to:
            raise ValueError(f"{folder} is in the {to} layout already")
        if there:
            return StoredDataset.of([opened(folder, split) for split in there])
    raise no_dataset(folder)


def _place(folder: Path, target: Path, to: Target) -> Path:
    """Return the folder that is made; ValueError where something else is there."""
    source, out = folder.resolve(), target.resolve()
    beside = f"to put a decoded cache beside the images of {folder}, give it as OUT too, with --to decoded"
    if out == source and to != "decoded":
        raise ValueError(f"OUT is the dataset itself, {folder}: give another folder ({beside})")
    if out != source and out.is_relative_to(source):
        raise ValueError(f"OUT {target} is inside the dataset {folder}: give another folder ({beside})")
    there = next(part for part in (target, *target.parents) if part.exists())
    if not there.is_dir():
        raise ValueError(f"OUT {target} is not a folder: {there} is a file; give a folder that is new or empty")
    place = target / CACHE_FOLDER if to == "decoded" else target
    if out != source and target.exists():
        ours = [place, *(_hidden(place, state) for state in ("lock", "converting", "old"))]
        others = sorted(path.name for path in target.iterdir() if path not in ours)
        if others:
            raise ValueError(f"OUT {target} holds something else already ({others[0]}); give a new or empty folder")
    return place


def _has_cache(source: StoredDataset, folder: Path, target: Path) -> bool:
    """Return whether an up-to-date cache is in ``target``; ValueError where it is one of something else."""
    if not decoded_splits(target):
        return False
    try:
        record = CacheRecord.read(target / CACHE_FOLDER)
        for split in source.splits:
            DecodedSplit(target, split)
        if set(record.signatures) == set(source.splits) and all(
            record.is_of(target / CACHE_FOLDER, stored.root, split, thorough=True)
            for split, stored in source.splits.items()
        ):
            _LOG.info("%s is up to date", target / CACHE_FOLDER)
            return True
    except DatasetError:
        pass  # damaged or stale
    if target.resolve() != folder.resolve():
        raise ValueError(
            f"{target / CACHE_FOLDER} is a cache of something else: give another folder, or remove it first"
        )
    return False
