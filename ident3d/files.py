"""Files: read within bounds, written whole or not at all, on a disk that has space for them.

Everything here needs the standard library alone.
"""

import contextlib
import glob
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = [
    "atomic_file",
    "check_disk_space",
    "nearest_folder",
    "open_regular",
    "read_bytes",
    "remove_unfinished",
    "sha256_of",
    "write_bytes",
    "write_text",
]

_CHUNK = 1 << 20


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears under ``path`` only when the block ends without an error.

    The bytes go to a neighbour with a name of its own, reach the disk, and are renamed over ``path``. An error
    removes the neighbour and leaves what was at ``path`` as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A random name: machines that share a folder may well have processes of the same number.
    neighbour = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with neighbour.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        neighbour.replace(path)
    finally:
        neighbour.unlink(missing_ok=True)


def remove_unfinished(path: Path) -> None:
    """Remove the neighbours that writers of ``path`` left when they were killed; nobody may be writing it."""
    for neighbour in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        neighbour.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically."""
    with atomic_file(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, atomically."""
    write_bytes(path, text.encode())


def open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading in binary mode; a pipe or a device is refused, where opening it might never return.

    Raises:
        OSError: if it cannot be opened; FileNotFoundError if it is not there, a dangling link included.
        ValueError: if it is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Read a regular file whole.

    Args:
        path: the file.
        max_bytes: the most that it may hold.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is larger, or not a regular file.
    """
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"{path} holds more than {max_bytes:,} bytes, which is the most that is read")
    return data


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a regular file."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def nearest_folder(path: Path) -> Path:
    """Return the folder ``path``, or the nearest one above it that exists."""
    folder = path.absolute()
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def check_disk_space(path: Path, needed: float, task: str, advice: str = "free some, or choose another folder") -> None:
    """Check that a disk has space for what is to be written.

    Args:
        path: a file or folder on the disk, which need not exist yet.
        needed: about how many bytes will be written.
        task: what is to be done, as the subject of the message: "unpacking train.tar.gz".
        advice: what to do about a lack.

    Raises:
        OSError: if fewer bytes are free.
    """
    free = shutil.disk_usage(nearest_folder(path)).free
    if free < needed:
        raise OSError(f"{task} takes {needed:,.0f} bytes, but {free:,} are free on the disk of {path}: {advice}")
