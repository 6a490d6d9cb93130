"""Files that are either whole or not there."""

import contextlib
import glob
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["atomic_file", "remove_unfinished", "sha256_of", "write_bytes", "write_text"]

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


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
