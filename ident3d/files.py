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
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

__all__ = [
    "LEFT_BEHIND_S",
    "atomic_file",
    "check_disk_space",
    "is_abandoned",
    "nearest_folder",
    "open_regular",
    "read_bytes",
    "remove_unfinished",
    "sha256_of",
    "try_lock",
    "write_bytes",
    "write_text",
]

_CHUNK = 1 << 20
LEFT_BEHIND_S = 24 * 3600.0
"""Age from which what carries no lock counts as left behind, where there are no locks."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears under ``path`` only when the block ends without an error.

    The bytes go to a neighbour with a name of its own, reach the disk, and are renamed over ``path``. An error
    removes the neighbour and leaves what was at ``path`` as it was. Neighbours of writers that were killed are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(path)
    neighbour, file = _open_neighbour(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":  # while it is locked: nobody takes it for one that was left behind
                neighbour.replace(path)
        if sys.platform == "win32":  # where an open file cannot be renamed
            neighbour.replace(path)
    finally:
        neighbour.unlink(missing_ok=True)


def remove_unfinished(path: Path) -> None:
    """Remove the neighbours that writers of ``path`` left when they were killed, and none of those that still write."""
    for neighbour in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):  # it may be gone, or somebody else's
            if is_abandoned(neighbour):
                neighbour.unlink()


def try_lock(file: IO[bytes]) -> bool | None:
    """Lock an open file for as long as it is open; the lock ends with the process, however that ends.

    Returns:
        Whether it is locked now: False where another process has locked it, None where this system or file system
        has no locks.
    """
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_abandoned(path: Path) -> bool:
    """Return whether nobody writes a file that its writer keeps locked; one without locks is abandoned after a day.

    Raises:
        OSError: if it cannot be opened, for example since it is gone.
    """
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    with path.open("r+b") as file:
        locked = try_lock(file)
        return time.time() - path.stat().st_mtime > LEFT_BEHIND_S if locked is None else locked


def _open_neighbour(path: Path) -> tuple[Path, IO[bytes]]:
    """Open a new file beside ``path``, locked where there are locks."""
    while True:
        # A random name: machines that share a folder may well have processes of the same number.
        neighbour = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
        file = neighbour.open("xb")
        # Between opening and locking it another process may have taken it for one that was left behind.
        if try_lock(file) is not False and neighbour.exists():
            return neighbour, file
        file.close()


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically."""
    with atomic_file(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, atomically."""
    write_bytes(path, text.encode())


def open_regular(path: Path | str) -> IO[bytes]:
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


def read_bytes(path: Path | str, max_bytes: int) -> bytes:
    """Read a regular file whole.

    Args:
        path: the file.
        max_bytes: the most that it may hold.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is larger, or not a regular file.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        # The size first: a file with holes takes no space on the disk and all of it in memory.
        data = b"" if size > max_bytes else file.read(max_bytes + 1)
    if max(size, len(data)) > max_bytes:
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
