"""The decoded cache: images as one uint8 memory map per split, for training that decoding would slow down."""

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ident3d import codec
from ident3d.errors import DatasetError
from ident3d.files import open_regular, sha256_of, write_text
from ident3d.latents import check_finite
from ident3d.storage.images import EncodedImage, encode_png
from ident3d.storage.manifest import Manifest, shard_paths
from ident3d.storage.native import footer
from ident3d.storage.published import IMAGES_FOLDER, RAW_LATENTS, published_folder
from ident3d.storage.split import StoredDataset, StoredImages, StoredSplit, read_array

__all__ = [
    "CACHE_FOLDER",
    "CacheRecord",
    "DecodedImages",
    "DecodedPositives",
    "DecodedSplit",
    "array_path",
    "decoded_splits",
    "source_signature",
    "write_decoded",
]

CACHE_FOLDER = "decoded"
_RECORD = "cache.json"
_SCHEMA_VERSION = 1


def array_path(folder: Path, split: str, array: str) -> Path:
    """Return the path of an array of a cache: "pixels", "latents", "ids", "pixels_pos", "latents_pos" or "sources"."""
    return folder / f"{split}-{array}.npy"


def decoded_splits(root: Path) -> list[str]:
    """Return the splits that are there as decoded caches."""
    files = (root / CACHE_FOLDER).glob("*-pixels.npy")
    return sorted((file.name.removesuffix("-pixels.npy") for file in files), reverse=True)


@dataclass(frozen=True)
class CacheRecord:
    """What a decoded cache was made from.

    Attributes:
        manifest: the manifest of the dataset that was decoded, or what could be told of it.
        signatures: of each split, the signature of the files that it was decoded from.
        checksums: SHA-256 of each file of the cache by its name; none in caches of an earlier ident3d.
        schema_version: version of the cache's layout.
    """

    manifest: Manifest
    signatures: Mapping[str, str]
    checksums: Mapping[str, str] = field(default_factory=dict)
    schema_version: int = _SCHEMA_VERSION

    def write(self, folder: Path) -> None:
        """Write the record into the folder of the cache."""
        write_text(folder / _RECORD, codec.dumps(codec.sealed(codec.to_json(self))))

    def is_of(self, folder: Path, root: Path, split: str, *, thorough: bool = False) -> bool:
        """Return whether the split was decoded from what is in ``root`` now, or nothing of it is there.

        Files whose time is another than it was are held against their checksums. A copy has new times in all of its
        files: then some of them are, which takes a moment, or all.

        Args:
            folder: the folder of the cache.
            root: the folder of the dataset that it would be decoded from.
            split: name of the split.
            thorough: whether all files with another time are read, however many there are.

        Raises:
            DatasetError: if what the cache remembers of these files is damaged.
        """
        signature = source_signature(root, split, with_sizes=bool(self.checksums))
        if signature is None:
            return True
        path = array_path(folder, split, "sources")
        if signature != self.signatures.get(split) or path.name not in self.checksums:  # an earlier ident3d had none
            return signature == self.signatures.get(split)
        known, files = read_array(path, "convert the dataset again"), _source_files(root, split)
        if known.dtype != _SOURCE or known.shape != (len(files),):
            raise DatasetError(f"{path} does not tell of the {len(files)} files of {root}; convert the dataset again")
        changed = np.flatnonzero(known["modified"] != _modified(files))
        if len(changed) and not thorough:
            changed = _some(changed, files)
        return all(_checksum(files[k]) == known["sha256"][k].tobytes() for k in changed)

    @classmethod
    def read(cls, folder: Path) -> "CacheRecord":
        """Read the record of a cache.

        Raises:
            DatasetError: if it is missing, damaged, or of another schema version.
        """
        path = folder / _RECORD
        advice = f"remove {folder}, and convert the dataset again"
        try:
            data, is_sealed = codec.unsealed(codec.read_file(path, advice))
            version = data.get("schema_version") if isinstance(data, dict) else None
            if version == _SCHEMA_VERSION and is_sealed is not False:
                return codec.from_json(cls, data, _RECORD)
        except (OSError, ValueError) as error:
            raise DatasetError(f"{path} cannot be read ({error}): {advice}") from error
        if is_sealed is False:
            raise DatasetError(f"{path} was changed after it was written: {advice}")
        raise DatasetError(f"{path} has schema version {version!a}; this ident3d reads {_SCHEMA_VERSION}: {advice}")


