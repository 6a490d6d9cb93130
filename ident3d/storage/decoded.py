"""The decoded cache: pictures as one uint8 memory map a split, for training that decoding would slow down."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.factors import FACTORS, Factors
from ident3d.storage.manifest import MANIFEST_NAME, Manifest
from ident3d.storage.split import encode_png, no_positives

__all__ = ["DecodedSplit", "array_path", "decoded_splits"]


def array_path(root: Path, split: str, array: str) -> Path:
    """Return where an array of a split lies: "pixels", "latents", "ids", "pixels_pos" or "latents_pos"."""
    return root / "decoded" / f"{split}-{array}.npy"


def decoded_splits(root: Path) -> list[str]:
    """Return the splits that are there as decoded caches."""
    files = (root / "decoded").glob("*-pixels.npy")
    return sorted((file.name.removesuffix("-pixels.npy") for file in files), reverse=True)


class DecodedSplit:
    """One split as a decoded cache; see :class:`~ident3d.storage.split.StoredSplit`.

    The pictures stay on disk and are shared, through the page cache, by all processes that map them.

    Args:
        root: the dataset's folder.
        split: name of the split.

    Raises:
        DatasetError: if an array is missing or damaged, or the arrays disagree in length.
    """

    layout = "decoded"

    def __init__(self, root: Path, split: str) -> None:
        self.root = root
        self.split = split
        self.manifest = Manifest.read(root) if (root / MANIFEST_NAME).exists() else None
        self.factors: Factors = FACTORS if self.manifest is None else self.manifest.factors
        self.ids: npt.NDArray[np.int64] = self._load("ids")
        self.latents: npt.NDArray[np.float32] = self._load("latents")
        self._pixels: npt.NDArray[np.uint8] = self._load("pixels", mapped=True)
        self.latents_pos: npt.NDArray[np.float32] | None = None
        self._pixels_pos: npt.NDArray[np.uint8] | None = None
        if array_path(root, split, "pixels_pos").exists():
            self.latents_pos = self._load("latents_pos")
            self._pixels_pos = self._load("pixels_pos", mapped=True)
        if not len(self.ids) == len(self.latents) == len(self._pixels):
            raise DatasetError(
                f"{root}, {split}: {len(self._pixels)} pictures, {len(self.latents)} rows of latents and "
                f"{len(self.ids)} ids; convert it again"
            )

    def __getstate__(self) -> tuple[Path, str]:
        return self.root, self.split  # a memory map would be pickled as a copy of all pictures

    def __setstate__(self, state: tuple[Path, str]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # opening it again is what unpickling means here

    def encoded(self, row: int, *, positive: bool = False) -> bytes:
        """Return the picture of a row as PNG."""
        return encode_png(self.pixels(row, positive=positive))

    def pixels(self, row: int, *, positive: bool = False) -> npt.NDArray[np.uint8]:
        """Return the (H, W, 3) uint8 picture of a row, a view of the memory map."""
        picture: npt.NDArray[np.uint8] = self._mapped(positive=positive)[row]
        return picture

    def batch(self, rows: npt.NDArray[np.int64], *, positive: bool = False) -> npt.NDArray[np.uint8]:
        """Return (B, H, W, 3) uint8: a copy of the pictures of the given rows."""
        return self._mapped(positive=positive)[rows]

    def _mapped(self, *, positive: bool) -> npt.NDArray[np.uint8]:
        source = self._pixels_pos if positive else self._pixels
        if source is None:
            raise no_positives(self.root, self.split)
        return source

    def _load(self, array: str, *, mapped: bool = False) -> npt.NDArray[Any]:
        path = array_path(self.root, self.split, array)
        try:
            loaded: npt.NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DatasetError(f"{path} cannot be read ({error}); convert it again") from error
        return loaded
