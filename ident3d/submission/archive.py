"""The files of a submission, in a folder or a zip archive: what strangers hand in, judged before it is read.

Nothing is ever unpacked to disk, and nothing is read before what announces it was judged: first the table of contents
(names, number, sizes, ratios), then the header of each array, then the numbers, into the array that the header
announced. A hostile submission therefore costs no more memory than a sound one of the same arrays.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ident3d.arguments import NOT_AN_ARRAY
from ident3d.codec import MAX_BYTES
from ident3d.errors import SubmissionError
from ident3d.files import open_regular

__all__ = [
    "DOCUMENT",
    "IDS",
    "MAX_SEEDS",
    "ArrayHeader",
    "Members",
    "embeddings_name",
    "encode_array",
    "is_archive",
    "open_members",
]

DOCUMENT = "submission.json"
IDS = "ids.npy"
MAX_SEEDS = 64
_MAX_ARRAY_BYTES = 4 << 30
_MAX_TOTAL_BYTES = 16 << 30
_MAX_RATIO = 50  # of sizes before and after compression; float32 numbers reach about 1.1, zeros about 1,000
# bzip2 and lzma decompress whatever is read at once, and a kilobyte of it may be a gigabyte
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FREE_BYTES = 1 << 20  # a small member may compress as well as it likes
_CHUNK = 1 << 20
_MAX_HEADER_BYTES = 1 << 14
_SHOWN = 200  # characters of numpy's message, which may quote the header
_ALLOWED = re.compile(r"submission\.json|ids\.npy|embeddings-[0-9]{1,3}\.npy")
_EXPECTED = f"{DOCUMENT}, {IDS} and embeddings-0.npy, embeddings-1.npy, ..."
_NPY: Any = np.lib.format  # numpy 1 has no types for it
# what zipfile and its decompressors raise for a member that is damaged
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    struct.error,
)


def embeddings_name(position: int) -> str:
    """Return the member that holds the embeddings of the seed at that position."""
    return f"embeddings-{position}.npy"


def is_archive(path: Path) -> bool:
    """Whether a submission at ``path`` is, or would be, a zip archive and not a folder."""
    return path.is_file() or (path.suffix == ".zip" and not path.is_dir())


def encode_array(array: npt.NDArray[Any]) -> bytes:
    """Return an array as the bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