_CHUNK = 1 << 20


def _opened(path: Path) -> IO[bytes]:
    try:
        return open_regular(path)
    except (ValueError, FileNotFoundError) as error:
        raise DatasetError(f"{path} cannot be read ({error}); fetch or convert the dataset again") from error


def source_signature(root: Path, split: str, *, with_sizes: bool = True) -> str | None:
    """Return a hash by which a change of a split's files is noticed without reading its images.

    It covers the name, size and footer of every shard, and a footer holds the place and size of every group of 32
    images. Of the published layout it covers the latents, the names and sizes of all images, and the bytes of the
    first and the last of them. Copying or moving the files does not change it.

    Args:
        root: the dataset's folder.
        split: name of the split.
        with_sizes: whether it covers the sizes of the images; those of caches that hold no checksums do not.

    Returns:
        A hexadecimal hash, or None where neither shards nor the published layout of the split are there.
    """
    shards = shard_paths(root, split)
    folder = published_folder(root, split)
    digest = hashlib.sha256()
    if shards:
        for shard in shards:
            with _opened(shard) as file:
                digest.update(f"{shard.name} ".encode())
                digest.update(footer(file))
    elif folder is not None:
        try:
            with os.scandir(folder / IMAGES_FOLDER) as entries:
                sizes = {entry.name: entry.stat().st_size for entry in entries}
        except FileNotFoundError as error:  # a link to a file that is gone
            raise DatasetError(f"an image cannot be read ({error}); fetch or convert the dataset again") from error
        names = sorted(sizes)
        digest.update(f"{len(names)}\n".encode())
        if with_sizes:
            digest.update("".join(f"{name} {sizes[name]}\n" for name in names).encode())
        for path in (folder / RAW_LATENTS, *(folder / IMAGES_FOLDER / name for name in names[:1] + names[-1:])):
            with _opened(path) as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
    else:
        return None
    return digest.hexdigest()


class DecodedImages(StoredImages):
    """Images as one uint8 memory map."""

    _pixels: npt.NDArray[np.uint8]  # (N, H, W, 3)

    def encoded(self, row: int) -> bytes:
        """Return the image of a row as PNG."""
        return encode_png(self.pixels(row))

    def pixels(self, row: int) -> npt.NDArray[np.uint8]:
        """Return the (H, W, 3) uint8 image of a row, a view of the memory map."""
        image: npt.NDArray[np.uint8] = self._pixels[row]
        return image

    def batch(self, rows: npt.NDArray[np.int64], threads: int = 1) -> npt.NDArray[np.uint8]:  # noqa: ARG002 - a copy
        """Return (B, H, W, 3) uint8: a copy of the images of the given rows."""
        return self._pixels[rows]

    def read(self, rows: range, pool: Executor) -> Iterator[EncodedImage]:
        """Yield the images of rows both encoded and decoded; ``pool`` encodes them."""
        pixels = self.batch(np.array(rows))
        return map(EncodedImage, pool.map(encode_png, pixels), pixels)


_SOURCE = np.dtype([("modified", "<i8"), ("sha256", "V32")])
"""Of a file that a cache was decoded from: when it was changed last, in nanoseconds, and its checksum."""
_MOST_FILES = 256
_MOST_BYTES = 1 << 26


def _source_files(root: Path, split: str) -> list[Path]:
    """Return the files that hold the images of a split, in the order of their names."""
    shards, folder = shard_paths(root, split), published_folder(root, split)
    if shards or folder is None:
        return shards
    return sorted(map(Path, os.scandir(folder / IMAGES_FOLDER)))


