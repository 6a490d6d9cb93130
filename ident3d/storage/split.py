"""What every layout of a split offers to the dataset class, and the decoding of single pictures."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from ident3d.errors import DatasetError
from ident3d.factors import Factors

__all__ = ["StoredSplit", "decode", "encode_png", "no_positives", "stack"]


class StoredSplit(Protocol):
    """One split of a dataset on disk. Opening it reads latents only; pictures are read one by one.

    Attributes:
        layout: "native", "published" or "decoded".
        root: the folder.
        split: name of the split.
        factors: what the columns of the latents are.
        ids: (N,) int64, index of each row within the split as it was planned.
        latents: (N, d) float32 raw latents.
        latents_pos: (N, d) float32 raw latents of the exact positives, or None where there are none.
    """

    layout: str
    root: Path
    split: str
    factors: Factors
    ids: npt.NDArray[np.int64]
    latents: npt.NDArray[np.float32]
    latents_pos: npt.NDArray[np.float32] | None

    def encoded(self, row: int, *, positive: bool = False) -> bytes:
        """Return the encoded picture of a row, PNG where this layout has to encode it."""

    def pixels(self, row: int, *, positive: bool = False) -> npt.NDArray[np.uint8]:
        """Return the (H, W, 3) uint8 picture of a row."""

    def batch(self, rows: npt.NDArray[np.int64], *, positive: bool = False) -> npt.NDArray[np.uint8]:
        """Return the (B, H, W, 3) uint8 pictures of the given rows."""


def decode(encoded: bytes, what: str) -> npt.NDArray[np.uint8]:
    """Decode a picture to (H, W, 3) uint8.

    Args:
        encoded: the bytes of an image file.
        what: where they come from, for the message.

    Raises:
        DatasetError: if the bytes are no picture, or a truncated one.
    """
    try:
        with Image.open(io.BytesIO(encoded)) as image:
            return np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise DatasetError(f"{what} is no readable picture ({error}); fetch or render it again") from error


def encode_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Encode (H, W, 3) uint8 as PNG; the same pixels give the same bytes."""
    file = io.BytesIO()
    Image.fromarray(pixels, "RGB").save(file, "PNG", compress_level=9)
    return file.getvalue()


def stack(pictures: Iterable[npt.NDArray[np.uint8]], what: str) -> npt.NDArray[np.uint8]:
    """Stack pictures of one size to (B, H, W, 3); DatasetError naming ``what`` when their sizes differ."""
    found = list(pictures)
    sizes = {picture.shape for picture in found}
    if len(sizes) > 1:
        raise DatasetError(f"{what}: pictures of different sizes, {sorted(sizes)}, do not make a batch")
    return np.stack(found)


def no_positives(root: Path, split: str) -> DatasetError:
    """Return the error for exact positives asked of a split that has none."""
    return DatasetError(
        f"the split {split!r} of {root} holds no exact positives: render with --pairs, or match pairs with "
        "ident3d.PositivePairs"
    )
