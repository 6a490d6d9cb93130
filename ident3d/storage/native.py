"""The native layout: Parquet shards under ``data/``, a manifest beside them."""

import errno
import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ident3d.errors import DatasetError
from ident3d.factors import FACTORS
from ident3d.files import atomic_file, open_regular, sha256_of
from ident3d.storage.card import ELSEWHERE, HERE, write_card
from ident3d.storage.images import EncodedImage
from ident3d.storage.manifest import DATA_FOLDER, MANIFEST_NAME, Manifest, ShardRecord, shard_name, shard_paths
from ident3d.storage.split import StoredDataset, StoredImages, StoredSplit, checked_latents

__all__ = [
    "ROWS_PER_GROUP",
    "NativePositives",
    "NativeSplit",
    "ShardReader",
    "ShardRows",
    "footer",
    "schema",
    "write_native",
    "write_shard",
]

ROWS_PER_GROUP = 32
"""At 64x64, reading one image out of a group of 32 took 19 us, out of a group of 1,000 167 us."""

_SETTINGS = "ident3d-settings"
_MOST_OPEN = 64
"""Shards that a split holds open: a process may often open no more than 256 files, and a paper-sized split has 250."""
_NOT_DAMAGE = {errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.ENOMEM}
_MOST_GROWTH = 16  # images are compressed already, and latents hardly can be
_LEAST_BOUND = 1 << 20
_MOST_FOOTER = 1 << 27
_FOOTER_LENGTH_BYTES = 8  # a Parquet file ends with its footer, the footer's length, and four magic bytes
_IMAGE = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])


@dataclass(frozen=True)
class ShardRows:
    """The rows of a shard.

    Attributes:
        index: (n,) int64, index of each image within its split.
        images: n encoded images.
        latents: (n, d) float32.
        images_pos: n encoded images of the exact positives, or None.
        latents_pos: (n, d) float32, or None.
        settings: fingerprint of what the images were made with; empty where it is not known.
    """

    index: npt.NDArray[np.int64]
    images: Sequence[bytes]
    latents: npt.NDArray[np.float32]
    images_pos: Sequence[bytes] | None = None
    latents_pos: npt.NDArray[np.float32] | None = None
    settings: str = ""


def schema(width: int, *, pairs: bool, settings: str = "") -> pa.Schema:
    """Return the Arrow schema of a shard, with the Hugging Face features in its metadata.

    Args:
        width: number of factors.
        pairs: whether every row also holds an exact positive.
        settings: fingerprint of what the images were made with; empty where it is not known.
    """
    latents = pa.list_(pa.float32(), width)
    image_feature = {"_type": "Image"}
    latents_feature = {"feature": {"dtype": "float32", "_type": "Value"}, "length": width, "_type": "List"}
    fields = [("index", pa.int64()), ("image", _IMAGE), ("latents", latents)]
    features: dict[str, Any] = {
        "index": {"dtype": "int64", "_type": "Value"},
        "image": image_feature,
        "latents": latents_feature,
    }
    if pairs:
        fields += [("image_pos", _IMAGE), ("latents_pos", latents)]
        features |= {"image_pos": image_feature, "latents_pos": latents_feature}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.schema(fields, metadata=metadata | ({_SETTINGS: settings} if settings else {}))


def write_shard(path: Path, rows: ShardRows) -> None:
    """Write a shard atomically. The same rows give the same bytes."""
    width = rows.latents.shape[1]
    columns: list[pa.Array] = [
        pa.array(rows.index, pa.int64()),
        _images(rows.images),
        _vectors(rows.latents),
    ]
    pairs = rows.images_pos is not None and rows.latents_pos is not None
    if rows.images_pos is not None and rows.latents_pos is not None:
        columns += [_images(rows.images_pos), _vectors(rows.latents_pos)]
    table = pa.Table.from_arrays(columns, schema=schema(width, pairs=pairs, settings=rows.settings))
    with atomic_file(path) as file:
        # Images are compressed already, and every value occurs once.
        pq.write_table(
            table,
            file,
            row_group_size=ROWS_PER_GROUP,
            compression="none",
            use_dictionary=False,
            write_page_checksum=True,
        )