def _modified(files: list[Path]) -> npt.NDArray[np.int64]:
    return np.array([os.stat(path).st_mtime_ns for path in files], np.int64)  # noqa: PTH116 - of many files


def _sources(files: list[Path]) -> npt.NDArray[np.void]:
    """Return (F,) of what a cache remembers of each of the F files that it is decoded from."""
    found = np.zeros(len(files), _SOURCE)
    found["modified"] = _modified(files)  # before they are read: what changes meanwhile is noticed
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for k, checksum in enumerate(pool.map(_checksum, files)):
            found["sha256"][k] = np.void(checksum)
    return found


def _checksum(path: Path) -> bytes:
    try:
        return bytes.fromhex(sha256_of(path))
    except (OSError, ValueError):
        return bytes(32)  # something that is no file of images, and not read either


def _some(changed: npt.NDArray[np.int64], files: list[Path]) -> npt.NDArray[np.int64]:
    """Return as many of the numbers of changed files, evenly spaced, as are read in a moment; one at least."""
    spaced = changed[np.linspace(0, len(changed) - 1, min(len(changed), _MOST_FILES)).astype(np.int64)]
    sizes = np.cumsum([files[k].stat().st_size for k in spaced])
    return spaced[: max(1, int(np.searchsorted(sizes, _MOST_BYTES, side="right")))]


class DecodedPositives(DecodedImages):
    """The exact positives of a decoded cache, row by row.

    Args:
        split: the split.
        latents: (N, d) float32 latents of the positives.
        pixels: (N, H, W, 3) uint8 memory map of their images.
    """

    def __init__(self, split: "DecodedSplit", latents: npt.NDArray[np.float32], pixels: npt.NDArray[np.uint8]) -> None:
        self._split = split
        self.latents = latents
        self._pixels = pixels

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (self._split, "positives")  # opened again where it goes, as the split is

    def place(self, row: int) -> str:
        """Return where the image of a row's positive is, for messages."""
        return f"{array_path(self._split.root / CACHE_FOLDER, self._split.split, 'pixels_pos')}, row {row},"


