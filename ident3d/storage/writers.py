"""Writing a whole dataset in each of the three layouts."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from ident3d.latents import to_physical
from ident3d.storage.atomic import sha256_of
from ident3d.storage.card import write_card
from ident3d.storage.decoded import CacheRecord, array_path
from ident3d.storage.manifest import ShardRecord
from ident3d.storage.native import DATA_FOLDER
from ident3d.storage.picture import encode_png
from ident3d.storage.published import IMAGES_FOLDER, PHYSICAL_LATENTS, RAW_LATENTS, image_name
from ident3d.storage.shard import ShardRows, write_shard
from ident3d.storage.signature import source_signature
from ident3d.storage.source import Picture, Source

__all__ = ["write_decoded", "write_native", "write_published"]

_PNG = b"\x89PNG\r\n\x1a\n"
_ELSEWHERE = "other"  # the licence on a card, where pictures come from elsewhere


def write_native(source: Source, folder: Path, advance: Callable[[], object], rows_per_shard: int) -> None:
    """Write a dataset as Parquet shards, with manifest and card.

    Args:
        source: the dataset.
        folder: where it goes.
        advance: called after every picture.
        rows_per_shard: pictures in a shard.
    """
    made_by = {tuple(record.made_by.items()) for record in source.manifest.shards}
    manifest = replace(source.manifest, rows_per_shard=rows_per_shard, shards=())
    records = []
    for split, stored in source.splits.items():
        pictures = source.pictures(split, advance)
        positives = source.pictures(split, advance, positive=True) if source.has_positives else None
        for name, rows in manifest.planned(split):
            part = slice(rows.start, rows.stop)
            shard = ShardRows(
                index=stored.ids[part],
                images=_encoded(pictures, len(rows)),
                latents=stored.latents[part],
                images_pos=None if positives is None else _encoded(positives, len(rows)),
                latents_pos=None if stored.latents_pos is None else stored.latents_pos[part],
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
        advance: called after every picture.
    """
    for split, stored in source.splits.items():
        images = folder / split / IMAGES_FOLDER
        images.mkdir(parents=True)
        np.save(folder / split / RAW_LATENTS, stored.latents)
        np.save(folder / split / PHYSICAL_LATENTS, to_physical(stored.latents, stored.factors))
        for row, picture in enumerate(source.pictures(split, advance)):
            is_png = picture.encoded.startswith(_PNG)
            path = images / image_name(row, len(stored.latents))
            path.write_bytes(picture.encoded if is_png else encode_png(picture.pixels))
    replace(source.manifest, shards=(), pairs=None).write(folder)


def write_decoded(source: Source, folder: Path, advance: Callable[[], object]) -> None:
    """Write a dataset as uint8 arrays, with a record of what they were made from.

    Args:
        source: the dataset.
        folder: where the arrays go.
        advance: called after every picture.

    Raises:
        OSError: if the disk is too small.
    """
    # Before the pictures are read: what changes meanwhile makes the cache stale.
    signatures = {split: source_signature(stored.root, split) or "" for split, stored in source.splits.items()}
    for split, stored in source.splits.items():
        np.save(array_path(folder, split, "ids"), stored.ids)
        np.save(array_path(folder, split, "latents"), stored.latents)
        _write_pixels(array_path(folder, split, "pixels"), source, split, source.pictures(split, advance))
        if stored.latents_pos is not None:
            positives = source.pictures(split, advance, positive=True)
            np.save(array_path(folder, split, "latents_pos"), stored.latents_pos)
            _write_pixels(array_path(folder, split, "pixels_pos"), source, split, positives)
    CacheRecord(source.manifest, signatures).write(folder)


def _write_pixels(path: Path, source: Source, split: str, pictures: Iterator[Picture]) -> None:
    """Write pictures as one array; bytes after bytes, since a full disk kills a process that writes to a map."""
    side = source.manifest.resolution
    shape = (len(source.splits[split].latents), side, side, 3)
    with path.open("wb") as file:
        write_header: Callable[..., None] = np.lib.format.write_array_header_1_0
        write_header(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
        for picture in pictures:
            file.write(picture.pixels.tobytes())
        file.flush()
        os.fsync(file.fileno())


def _encoded(pictures: Iterator[Picture], count: int) -> list[bytes]:
    return [picture.encoded for picture in islice(pictures, count)]


def _is_published(source: Source) -> bool:
    return all(stored.manifest is None and stored.layout == "published" for stored in source.splits.values())
