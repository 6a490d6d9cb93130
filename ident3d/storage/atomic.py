"""Files that are either whole or not there."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["atomic_file", "sha256_of", "write_bytes", "write_text"]

_CHUNK = 1 << 20


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that appears under ``path`` only when the block ends without an error.

    The bytes go to a neighbour with a name of this process, reach the disk, and are renamed over ``path``. An error
    removes the neighbour and leaves what was at ``path`` as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    neighbour = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with neighbour.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        neighbour.replace(path)
    finally:
        neighbour.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically."""
    with atomic_file(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, atomically."""
    write_bytes(path, text.encode())


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