class DecodedSplit(DecodedImages, StoredSplit):
    """One split as a decoded cache.

    All arrays stay on disk and are shared, through the page cache, by the processes that map them.

    Args:
        root: the dataset's folder.
        split: name of the split.

    Raises:
        DatasetError: if an array is missing or damaged, the arrays disagree in length, or the images beside the
            cache are no longer those that it was made from.
    """

    layout = "decoded"
    manifest: Manifest

    def __init__(self, root: Path, split: str) -> None:
        self._open(root, split)
        folder = root / CACHE_FOLDER
        if not CacheRecord.read(folder).is_of(folder, root, split):
            raise DatasetError(
                f"the decoded cache of the split {split!r} was not made from the images beside it in {root}: make it "
                f"again (ident3d convert {root} {root} --to decoded), or remove {folder}"
            )
        try:
            check_finite(self.latents, f"{root}, {split}: latents", self.factors.names)
        except ValueError as error:
            raise DatasetError(f"{error}; convert the dataset again") from error

    def _open(self, root: Path, split: str) -> None:
        self.root = root
        self.split = split
        self.manifest = CacheRecord.read(root / CACHE_FOLDER).manifest
        self.factors = self.manifest.factors
        self.ids = self._load("ids")
        self.latents = self._load("latents")
        self._pixels = self._load("pixels", writable=False)
        self._positives: DecodedPositives | None = None
        if array_path(root / CACHE_FOLDER, split, "pixels_pos").exists():
            latents, pixels = self._load("latents_pos"), self._load("pixels_pos", writable=False)
            self._positives = DecodedPositives(self, latents, pixels)
        self._check_shapes()
        self._identity = self._identify()

    def __getstate__(self) -> tuple[Path, str, str]:
        return self.root, self.split, self._identity  # a memory map would be pickled as a copy of all images

    def __setstate__(self, state: tuple[Path, str, str]) -> None:
        root, split, identity = state
        self._open(root, split)
        if self._identity != identity:
            raise DatasetError(
                f"{array_path(root / CACHE_FOLDER, split, 'pixels')} is not the file that it was when the dataset was "
                "opened: the decoded cache was made again since; open the dataset again"
            )

    @property
    def positives(self) -> DecodedPositives | None:
        """The exact positives of the rows; None where the cache holds none."""
        return self._positives

    def place(self, row: int) -> str:
        """Return where the image of a row is, for messages."""
        return f"{array_path(self.root / CACHE_FOLDER, self.split, 'pixels')}, row {row},"

    def _identify(self) -> str:
        """Return a hash of what the cache says that it is, its latents, and the first and the last image."""
        digest = hashlib.sha256(f"{self.fingerprint()} {self._pixels.shape}\n".encode())
        for array in (self.ids, self.latents, self._pixels[:1], self._pixels[-1:]):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def _check_shapes(self) -> None:
        where = f"{self.root / CACHE_FOLDER}, {self.split}"
        if not len(self.ids) == len(self.latents) == len(self._pixels):
            raise DatasetError(
                f"{where}: {len(self._pixels)} images, {len(self.latents)} rows of latents and {len(self.ids)} ids; "
                "convert the dataset again"
            )
        known = self.manifest.splits.get(self.split)
        if len(self.ids) != known:
            raise DatasetError(f"{where}: {len(self.ids)} rows, but {_RECORD} says {known}; convert the dataset again")
        if self._pixels.dtype != np.uint8 or self._pixels.shape[3:] != (3,):
            raise DatasetError(f"{where}: expected (N, H, W, 3) uint8, not {self._pixels.shape} {self._pixels.dtype}")
        if self.latents.shape[1:] != (len(self.factors),):
            raise DatasetError(f"{where}: latents of shape {self.latents.shape} for {len(self.factors)} factors")

    def _load(self, array: str, *, writable: bool = True) -> npt.NDArray[Any]:
        path = array_path(self.root / CACHE_FOLDER, self.split, array)
        # Copy-on-write, because torch warns of read-only arrays; what is written stays in this process. Not for the
        # images: a system may refuse a writable map that is larger than its memory.
        return read_array(path, "convert the dataset again", "c" if writable else "r")


def write_decoded(source: StoredDataset, folder: Path, advance: Callable[[], object]) -> None:
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
    files = {split: _sources(_source_files(stored.root, split)) for split, stored in source.splits.items()}
    checksums = {}
    for split, stored in source.splits.items():
        arrays: dict[str, npt.NDArray[Any]] = {"ids": stored.ids, "latents": stored.latents, "sources": files[split]}
        images = {"pixels": source.images(stored, advance)}
        positives = stored.positives
        if positives is not None:
            arrays["latents_pos"] = positives.latents
            images["pixels_pos"] = source.images(positives, advance)
        for name, array in arrays.items():
            path = array_path(folder, split, name)
            np.save(path, array)
            checksums[path.name] = sha256_of(path)
        for name, decoded in images.items():
            path = array_path(folder, split, name)
            checksums[path.name] = _write_pixels(path, source, split, decoded)
    CacheRecord(source.manifest, signatures, checksums).write(folder)


def _write_pixels(path: Path, source: StoredDataset, split: str, images: Iterator[EncodedImage]) -> str:
    """Write images as one array, and return its checksum.

    It is written bytes after bytes, since a full disk kills a process that writes to a map.
    """
    side = source.manifest.resolution
    shape = (len(source.splits[split].latents), side, side, 3)
    header = io.BytesIO()
    write_header: Callable[..., None] = np.lib.format.write_array_header_1_0
    write_header(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    digest = hashlib.sha256(header.getvalue())
    with path.open("wb") as file:
        file.write(header.getvalue())
        for image in images:
            written = image.pixels.tobytes()
            digest.update(written)
            file.write(written)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
