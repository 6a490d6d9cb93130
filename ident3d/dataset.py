"""The dataset classes: images and latents of one split, and the exact positives of its rows."""

import copy
import html
import operator
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, SupportsIndex, overload

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import Dataset

from ident3d.arguments import check_count
from ident3d.display import contact_sheet, strip
from ident3d.factors import Factors
from ident3d.storage.layouts import open_split
from ident3d.storage.manifest import Manifest
from ident3d.storage.split import SomeImages, SomeRows, StoredImages, StoredSplit

__all__ = ["ExactPositives", "ThreeDIdent", "check_transform"]


_SHOWN = 8  # images that a notebook shows


class _ImagesWithLatents(Dataset[tuple[Any, torch.Tensor]]):
    """What a dataset and its exact positives have in common.

    Attributes:
        transform: applied to the PIL image of an item; None leaves it as it is.
        target_transform: applied to the latents of an item; None leaves them as they are.
        latents: (N, d) float32, raw latents in [-1, 1].
        ids: (N,) int64, the ids of the rows, by which embeddings are joined to latents.
        factors: what the columns of the latents are.
        layout: how the images are stored: "native", "published" or "decoded".
    """

    transform: Callable[[Image.Image], Any] | None
    target_transform: Callable[[torch.Tensor], Any] | None
    latents: torch.Tensor
    ids: npt.NDArray[np.int64]
    factors: Factors
    layout: str
    _images: StoredImages

    def __len__(self) -> int:
        return len(self.latents)

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> tuple[Any, Any]: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | torch.Tensor | npt.NDArray[Any]) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        if _means_several(index):
            return self._part(_rows(index, len(self)))
        row = self._row(index)
        image, latents = Image.fromarray(self._images.pixels(row)), self.latents[row].clone()
        return (
            image if self.transform is None else self.transform(image),
            latents if self.target_transform is None else self.target_transform(latents),
        )

    @abstractmethod
    def _part(self, rows: npt.NDArray[np.int64]) -> Self:
        """Return the dataset of some rows."""

    def pixels(self, rows: torch.Tensor | npt.ArrayLike) -> torch.Tensor:
        """Decode a batch of images, without ``transform``, by as many threads as torch has.

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
        return torch.from_numpy(self._images.batch(asked.astype(np.int64, copy=False), torch.get_num_threads()))

    def show(self, n: int = 8) -> Image.Image:
        """Return the first n images side by side, without ``transform``: a notebook shows them.

        Args:
            n: how many, 1 or more; all where there are fewer.
        """
        check_count(n, "the number of images", 1)
        return contact_sheet([self.pixels(np.arange(min(n, len(self)))).numpy()])

    def _repr_html_(self) -> str:
        rows = np.arange(min(_SHOWN, len(self)))
        if not len(rows):
            return f"<pre>{html.escape(repr(self))}</pre>"
        values = {"id": map(str, self.ids[rows])} | {
            name: [f"{value:.2f}" for value in self.latents[rows, column].tolist()]
            for column, name in enumerate(self.factors.names)
        }
        return f"<p>{html.escape(repr(self))}</p>{strip({'': self.pixels(rows).numpy()}, values)}"

    def encoded(self, index: int) -> bytes:
        """Return the image of a row as the bytes of an image file."""
        return self._images.encoded(self._row(index))

    def _row(self, index: int) -> int:
        if not isinstance(index, SupportsIndex):
            raise TypeError(f"an index of a dataset is an integer, a slice or a list of integers, not {index!r}")
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

    An item is ``(image, latents)``: a PIL image, or what ``transform`` makes of it, and a (10,) float32 tensor, or what
    ``target_transform`` makes of it. ``latents`` are there without decoding any image. Several rows, ``data[10:20]``,
    ``data[[3, 1]]`` or ``data[data.latents[:, 0] > 0]``, are a dataset of these rows. Streams of pairs apply both
    transforms, too.

    Example:
        >>> import ident3d
        >>> data = ident3d.ThreeDIdent("sample")  # the images that come with the package
        >>> image, latents = data[0]
        >>> image.size, latents.shape, len(data)
        ((64, 64), torch.Size([10]), 1024)
        >>> len(data[data.latents[:, 0] > 0])
        496

    Args:
        root: a folder in the native layout (rendered with ``python -m render``) or the published one, with or
            without a decoded cache; the folder of one split in the published layout; or "sample" for the 1,024 + 256
            images at 64x64 that come with ident3d.
        split: "train" or "test".
        transform: applied to the PIL image of an item; None leaves it as it is.
        download: fetch the published archives into ``root`` first, unless they are there.
        target_transform: applied to the (d,) latents of an item, ``ident3d.to_physical`` for example; None leaves them
            as they are.

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
        TypeError: if ``root`` is not a path, or a transform not a function.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, section 4.2.2.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable[[Image.Image], Any] | None = None,
        download: bool = False,
        target_transform: Callable[[torch.Tensor], Any] | None = None,
    ) -> None:
        check_transform(transform)
        check_transform(target_transform, "a target_transform", "a tensor of latents")
        if download:
            from ident3d.download import download_published

            download_published(root, splits=(split,))
        self.transform = transform
        self.target_transform = target_transform
        self._show(open_split(root, split))

    def _show(self, stored: StoredSplit) -> None:
        self._stored = self._images = stored
        self.root = stored.root
        self.split = stored.split
        self.latents = torch.from_numpy(stored.latents)
        self.ids = stored.ids
        self.factors = stored.factors
        self.layout = stored.layout

    def __getstate__(self) -> tuple[Any, ...]:
        return self._stored, self.transform, self.target_transform  # the tensors share the memory of its arrays

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        stored, self.transform, self.target_transform = state
        self._show(stored)

    def _part(self, rows: npt.NDArray[np.int64]) -> Self:
        part = copy.copy(self)
        part._show(SomeRows(self._stored, rows))  # noqa: SLF001 - of this class
        return part

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

    An item is ``(image, latents)``, as in the dataset, whose transforms it shares.

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
        self._data = data
        self._images = images
        self.transform = data.transform
        self.target_transform = data.target_transform
        self.latents = torch.from_numpy(images.latents)
        self.ids = data.ids
        self.factors = data.factors
        self.layout = data.layout

    def _part(self, rows: npt.NDArray[np.int64]) -> Self:
        return type(self)(self._data[rows], SomeImages(self._images, rows))

    def __repr__(self) -> str:
        return f"ExactPositives: {len(self)} images, {self.layout} layout"


def check_transform(transform: Any, what: str = "a transform", of: str = "a PIL image") -> None:
    """Raise TypeError unless ``transform`` is a function, or None; for the message: what it is, and of what."""
    if transform is not None and not callable(transform):
        raise TypeError(f"{what} is a function of {of}, or None, not {transform!r}")


def _means_several(index: Any) -> bool:
    """Return whether an index is a slice, or a list, tuple, array or tensor of rows."""
    return isinstance(index, slice | list | tuple | range) or getattr(index, "ndim", 0) > 0


def _rows(index: Any, count: int) -> npt.NDArray[np.int64]:
    """Return the rows that a slice, a list of rows, negative ones from the end, or a mask of all rows means."""
    if isinstance(index, slice):
        return np.arange(count)[index]
    asked = np.asarray(index)
    asked = asked.astype(np.int64) if asked.size == 0 else asked
    if asked.dtype == np.bool_ and asked.shape == (count,):
        return np.flatnonzero(asked)
    if asked.dtype.kind not in "iu" or asked.ndim != 1:
        raise TypeError(
            f"several rows of a dataset are a list of integers or a mask of {count} booleans, not of shape "
            f"{asked.shape} and dtype {asked.dtype}"
        )
    wrong = asked[(asked < -count) | (asked >= count)]
    if wrong.size:
        raise IndexError(f"index {wrong[0]} of a dataset of {count} images")
    rows = asked.astype(np.int64)
    return np.where(rows < 0, rows + count, rows)
