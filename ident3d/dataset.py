"""The dataset class: pictures and latents of one split."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import Dataset

from ident3d.factors import Factors
from ident3d.storage.layouts import open_split

__all__ = ["ThreeDIdent"]


class ThreeDIdent(Dataset[tuple[Any, torch.Tensor]]):
    """3DIdent: pictures of a teapot, each with the ten latents that it was rendered from.

    Latents are drawn uniformly from [-1, 1]^10. Their columns are :data:`ident3d.FACTORS`: the object's position
    (x, y, z, in [-3, 3] Blender units), its rotation (Euler angles about x, y, z), the spotlight's position on a
    half-circle, and the hues of object, spotlight and ground (angles in [-pi/2, pi/2]). Pictures are square RGB; the
    published set has 250,000 for training and 25,000 for testing at 224x224.

    An item is ``(image, latents)``: a PIL image, or what ``transform`` makes of it, and a (10,) float32 tensor.
    ``latents`` are there without decoding any picture.

    Args:
        root: a folder in the native layout (rendered with ``python -m render``) or the published one, with or
            without a decoded cache; or "sample" for the 1,024 + 256 pictures at 64x64 that come with ident3d.
        split: "train" or "test".
        transform: applied to the PIL image of an item; None leaves it as it is.
        download: fetch the published archives into ``root`` first, unless they are there.

    Attributes:
        root: the folder.
        split: name of the split.
        latents: (N, d) float32, raw latents in [-1, 1].
        latents_pos: (N, d) float32, latents of the exact positives of a dataset that was rendered with ``--pairs``;
            None for any other.
        ids: (N,) int64, the ids of the rows, by which embeddings are joined to latents.
        factors: what the columns of the latents are.
        layout: how the pictures are stored: "native", "published" or "decoded".

    Raises:
        FileNotFoundError: if ``root`` is not there.
        DatasetError: if it holds no dataset, or a damaged one.
        ValueError: if it has no such split.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, section 4.2.2.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable[[Image.Image], Any] | None = None,
        download: bool = False,
    ) -> None:
        if download:
            from ident3d.download import download_published

            download_published(Path(root), splits=(split,))
        self._stored = open_split(root, split)
        self.root = self._stored.root
        self.split = split
        self.transform = transform
        self.latents = torch.from_numpy(self._stored.latents)
        positives = self._stored.latents_pos
        self.latents_pos = None if positives is None else torch.from_numpy(positives)
        self.ids: npt.NDArray[np.int64] = self._stored.ids
        self.factors: Factors = self._stored.factors
        self.layout: str = self._stored.layout

    def __len__(self) -> int:
        return len(self.latents)

    def __getitem__(self, index: int) -> tuple[Any, torch.Tensor]:
        row = self._row(index)
        image = Image.fromarray(self._stored.pixels(row))
        return (image if self.transform is None else self.transform(image)), self.latents[row]

    def __repr__(self) -> str:
        return f"ThreeDIdent({str(self.root)!r}, split={self.split!r}): {len(self)} pictures, {self.layout} layout"

    def pixels(self, rows: torch.Tensor | npt.ArrayLike, *, positive: bool = False) -> torch.Tensor:
        """Decode a batch of pictures, without ``transform``.

        Args:
            rows: (B,) integers in [0, len(self)).
            positive: decode the exact positives of these rows instead.

        Returns:
            (B, H, W, 3) uint8.

        Raises:
            IndexError: if a row is out of range.
            DatasetError: if a picture cannot be decoded, or there are no exact positives.
        """
        wanted = np.asarray(rows, dtype=np.int64).reshape(-1)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < len(self)):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} asked of a dataset of {len(self)} pictures")
        return torch.from_numpy(self._stored.batch(wanted, positive=positive))

    def encoded(self, index: int) -> bytes:
        """Return the picture of a row as the bytes of an image file."""
        return self._stored.encoded(self._row(index))

    def _row(self, index: int) -> int:
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"index {index} of a dataset of {len(self)} pictures")
        return row
