"""PNG files without what changes from run to run: Blender writes the date and the render time into every image."""

import struct
import zlib
from collections.abc import Iterator

from render.blender.errors import RenderError

__all__ = ["pixels_only"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEPT = frozenset({b"IHDR", b"PLTE", b"IDAT", b"IEND"})
_FRAME_BYTES = 12  # length, kind and checksum of a chunk


def pixels_only(png: bytes) -> bytes:
    """Return a PNG with its critical chunks alone: the same pixels, and the same bytes for the same pixels.

    Raises:
        RenderError: if the bytes are no whole PNG.
    """
    return _SIGNATURE + b"".join(chunk for kind, chunk in _chunks(png) if kind in _KEPT)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not png.startswith(_SIGNATURE):
        raise RenderError(f"a worker's image is no PNG: its {len(png)} bytes begin with {png[:8]!r}")
    position, kind = len(_SIGNATURE), b""
    while kind != b"IEND":
        length = int.from_bytes(png[position : position + 4], "big")
        chunk = png[position : position + _FRAME_BYTES + length]
        kind = chunk[4:8]
        if len(chunk) < _FRAME_BYTES + length or struct.unpack(">I", chunk[-4:])[0] != zlib.crc32(chunk[4:-4]):
            raise RenderError(f"a worker's image is damaged at byte {position} of {len(png)}")
        yield kind, chunk
        position += len(chunk)
