"""Single images: decoding files, and encoding PNG that is quick to decode."""

import io
import struct
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from PIL import Image, UnidentifiedImageError

from ident3d.errors import DatasetError

__all__ = [
    "MAX_IMAGE_BYTES",
    "MOST_PIXELS",
    "PNG_SIGNATURE",
    "EncodedImage",
    "check_integrity",
    "decode",
    "encode_png",
    "stack",
]

_FORMATS = ("PNG", "WEBP", "JPEG")
_UNREADABLE = (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError)

_DEEP = ("I;16", "I;16B", "I;16L", "I;16N", "I")
"""What Pillow calls grey of 16 bits, by its release."""

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB = b"\x08\x02\x00\x00\x00"
"""What follows width and height in a header: 8 bits a channel, RGB, not interlaced."""

_DATA = 41
"""Where the compressed rows of our own files begin: after the signature, the header, and the frame of one chunk."""

_FRAME = 12
"""Bytes around the data of a chunk: its length, its kind, and its checksum."""

_SUB = 1
"""The PNG filter that stores every pixel as its difference to the one on its left."""

_COMPRESSION = 6
"""zlib's level: 9 makes images of 224x224 smaller by 6%, and takes ten times as long."""

MOST_PIXELS = 2**26
"""Pixels of the largest image that is decoded: 8192x8192, which takes half a gigabyte."""

MAX_IMAGE_BYTES = 2**28
"""The most that is read of an image's file."""

_LARGEST = 2**26
"""Bytes of pixels up to which an image is taken for one of ours; what claims to be larger is left to Pillow."""


def decode(encoded: bytes, what: str) -> npt.NDArray[np.uint8]:
    """Decode an image to (H, W, 3) uint8; it may be read-only.

    Args:
        encoded: the bytes of an image file.
        what: where they come from, for the message.

    Raises:
        DatasetError: if the bytes are not an image, a truncated one, or one of more than MOST_PIXELS pixels.
    """
    pixels = _decode_own(encoded)
    if pixels is not None:
        return pixels
    try:
        _check_webp(encoded)
        with Image.open(io.BytesIO(encoded), formats=_FORMATS) as image:
            _check_size(image.width, image.height)
            if image.mode in _DEEP:
                return _from_16_bits(np.asarray(image))
            return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    except _UNREADABLE as error:
        raise _unreadable(what, error) from error


def check_integrity(encoded: bytes, what: str) -> None:
    """Check the checksums inside of a PNG; not every decoder does, and some changed bytes pass for other pixels.

    Args:
        encoded: the bytes of an image file; there is nothing to check in other formats.
        what: where they come from, for the message.

    Raises:
        DatasetError: if a checksum is not that of its bytes.
    """
    try:
        _check_webp(encoded)
        with Image.open(io.BytesIO(encoded), formats=_FORMATS) as image:
            image.verify()
    except _UNREADABLE as error:
        raise _unreadable(what, error) from error


def encode_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Encode (H, W, 3) uint8 as PNG; the same pixels give the same bytes with the same zlib.

    All rows get the filter Sub. Encoders choose one for each row, and nearly always end up with Paeth, which takes
    decoders longer to undo than to inflate. With Sub, files of rendered images are about as large (64x64: 6% larger
    than Pillow's; 224x224: 10% smaller), and :func:`decode` takes a third of the time. Pillow cannot be asked for one
    filter.
    """
    height, width, channels = pixels.shape
    differences = pixels.copy()
    differences[:, 1:] -= pixels[:, :-1]
    rows = np.empty((height, 1 + width * channels), np.uint8)
    rows[:, 0] = _SUB
    rows[:, 1:] = differences.reshape(height, -1)
    header = struct.pack(">II", width, height) + _RGB
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.data, _COMPRESSION)), (b"IEND", b""))
    return PNG_SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


class EncodedImage(NamedTuple):
    """One image, as it is stored and decoded.

    Attributes:
        encoded: the bytes of an image file.
        pixels: (H, W, 3) uint8.
    """

    encoded: bytes
    pixels: npt.NDArray[np.uint8]


def stack(images: Iterable[npt.NDArray[np.uint8]], what: str) -> npt.NDArray[np.uint8]:
    """Stack one or more images of one size to (B, H, W, 3); DatasetError naming ``what`` when their sizes differ."""
    found = list(images)
    sizes = {image.shape for image in found}
    if len(sizes) > 1:
        raise DatasetError(f"{what}: images of different sizes, {sorted(sizes)}, do not make a batch")
    return np.stack(found)


def _decode_own(encoded: bytes) -> npt.NDArray[np.uint8] | None:
    """Decode what :func:`encode_png` wrote, in half of the time that Pillow needs; None for any other file."""
    width, height, length = (int.from_bytes(encoded[place : place + 4], "big") for place in (16, 20, 33))
    row_bytes = 1 + 3 * width
    begins = encoded.startswith(PNG_SIGNATURE) and encoded[24:29] == _RGB and encoded[37:_DATA] == b"IDAT"
    if not begins or len(encoded) != _DATA + length + 4 + _FRAME or height * row_bytes > _LARGEST:
        return None
    try:
        # With a bound: what claims to be small may inflate to gigabytes.
        inflater = isal_zlib.decompressobj()
        inflated = inflater.decompress(memoryview(encoded)[_DATA : _DATA + length], height * row_bytes + 1)
    except isal_zlib.error:  # type: ignore[misc]  # a class, which is annotated as an instance
        return None
    if len(inflated) != height * row_bytes or not inflater.eof:
        return None
    rows = np.frombuffer(inflated, np.uint8).reshape(height, row_bytes)
    if (rows[:, 0] != _SUB).any():
        return None
    return np.add.accumulate(rows[:, 1:].reshape(height, width, 3), axis=1, dtype=np.uint8)


def _check_size(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise ValueError(f"{width}x{height} pixels are more than the {MOST_PIXELS:,} that are read")


def _check_webp(encoded: bytes) -> None:
    """Raise ValueError for a WebP of too many pixels: Pillow makes room for two images of them when it opens one."""
    if encoded[:4] != b"RIFF" or encoded[8:12] != b"WEBP":
        return
    kind, sizes = encoded[12:16], int.from_bytes(encoded[24:30], "little")
    if kind == b"VP8X":  # 24 bits each, of the canvas that all frames lie in
        width, height = (sizes & 0xFFFFFF) + 1, (sizes >> 24) + 1
    elif kind == b"VP8L":  # 14 bits each
        sizes = int.from_bytes(encoded[21:25], "little")
        width, height = (sizes & 0x3FFF) + 1, (sizes >> 14 & 0x3FFF) + 1
    else:
        sizes = int.from_bytes(encoded[26:30], "little")
        width, height = sizes & 0x3FFF, sizes >> 16 & 0x3FFF
    _check_size(width, height)


def _from_16_bits(grey: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return grey of 16 bits a pixel as (H, W, 3) uint8, rounded; Pillow's own conversion cuts it off at 255."""
    rounded = (grey.astype(np.uint32) * 255 + 32_767) // 65_535
    return np.repeat(rounded.astype(np.uint8)[..., None], 3, axis=2)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _unreadable(what: str, error: Exception) -> DatasetError:
    return DatasetError(f"{what} is not a readable image ({error}); fetch or render it again")