def footer(file: IO[bytes] | pa.NativeFile) -> bytes:
    """Return the size of an open Parquet file and its footer, which holds the place and size of every row group.

    A change of the images changes it, but for images that take as many bytes as those before them.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _FOOTER_LENGTH_BYTES, 0))
    length = int.from_bytes(file.read(4), "little") + _FOOTER_LENGTH_BYTES
    file.seek(max(size - min(length, _MOST_FOOTER), 0))
    return b"%d\n" % size + file.read()


LatentsColumn = Literal["latents", "latents_pos"]
ImageColumn = Literal["image", "image_pos"]


class ShardReader:
    """Reads a shard: its latents whole, its images one by one.

    The checksums of its pages are checked; shards that an earlier ident3d wrote have none. Those of a group of images
    are checked when the first of them is read, and no more after that: checking takes three times as long as reading.

    Args:
        path: the Parquet file.
        checked: the groups whose checksums were checked, by column and number, where this file was open before.

    Attributes:
        rows: number of rows.
        has_pairs: whether every row also holds an exact positive.
        settings: fingerprint of what the images were made with; empty where it is not known.
        signature: a hash of the file's size and footer, by which it is known again.

    Raises:
        DatasetError: if the file is not a Parquet file or lacks the columns of a shard.
    """

    def __init__(self, path: Path, checked: set[tuple[str, int]] | None = None) -> None:
        self.path = path
        self._checked = set() if checked is None else checked
        try:
            with open_regular(path):  # a pipe would be waited for
                pass
            source = pa.memory_map(str(path))
            self._file = pq.ParquetFile(source, page_checksum_verification=True)
            self._trusted = pq.ParquetFile(source, metadata=self._file.metadata)
            self.signature = hashlib.sha256(footer(source)).hexdigest()
            names = self._file.schema_arrow.names
        except (pa.ArrowException, OSError, ValueError) as error:  # names that are no text are a ValueError
            _raise_unless_damage(error)
            raise DatasetError(
                f"{path} cannot be read as Parquet ({error}); it may be truncated: fetch or render it again"
            ) from error
        missing = [name for name in ("index", "image", "latents") if name not in names]
        if missing:
            raise DatasetError(f"{path} lacks the columns {', '.join(missing)}; it has {', '.join(names)}")
        wrong = [field.name for field in self._file.schema_arrow if not _has_type_of_a_shard(field)]
        if wrong:
            raise DatasetError(f"{path}: the columns {', '.join(wrong)} have other types than in a shard")
        self.has_pairs = "image_pos" in names and "latents_pos" in names
        self.rows: int = self._file.metadata.num_rows
        told = self._file.schema_arrow.metadata or {}
        self.settings: str = told.get(_SETTINGS.encode(), b"").decode(errors="replace")
        groups = [self._file.metadata.row_group(g) for g in range(self._file.num_row_groups)]
        self._group_ends = np.cumsum([group.num_rows for group in groups])
        size, unpacked = path.stat().st_size, sum(group.total_byte_size for group in groups)
        if unpacked > _MOST_GROWTH * max(size, _LEAST_BOUND):
            raise DatasetError(
                f"{path} unpacks from {size:,} to {unpacked:,} bytes, more than images explain: fetch or render "
                "it again"
            )

    def index(self) -> npt.NDArray[np.int64]:
        """Return (rows,) int64: the index of each image within its split."""
        column: npt.NDArray[np.int64] = self._read("index").to_numpy()
        return column

    def latents(self, column: LatentsColumn = "latents") -> npt.NDArray[np.float32]:
        """Return a column of latents: (rows, d) float32."""
        vectors = self._read(column).combine_chunks()
        values: npt.NDArray[np.float32] = vectors.values.to_numpy(zero_copy_only=False)
        if self.rows == 0 or len(values) % self.rows:
            raise DatasetError(f"{self.path}: the latents of its {self.rows} rows differ in length")
        return values.reshape(self.rows, -1).astype(np.float32, copy=False)

    def image(self, row: int, column: ImageColumn = "image") -> bytes:
        """Return the encoded image in a row of a column of images."""
        group = int(np.searchsorted(self._group_ends, row, side="right"))
        first = 0 if group == 0 else int(self._group_ends[group - 1])
        file = self._trusted if (column, group) in self._checked else self._file
        try:
            images = file.read_row_group(group, columns=[f"{column}.bytes"], use_threads=False)[column].chunk(0)
        except (pa.ArrowException, OSError, LookupError, ValueError) as error:
            _raise_unless_damage(error)
            raise DatasetError(f"{self.path}, row {row}: {error}; fetch or render it again") from error
        self._check_length(len(images), int(self._group_ends[group]) - first, column)
        self._checked.add((column, group))
        image: bytes | None = images.field(0)[row - first].as_py()
        if image is None:
            raise DatasetError(f"{self.path}, row {row} holds no image")
        return image

    def _read(self, column: str) -> pa.ChunkedArray:
        try:
            found = self._file.read(columns=[column], use_threads=False)[column]
        except (pa.ArrowException, OSError, LookupError, ValueError) as error:
            _raise_unless_damage(error)
            raise DatasetError(f"{self.path}: column {column} cannot be read ({error})") from error
        self._check_length(len(found), self.rows, column)
        return found

    def _check_length(self, found: int, expected: int, column: str) -> None:
        """Raise DatasetError where rows are missing: a page of unknown kind, whose header is damaged, is left out."""
        if found != expected:
            raise DatasetError(
                f"{self.path}: {found} of {expected} rows of the column {column} are there; fetch or render it again"
            )


_LISTS = (pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list)


def _has_type_of_a_shard(field: pa.Field) -> bool:
    """Return whether a column has the type that it has in a shard; those of other names may have any."""
    if field.name == "index":
        return bool(pa.types.is_integer(field.type))
    if field.name in {"latents", "latents_pos"}:
        is_list = any(is_kind(field.type) for is_kind in _LISTS)
        return is_list and bool(pa.types.is_floating(field.type.value_type))
    if field.name in {"image", "image_pos"}:
        has_bytes = pa.types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0
        return has_bytes and field.type.field("bytes").type in (pa.binary(), pa.large_binary())
    return True


def _raise_unless_damage(error: Exception) -> None:
    """Raise again what says nothing about the file: too many open files, no permission, no space, no memory."""
    if isinstance(error, OSError) and error.errno in _NOT_DAMAGE:
        raise error


def _images(encoded: Sequence[bytes]) -> pa.Array:
    paths = pa.nulls(len(encoded), pa.string())
    return pa.StructArray.from_arrays([pa.array(encoded, pa.binary()), paths], fields=list(_IMAGE))


def _vectors(latents: npt.NDArray[np.float32]) -> pa.Array:
    flat = np.ascontiguousarray(latents, dtype=np.float32).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), latents.shape[1])


class NativePositives(StoredImages):
    """The exact positives of a split in the native layout, row by row.

    Args:
        split: the split.
        latents: (N, d) float32 latents of the positives.
    """

    def __init__(self, split: "NativeSplit", latents: npt.NDArray[np.float32]) -> None:
        self._split = split
        self.latents = latents

    def encoded(self, row: int) -> bytes:
        """Return the encoded image of a row's positive, as it is stored."""
        return self._split.image(row, "image_pos")

    def place(self, row: int) -> str:
        """Return where the image of a row's positive is, for messages."""
        return f"{self._split.place(row)} exact positive,"


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
        self._readers: OrderedDict[int, ShardReader] = OrderedDict()  # those last used, last
        self._signatures: dict[int, str] = {}
        self._checked: dict[int, set[tuple[str, int]]] = {}
        recorded = {} if self.manifest is None else {record.name: record.rows for record in self.manifest.shards}
        rows, ids, latents, positives = [], [], [], []
        for shard in range(len(self._paths)):  # one by one: all at once may be more than a process may open
            reader = self._reader(shard)
            _check_rows(reader, recorded)
            rows.append(reader.rows)
            ids.append(reader.index())
            latents.append(reader.latents())
            if reader.has_pairs:
                positives.append(reader.latents("latents_pos"))
        self._ends = np.cumsum(rows)
        self.ids = np.concatenate(ids)
        where = f"{root}, {split}"
        self.latents = checked_latents(np.concatenate(latents), self.factors, where)
        self._latents_pos: npt.NDArray[np.float32] | None = None
        if len(positives) == len(rows):
            self._latents_pos = checked_latents(np.concatenate(positives), self.factors, f"{where}, exact positives")
        elif positives:
            raise DatasetError(f"{where}: some shards hold exact positives and some do not; render it again")
        elif self.manifest is not None and self.manifest.pairs is not None:
            raise DatasetError(
                f"{where}: the shards hold no exact positives, and the manifest says that they do; fetch or render it "
                "again"
            )

    def __getstate__(self) -> dict[str, object]:
        # Open files stay in their process, and are opened again where they go.
        return self.__dict__ | {"_readers": OrderedDict(), "_checked": {}}

    @property
    def positives(self) -> "NativePositives | None":
        """The exact positives of the rows; None where the shards hold none."""
        return None if self._latents_pos is None else NativePositives(self, self._latents_pos)

    def encoded(self, row: int) -> bytes:
        """Return the encoded image of a row, as it is stored."""
        return self.image(row, "image")

    def image(self, row: int, column: ImageColumn) -> bytes:
        """Return the encoded image of a row in a column of the shards."""
        shard, first = self._shard_of(row)
        return self._reader(shard).image(row - first, column)

    def place(self, row: int) -> str:
        """Return where the image of a row is, for messages."""
        shard, first = self._shard_of(row)
        return f"{self._paths[shard]}, row {row - first},"

    def _shard_of(self, row: int) -> tuple[int, int]:
        """Return the shard that holds a row, and the row that it begins with."""
        shard = int(np.searchsorted(self._ends, row, side="right"))
        return shard, 0 if shard == 0 else int(self._ends[shard - 1])

    def _reader(self, shard: int) -> ShardReader:
        reader = self._readers.get(shard)
        if reader is None:
            reader = ShardReader(self._paths[shard], self._checked.setdefault(shard, set()))
            if reader.signature != self._signatures.setdefault(shard, reader.signature):
                raise DatasetError(
                    f"{reader.path} is not the file that it was when the dataset was opened: it was changed or "
                    "replaced since; open the dataset again"
                )
            self._readers[shard] = reader
            if len(self._readers) > _MOST_OPEN:
                self._readers.popitem(last=False)
        self._readers.move_to_end(shard)
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


def _check_rows(reader: ShardReader, recorded: Mapping[str, int]) -> None:
    """Raise DatasetError where a shard holds another number of rows than the manifest says."""
    expected = recorded.get(reader.path.name, reader.rows)
    if reader.rows != expected:
        raise DatasetError(
            f"{reader.path} holds {reader.rows} rows, but the manifest says {expected}; fetch or render it again"
        )


def write_native(source: StoredDataset, folder: Path, advance: Callable[[], object], rows_per_shard: int) -> None:
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
    write_card(folder, finished, ELSEWHERE if _is_published(source) else HERE)


def _encoded(images: Iterator[EncodedImage], count: int) -> list[bytes]:
    return [image.encoded for image in islice(images, count)]


def _is_published(source: StoredDataset) -> bool:
    return all(stored.manifest is None and stored.layout == "published" for stored in source.splits.values())
