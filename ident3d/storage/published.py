"""The layout of the published archives: ``raw_latents.npy`` beside ``images/NNNNNN.png``, a folder a split."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.factors import FACTORS
from ident3d.latents import check_latents
from ident3d.storage.split import decode, no_positives, stack

__all__ = ["IMAGES_FOLDER", "RAW_LATENTS", "PublishedSplit", "image_name", "published_folder", "published_splits"]

RAW_LATENTS = "raw_latents.npy"
IMAGES_FOLDER = "images"
_NESTED = "3dident"  # the folder inside the published archives


def image_name(index: int, count: int) -> str:
    """Return the file name of a picture: the index, padded to ceil(log10(count)) digits."""
    digits = max(1, len(str(count - 1)))
    return f"{index:0{digits}d}.png"


def published_folder(root: Path, split: str) -> Path | None:
    """Return the folder of a split in the published layout, or None where there is none."""
    for folder in (root / split, root / _NESTED / split):
        if (folder / RAW_LATENTS).is_file() and (folder / IMAGES_FOLDER).is_dir():
            return folder
    return None


def published_splits(root: Path) -> list[str]:
    """Return the splits that are there in the published layout."""
    return [split for split in ("train", "test") if published_folder(root, split) is not None]


class PublishedSplit:
    """One split in the published layout; see :class:`~ident3d.storage.split.StoredSplit`.

    Args:
        root: the folder that holds ``train/`` and ``test/``, or ``3dident/`` with both.
        split: name of the split.

    Raises:
        DatasetError: if pictures and latents differ in number, or the latents are damaged.
    """

    layout = "published"
    factors = FACTORS
    latents_pos: npt.NDArray[np.float32] | None = None

    def __init__(self, root: Path, split: str) -> None:
        folder = published_folder(root, split)
        if folder is None:
            raise FileNotFoundError(f"{root} holds no split {split!r} in the published layout")
        self.root = root
        self.split = split
        path = folder / RAW_LATENTS
        try:
            self.latents = check_latents(np.load(path, allow_pickle=False))
        except (ValueError, EOFError) as error:
            raise DatasetError(f"{path}: {error}") from error
        self._images = folder / IMAGES_FOLDER
        found = sum(1 for file in self._images.iterdir() if file.suffix == ".png")
        if found != len(self.latents):
            raise DatasetError(
                f"{folder}: {found} pictures in {IMAGES_FOLDER}/ but {len(self.latents)} rows of latents"
            )
        self.ids: npt.NDArray[np.int64] = np.arange(len(self.latents))

    def encoded(self, row: int, *, positive: bool = False) -> bytes:
        """Return the encoded picture of a row, as it is stored."""
        if positive:
            raise no_positives(self.root, self.split)
        path = self._images / image_name(row, len(self.latents))
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise DatasetError(f"{path} is missing; fetch the archive again") from error

    def pixels(self, row: int, *, positive: bool = False) -> npt.NDArray[np.uint8]:
        """Return the (H, W, 3) uint8 picture of a row."""
        name = image_name(row, len(self.latents))
        return decode(self.encoded(row, positive=positive), f"{self._images / name}")

    def batch(self, rows: npt.NDArray[np.int64], *, positive: bool = False) -> npt.NDArray[np.uint8]:
        """Return the (B, H, W, 3) uint8 pictures of the given rows."""
        return stack((self.pixels(int(row), positive=positive) for row in rows), f"{self.root}, {self.split}")
