"""Members: the files of a submission, in a folder or a zip archive, checked before anything is read.

Nothing is ever unpacked to disk. An archive's table of contents is checked first: names, number, sizes, ratios.
"""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from abc import ABC, abstractmethod
from pathlib import Path

from ident3d.errors import SubmissionError
from ident3d.submission.metadata import MAX_SEEDS
from ident3d.submission.strict_json import MAX_BYTES

__all__ = ["DOCUMENT", "IDS", "Members", "embeddings_name", "is_archive", "open_members"]

DOCUMENT = "submission.json"
IDS = "ids.npy"
MAX_ARRAY_BYTES = 4 << 30
MAX_TOTAL_BYTES = 16 << 30
MAX_RATIO = 200  # of sizes before and after compression; float32 numbers reach about 1.1, zeros about 1,000
_FREE_BYTES = 1 << 20  # a small member may compress as well as it likes
_ALLOWED = re.compile(r"submission\.json|ids\.npy|embeddings-[0-9]{1,3}\.npy")
# what zipfile and its decompressors raise for a member that is damaged, or compressed in a way that they do not know
_UNREADABLE = (
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
        except _UNREADABLE as error:
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
