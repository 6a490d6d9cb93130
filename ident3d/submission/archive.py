"""Members: the files of a submission, in a folder or a zip archive, checked before anything is read.

Nothing is ever unpacked to disk. An archive's table of contents is checked first: names, number, sizes, ratios.
"""

from __future__ import annotations

import io
import lzma
import math
import re
import tokenize
import zipfile
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.codec import MAX_BYTES
from ident3d.errors import SubmissionError
from ident3d.submission.metadata import MAX_SEEDS

__all__ = [
    "DOCUMENT",
    "IDS",
    "MAX_WIDTH",
    "Members",
    "check_embeddings",
    "check_ids",
    "decode_array",
    "embeddings_name",
    "encode_array",
    "is_archive",
    "named",
    "open_members",
]

MAX_WIDTH = 1 << 16
_NAMED = 5
_SHOWN = 200  # characters of numpy's message, which may quote the header
_UNREADABLE = (ValueError, TypeError, SyntaxError, EOFError, MemoryError, RecursionError, tokenize.TokenError)
_NPY: Any = np.lib.format  # numpy 1 has no types for it


def encode_array(array: npt.NDArray[Any]) -> bytes:
    """Return an array as the bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def decode_array(data: bytes, name: str, dtype: str, ndim: int) -> npt.NDArray[Any]:
    """Read an array of that type and number of axes.

    Args:
        data: the bytes of a .npy file.
        name: its name, for the message.
        dtype: the type that is expected.
        ndim: the number of axes that is expected.

    Raises:
        ValueError: if the bytes are no .npy file, the array is another, or its size is not what its header says.
    """
    file = io.BytesIO(data)
    try:
        version = _NPY.read_magic(file)
        read_header = _NPY.read_array_header_1_0 if version == (1, 0) else _NPY.read_array_header_2_0
        shape, fortran, kind = read_header(file)
    except _UNREADABLE as error:
        raise ValueError(f"{name} is no .npy file ({str(error)[:_SHOWN]})") from error
    if kind != np.dtype(dtype).newbyteorder("<") or len(shape) != ndim or not all(map(_is_length, shape)):
        raise ValueError(f"{name}: expected {_shape(ndim)} of {dtype}, got shape {shape} of {kind}")
    if len(data) - file.tell() != math.prod(shape) * kind.itemsize:
        raise ValueError(f"{name}: {len(data) - file.tell()} bytes do not hold an array of shape {shape} of {kind}")
    return np.frombuffer(data, dtype=kind, offset=file.tell()).reshape(shape, order="F" if fortran else "C")


def check_ids(ids: npt.NDArray[np.int64], name: str) -> list[str]:
    """Return what is wrong with sample ids: negative or doubled ones."""
    faults = []
    if ids.min() < 0:
        faults.append(f"{name}: ids are 0 or larger, not {ids.min()}")
    values, counts = np.unique(ids, return_counts=True)
    doubled = values[counts > 1]
    if len(doubled):
        faults.append(f"{name}: {named(doubled, 'id occurs', 'ids occur')} more than once")
    return faults


def check_embeddings(embeddings: npt.NDArray[np.float32], name: str) -> list[str]:
    """Return what is wrong with embeddings: numbers that are not finite, too many dimensions."""
    if embeddings.shape[1] > MAX_WIDTH:
        return [f"{name}: {embeddings.shape[1]} dimensions; at most {MAX_WIDTH} are scored"]
    bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if not len(bad):
        return []
    column = int(np.flatnonzero(~np.isfinite(embeddings[bad[0]]))[0])
    number = embeddings[bad[0], column]
    rows = f"{len(bad)} such rows in all"
    return [f"{name}: numbers must be finite; row {bad[0]}, column {column} is {number} ({rows})"]


def named(values: npt.NDArray[np.int64], one: str, many: str) -> str:
    """Return a count of things, with the first few named."""
    shown = ", ".join(str(value) for value in values[:_NAMED])
    more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return f"{len(values)} {one if len(values) == 1 else many} ({shown}{more})"


def _is_length(length: Any) -> bool:
    return type(length) is int and length > 0  # a header may say True, or -1


def _shape(ndim: int) -> str:
    return "(N,)" if ndim == 1 else "(N, d)"


DOCUMENT = "submission.json"
IDS = "ids.npy"
MAX_ARRAY_BYTES = 4 << 30
MAX_TOTAL_BYTES = 16 << 30
MAX_RATIO = 200  # of sizes before and after compression; float32 numbers reach about 1.1, zeros about 1,000
_FREE_BYTES = 1 << 20  # a small member may compress as well as it likes
_ALLOWED = re.compile(r"submission\.json|ids\.npy|embeddings-[0-9]{1,3}\.npy")
# what zipfile and its decompressors raise for a member that is damaged, or compressed in a way that they do not know
_UNREADABLE_members = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
)
_EXPECTED = f"{DOCUMENT}, {IDS} and embeddings-0.npy, embeddings-1.npy, ..."


def embeddings_name(position: int) -> str:
    """Return the member that holds the embeddings of the seed at that position."""
    return f"embeddings-{position}.npy"


def is_archive(path: Path) -> bool:
    """Whether a submission at ``path`` is, or would be, a zip archive and not a folder."""
    return path.is_file() or (path.suffix == ".zip" and not path.is_dir())


class Members(ABC):
    """The members of one submission.

    Attributes:
        sizes: bytes of each member, uncompressed.
        faults: what is wrong with the container; members with a fault are left out of ``sizes``.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.faults: list[str] = []

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return a member's bytes; SubmissionError if it cannot be read."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the container."""

    def _admit(self, name: str, size: int) -> None:
        limit = MAX_BYTES if name == DOCUMENT else MAX_ARRAY_BYTES
        if not _ALLOWED.fullmatch(name):
            self.faults.append(f"{name!a} does not belong into a submission; expected {_EXPECTED}")
        elif name in self.sizes:
            self.faults.append(f"{name} is there twice")
        elif size > limit:
            self.faults.append(f"{name} has {size} bytes; at most {limit} are read")
        else:
            self.sizes[name] = size

    def _complete(self) -> None:
        total = sum(self.sizes.values())
        if total > MAX_TOTAL_BYTES:
            self.faults.append(f"the arrays have {total} bytes together; at most {MAX_TOTAL_BYTES} are read")
            self.sizes = {name: size for name, size in self.sizes.items() if name == DOCUMENT}
        self.faults += [f"{name} is missing" for name in (DOCUMENT, IDS) if name not in self.sizes]


