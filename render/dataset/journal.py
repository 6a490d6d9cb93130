"""The images of an unfinished shard: an append-only file that stays usable when its process is killed.

The file is a sequence of frames: a header (row, positive or not, length), the bytes, and a checksum over both. An
incomplete frame, and whatever follows it, is dropped when the journal is opened again, and its image is rendered again.
The first frame holds a fingerprint of the settings that the images were rendered with.
"""

import errno
import hashlib
import os
import struct
import sys
from collections.abc import Iterator, KeysView
from pathlib import Path
from typing import IO, NamedTuple

from ident3d.errors import DatasetError
from ident3d.files import try_lock

__all__ = ["Journal", "JournalBusyError", "JournalKey"]

_MAGIC = b"3Did"
_HEADER = struct.Struct("<4sqBI")
_CHECKSUM_BYTES = 16
_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)


class JournalKey(NamedTuple):
    """Identifies an image of a shard.

    Attributes:
        row: index within the split.
        positive: whether it is the exact positive of that row.
    """

    row: int
    positive: bool = False


_SETTINGS = JournalKey(-1)


class JournalBusyError(BlockingIOError):
    """Another process of this machine has the journal open."""


class Journal:
    """The journal of one shard, open in one process at a time.

    The file itself is locked, so the lock ends with the process, however that ends. On Windows, and on file systems
    without locks, there is none: there two processes may render the same shard, to the same images.

    Args:
        path: the file; it and its folder are created if they do not exist.
        settings: fingerprint of everything that the images depend on. A journal with another one is emptied.

    Raises:
        JournalBusyError: if another process has it open.
    """

    def __init__(self, path: Path, settings: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = _open_locked(path)
        try:
            self._places: dict[JournalKey, tuple[int, int]] = {}
            self._end = 0
            if not self._recover(settings.encode()):
                self._cut(0)
                self._places.clear()
                self._write(_SETTINGS, settings.encode())
        except BaseException:
            self._file.close()
            raise

    @property
    def present(self) -> KeysView[JournalKey]:
        """Keys of the images in the journal."""
        return self._places.keys()

    def append(self, key: JournalKey, image: bytes) -> None:
        """Add an image.

        Raises:
            OSError: if it cannot be written, for example on a full disk; the journal stays as it was.
        """
        self._places[key] = self._write(key, image)

    def image(self, key: JournalKey) -> bytes:
        """Return an image.

        Raises:
            KeyError: if it is not in the journal.
            DatasetError: if it is not what was written.
        """
        start, length = self._places[key]
        header = _header(key, length)
        self._file.seek(start - len(header))
        frame = self._file.read(len(header) + length + _CHECKSUM_BYTES)
        payload = frame[len(header) : -_CHECKSUM_BYTES]
        if frame != header + payload + _checksum(header, payload):
            raise DatasetError(
                f"{self.path} was changed while it was open: two processes may be rendering this shard on a disk "
                "without locks. Give each its own part (--shard K/N); what is damaged is rendered again"
            )
        return payload

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()

    def delete(self) -> None:
        """Remove the file and close it."""
        if sys.platform == "win32":  # where an open file cannot be removed
            self.close()
        self.path.unlink(missing_ok=True)
        self.close()

    def _write(self, key: JournalKey, payload: bytes) -> tuple[int, int]:
        header = _header(key, len(payload))
        start = self._end
        try:
            self._file.seek(start)
            rest = memoryview(header + payload + _checksum(header, payload))
            while rest:  # a disk that is almost full writes a part first, and fails then
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._cut(start)
            raise
        self._end = self._file.tell()
        return start + len(header), len(payload)

    def _recover(self, settings: bytes) -> bool:
        """Find the whole frames, and cut off what follows them; return whether they are of the same settings."""
        for key, start, length in self._frames():
            if key == _SETTINGS:
                self._file.seek(start)
                if self._file.read(length) != settings:
                    return False
            elif self._end == 0:
                return False
            else:
                self._places[key] = (start, length)
            self._end = start + length + _CHECKSUM_BYTES
        self._cut(self._end)
        return self._end > 0

    def _frames(self) -> Iterator[tuple[JournalKey, int, int]]:
        position, size = 0, os.fstat(self._file.fileno()).st_size
        while True:
            self._file.seek(position)
            header = self._file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            magic, row, positive, length = _HEADER.unpack(header)
            start = position + _HEADER.size
            if magic != _MAGIC or start + length + _CHECKSUM_BYTES > size:
                return
            if _checksum(header, self._file.read(length)) != self._file.read(_CHECKSUM_BYTES):
                return
            yield JournalKey(row, bool(positive)), start, length
            position = start + length + _CHECKSUM_BYTES

    def _cut(self, end: int) -> None:
        self._file.truncate(end)
        self._end = end


def _header(key: JournalKey, length: int) -> bytes:
    return _HEADER.pack(_MAGIC, key.row, key.positive, length)


def _checksum(header: bytes, payload: bytes) -> bytes:
    return hashlib.blake2b(header + payload, digest_size=_CHECKSUM_BYTES).digest()


def _open_locked(path: Path) -> IO[bytes]:
    while True:
        file = os.fdopen(os.open(path, _OPEN_FLAGS, 0o666), "r+b", buffering=0)
        if try_lock(file) is False:
            file.close()
            raise JournalBusyError(errno.EAGAIN, "another process is rendering this shard", str(path))
        # The process that held the lock may have deleted the file meanwhile: then this locks a file without a name.
        if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
            return file
        file.close()