@dataclass(frozen=True)
class ArrayHeader:
    """What a .npy file says of its array.

    Attributes:
        shape: its shape.
        dtype: its type, int64 for ids and float32 for embeddings.
        is_fortran: whether columns follow each other, not rows.
        start: bytes before the numbers.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    start: int

    @classmethod
    def read(cls, data: bytes, name: str, size: int) -> ArrayHeader:
        """Read the header of a member.

        Args:
            data: the first bytes of the member.
            name: its name.
            size: its size in bytes.

        Raises:
            ValueError: if it is not a .npy file, the array is of another kind, or does not fill the member.
        """
        file = io.BytesIO(data)
        try:
            version = _NPY.read_magic(file)
            read_header = _NPY.read_array_header_1_0 if version == (1, 0) else _NPY.read_array_header_2_0
            shape, is_fortran, kind = read_header(file)
        except NOT_AN_ARRAY as error:
            raise ValueError(f"{name} is not a .npy file ({str(error)[:_SHOWN]})") from error
        axes, dtype = (("N",), np.dtype("<i8")) if name == IDS else (("N", "d"), np.dtype("<f4"))
        if kind != dtype or len(shape) != len(axes) or not all(map(_is_length, shape)):
            expected = f"({', '.join(axes)}{',' if len(axes) == 1 else ''}) of {dtype.name}"
            raise ValueError(f"{name}: expected {expected}, got shape {shape} of {kind}")
        if size - file.tell() != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name}: {size - file.tell()} bytes do not hold an array of shape {shape} of {kind}")
        return cls(shape, dtype, is_fortran, file.tell())


class Members(ABC):
    """The members of one submission; a context manager.

    Attributes:
        sizes: bytes of each member, uncompressed.
        faults: what is wrong with the container; members with a fault are left out of ``sizes``.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.faults: list[str] = []

    @abstractmethod
    def _open(self, name: str) -> IO[bytes]:
        """Open a member for reading."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the container."""

    def document(self) -> bytes:
        """Return the bytes of the document; SubmissionError if it cannot be read."""
        with self._reading(DOCUMENT) as file:
            data = file.read(self.sizes[DOCUMENT] + 1)
        if len(data) != self.sizes[DOCUMENT]:
            raise _other_size(DOCUMENT)
        return data

    def header(self, name: str) -> ArrayHeader:
        """Return what a member says of its array.

        Raises:
            SubmissionError: if it cannot be read.
            ValueError: if it is not an array of the kind that its name promises.
        """
        with self._reading(name) as file:
            data = file.read(_MAX_HEADER_BYTES)
        return ArrayHeader.read(data, name, self.sizes[name])

    def array(self, name: str, header: ArrayHeader) -> tuple[npt.NDArray[Any], str]:
        """Return a member's array, which cannot be written to, and the SHA-256 of the member.

        Raises:
            SubmissionError: if it cannot be read.
        """
        flat = np.empty(math.prod(header.shape), header.dtype)
        bytes_of = flat.data.cast("B")
        digest, filled = hashlib.sha256(), 0
        with self._reading(name) as file:
            digest.update(file.read(header.start))
            while filled < len(bytes_of):
                chunk = file.read(min(_CHUNK, len(bytes_of) - filled))
                if not chunk:
                    raise _other_size(name)
                bytes_of[filled : filled + len(chunk)] = chunk
                digest.update(chunk)
                filled += len(chunk)
            if file.read(1):
                raise _other_size(name)
        flat.flags.writeable = False
        return flat.reshape(header.shape, order="F" if header.is_fortran else "C"), digest.hexdigest()

    @contextmanager
    def _reading(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with self._open(name) as file:
                yield file
        except _UNREADABLE as error:
            raise SubmissionError(f"{name} cannot be read: {error}") from error

    def _admit(self, name: str, size: int) -> None:
        limit = MAX_BYTES if name == DOCUMENT else _MAX_ARRAY_BYTES
        if not _ALLOWED.fullmatch(name):
            self.faults.append(f"{name!a} does not belong in a submission; expected {_EXPECTED}")
        elif name in self.sizes:
            self.faults.append(f"{name} is there twice")
        elif size > limit:
            self.faults.append(f"{name} has {size} bytes; at most {limit} are read")
        else:
            self.sizes[name] = size

    def _complete(self) -> None:
        total = sum(self.sizes.values())
        if total > _MAX_TOTAL_BYTES:
            self.faults.append(f"the arrays have {total} bytes together; at most {_MAX_TOTAL_BYTES} are read")
            self.sizes = {name: size for name, size in self.sizes.items() if name == DOCUMENT}
        self.faults += [f"{name} is missing" for name in (DOCUMENT, IDS) if name not in self.sizes]


@contextmanager
def open_members(path: Path) -> Iterator[Members]:
    """Open a submission's container, check its table of contents, and close it in the end.

    Raises:
        FileNotFoundError: if there is nothing at ``path``.
        SubmissionError: if it is neither a folder nor a zip archive, or holds too many members.
    """
    if not path.exists():
        raise FileNotFoundError(f"no submission at {path}; expected a folder or a zip archive with {_EXPECTED}")
    members: Members = _Folder(path) if path.is_dir() else _Archive(path)
    try:
        yield members
    finally:
        members.close()


class _Folder(Members):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        files = sorted(file for file in path.iterdir() if not (file.name.startswith(".") and file.suffix == ".tmp"))
        if len(files) > MAX_SEEDS + 2:
            raise SubmissionError(f"{path} holds {len(files)} files; a submission has {_EXPECTED}")
        for file in files:
            if file.is_symlink() or not file.is_file():
                self.faults.append(f"{file.name!a} is not a regular file")
            else:
                self._admit(file.name, file.stat().st_size)
        self._complete()

    def _open(self, name: str) -> IO[bytes]:
        return open_regular(self._path / name)

    def close(self) -> None:
        pass  # a folder is not held


class _Archive(Members):
    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            self._file = open_regular(path)
        except ValueError as error:
            raise SubmissionError(str(error)) from error
        try:
            self._archive = zipfile.ZipFile(_BoundedReads(self._file))
        except _UNREADABLE as error:
            self._file.close()
            raise SubmissionError(f"{path} is not a readable zip archive ({error})") from error
        entries = self._archive.infolist()
        if len(entries) > MAX_SEEDS + 2:
            self.close()
            raise SubmissionError(f"{path} holds {len(entries)} entries; a submission has {_EXPECTED}")
        for entry in entries:
            if entry.flag_bits & 1:
                self.faults.append(f"{entry.filename!a} is encrypted")
            elif entry.compress_type not in _COMPRESSIONS:
                self.faults.append(
                    f"{entry.filename!a} is compressed in a way that is not read; store it, or deflate it"
                )
            elif entry.file_size > max(_FREE_BYTES, _MAX_RATIO * entry.compress_size):
                self.faults.append(
                    f"{entry.filename!a} would grow {entry.file_size // max(entry.compress_size, 1)}-fold when "
                    f"unpacked; at most {_MAX_RATIO} is accepted (store the arrays uncompressed)"
                )
            else:
                self._admit(entry.filename, entry.file_size)
        self._complete()

    def _open(self, name: str) -> IO[bytes]:
        return self._archive.open(name)

    def close(self) -> None:
        self._archive.close()
        self._file.close()


class _BoundedReads(io.RawIOBase):
    """A file of which no more than a chunk is read at once: a zip archive's table of contents could be larger."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(_CHUNK + 1 if size < 0 else min(size, _CHUNK + 1))
        if len(data) > _CHUNK:
            raise ValueError(f"more than {_CHUNK} bytes would be read at once")
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


def _is_length(length: Any) -> bool:
    return type(length) is int and length > 0  # a header may say True, or -1


def _other_size(name: str) -> SubmissionError:
    return SubmissionError(f"{name} has another size than the table of contents says")
