"""The dataset classes: images and latents of one split, and the exact positives of its rows."""

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import Dataset

from ident3d.factors import Factors
from ident3d.storage.layouts import open_split
from ident3d.storage.manifest import Manifest
from ident3d.storage.split import StoredImages, StoredSplit

__all__ = ["ExactPositives", "ThreeDIdent", "check_transform"]


class _ImagesWithLatents(Dataset[tuple[Any, torch.Tensor]]):
    """What a dataset and its exact positives have in common.

    Attributes:
        transform: applied to the PIL image of an item; None leaves it as it is.
        latents: (N, d) float32, raw latents in [-1, 1].
        ids: (N,) int64, the ids of the rows, by which embeddings are joined to latents.
        factors: what the columns of the latents are.
        layout: how the images are stored: "native", "published" or "decoded".
    """

    transform: Callable[[Image.Image], Any] | None
    latents: torch.Tensor
    ids: npt.NDArray[np.int64]
    factors: Factors
    layout: str
    _images: StoredImages

    def __len__(self) -> int:
        return len(self.latents)

    def __getitem__(self, index: int) -> tuple[Any, torch.Tensor]:
        row = self._row(index)
        image = Image.fromarray(self._images.pixels(row))
        return (image if self.transform is None else self.transform(image)), self.latents[row].clone()

    def pixels(self, rows: torch.Tensor | npt.ArrayLike) -> torch.Tensor:
        """Decode a batch of images, without ``transform``.

        Args:
            rows: (B,) integers in [0, len(self)).

        Returns:
            (B, H, W, 3) uint8.

        Raises:
            IndexError: if a row is out of range.
            TypeError: if rows are not integers.
            DatasetError: if an image cannot be decoded.
        """
        asked = np.asarray(rows).reshape(-1)
        if not asked.size:
            return torch.empty((0, *self._images.pixels(0).shape), dtype=torch.uint8, device="cpu")
        if asked.dtype.kind not in "iu":
            raise TypeError(f"rows are integers, not {asked.dtype}")
        if not (asked.min() >= 0 and asked.max() < len(self)):
            raise IndexError(f"rows {asked.min()} to {asked.max()} asked of a dataset of {len(self)} images")
        return torch.from_numpy(self._images.batch(asked.astype(np.int64, copy=False)))

    def encoded(self, index: int) -> bytes:
        """Return the image of a row as the bytes of an image file."""
        return self._images.encoded(self._row(index))

    def _row(self, index: int) -> int:
        if not isinstance(index, SupportsIndex):
            raise TypeError(
                f"an index of a dataset is an integer, not {index!r}; torch.utils.data.Subset takes several"
            )
        given = operator.index(index)
        row = given + len(self) if given < 0 else given
        if not 0 <= row < len(self):
            raise IndexError(f"index {index} of a dataset of {len(self)} images")
        return row


class ThreeDIdent(_ImagesWithLatents):
    """3DIdent: images of a teapot, each with the ten latents that it was rendered from.

    Latents are drawn uniformly from [-1, 1]^10. Their columns are :data:`ident3d.FACTORS`: the object's position
    (x, y, z, in [-3, 3] Blender units), its rotation (Euler angles about x, y, z), the spotlight's position on a
    half-circle, and the hues of object, spotlight and ground (angles in [-pi/2, pi/2]). Images are square RGB; the
    published set has 250,000 for training and 25,000 for testing at 224x224.

    An item is ``(image, latents)``: a PIL image, or what ``transform`` makes of it, and a (10,) float32 tensor.
    ``latents`` are there without decoding any image.

    Args:
        root: a folder in the native layout (rendered with ``python -m render``) or the published one, with or
            without a decoded cache; the folder of one split in the published layout; or "sample" for the 1,024 + 256
            images at 64x64 that come with ident3d.
        split: "train" or "test".
        transform: applied to the PIL image of an item; None leaves it as it is.
        download: fetch the published archives into ``root`` first, unless they are there.

    Attributes:
        root: the folder.
        split: name of the split.
        latents: (N, d) float32, raw latents in [-1, 1].
        ids: (N,) int64, the ids of the rows, by which embeddings are joined to latents.
        factors: what the columns of the latents are.
        layout: how the images are stored: "native", "published" or "decoded".
        positives: the exact positives of the rows, as a dataset; None where there are none.

    Raises:
        FileNotFoundError: if ``root`` is not there.
        DatasetError: if it holds no dataset, or a damaged one.
        ValueError: if it has no such split.
        TypeError: if ``root`` is not a path, or ``transform`` not a function.

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
        check_transform(transform)
        if download:
            from ident3d.download import download_published

            download_published(root, splits=(split,))
        self.transform = transform
        self._show(open_split(root, split))

    def _show(self, stored: StoredSplit) -> None:
        self._stored = self._images = stored
        self.root = stored.root
        self.split = stored.split
        self.latents = torch.from_numpy(stored.latents)
        self.ids = stored.ids
        self.factors = stored.factors
        self.layout = stored.layout

    def __getstate__(self) -> tuple[StoredSplit, Callable[[Image.Image], Any] | None]:
        return self._stored, self.transform  # the tensors share the memory of its arrays

    def __setstate__(self, state: tuple[StoredSplit, Callable[[Image.Image], Any] | None]) -> None:
        stored, self.transform = state
        self._show(stored)

    def __repr__(self) -> str:
        return f"ThreeDIdent({str(self.root)!r}, split={self.split!r}): {len(self)} images, {self.layout} layout"

    @property
    def positives(self) -> "ExactPositives | None":
        """The exact positives, row by row, of a dataset that was rendered with ``--pairs``; None for any other."""
        positives = self._stored.positives
        return None if positives is None else ExactPositives(self, positives)

    @property
    def provenance(self) -> Manifest:
        """How the dataset was made: its manifest, or what can be told where it has none."""
        return self._stored.provenance()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides what the split shows, the same in every layout; scores carry it."""
        return self._stored.fingerprint()


class ExactPositives(_ImagesWithLatents):
    """The exact positives of a dataset, as a dataset: row i is the positive of the dataset's row i.

    An item is ``(image, latents)``, as in the dataset, whose transform it shares.

    Args:
        data: the dataset.
        images: its positives on disk.

    Attributes:
        latents: (N, d) float32, raw latents in [-1, 1].
        ids: (N,) int64, the ids of the rows.
        factors: what the columns of the latents are.
        layout: how the images are stored: "native" or "decoded".
    """

    def __init__(self, data: ThreeDIdent, images: StoredImages) -> None:
        self._images = images
        self.transform = data.transform
        self.latents = torch.from_numpy(images.latents)
        self.ids = data.ids
        self.factors = data.factors
        self.layout = data.layout

    def __repr__(self) -> str:
        return f"ExactPositives: {len(self)} images, {self.layout} layout"


def check_transform(transform: Any) -> None:
    """Raise TypeError unless ``transform`` is a function of an image, or None."""
    if transform is not None and not callable(transform):
        raise TypeError(f"a transform is a function of a PIL image, or None, not {transform!r}")