class _Folder(Members):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        files = sorted(file for file in path.iterdir() if not (file.name.startswith(".") and file.suffix == ".tmp"))
        if len(files) > MAX_SEEDS + 2:
            raise SubmissionError(f"{path} holds {len(files)} files; a submission has {_EXPECTED}")
        for file in files:
            if file.is_symlink() or not file.is_file():
                self.faults.append(f"{file.name!a} is no plain file")
            else:
                self._admit(file.name, file.stat().st_size)
        self._complete()

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def close(self) -> None:
        pass  # a folder is not held


class _Archive(Members):
    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, ValueError) as error:
            raise SubmissionError(f"{path} is no readable zip archive ({error})") from error
        entries = self._archive.infolist()
        if len(entries) > MAX_SEEDS + 2:
            self.close()
            raise SubmissionError(f"{path} holds {len(entries)} entries; a submission has {_EXPECTED}")
        for entry in entries:
            if entry.flag_bits & 1:
                self.faults.append(f"{entry.filename!a} is encrypted")
            elif entry.file_size > max(_FREE_BYTES, MAX_RATIO * entry.compress_size):
                self.faults.append(
                    f"{entry.filename!a} would grow {entry.file_size // max(entry.compress_size, 1)}-fold when "
                    f"unpacked; at most {MAX_RATIO} is accepted (store the arrays uncompressed)"
                )
            else:
                self._admit(entry.filename, entry.file_size)
        self._complete()

    def read(self, name: str) -> bytes:
        try:
            with self._archive.open(name) as member:
                data = member.read(self.sizes[name] + 1)
        except _UNREADABLE_members as error:
            raise SubmissionError(f"{name} cannot be read from the archive: {error}") from error
        if len(data) != self.sizes[name]:
            raise SubmissionError(f"{name} has another size than the archive's table of contents says")
        return data

    def close(self) -> None:
        self._archive.close()


def open_members(path: Path) -> Members:
    """Open a submission's container and check its table of contents.

    Raises:
        FileNotFoundError: if there is nothing at ``path``.
        SubmissionError: if it is neither a folder nor a zip archive, or holds too many members.
    """
    if path.is_dir():
        return _Folder(path)
    if not path.exists():
        raise FileNotFoundError(f"no submission at {path}; expected a folder or a zip archive with {_EXPECTED}")
    return _Archive(path)
