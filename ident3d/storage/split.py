"""What every layout offers: images and latents row by row, splits, and the dataset that they make up."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ident3d.arguments import NOT_AN_ARRAY
from ident3d.errors import DatasetError
from ident3d.factors import Factors
from ident3d.files import open_regular
from ident3d.latents import check_latents, latents_sha256
from ident3d.storage.images import EncodedImage, decode, stack
from ident3d.storage.manifest import Manifest

__all__ = [
    "SomeImages",
    "SomeRows",
    "StoredDataset",
    "StoredImages",
    "StoredSplit",
    "checked_latents",
    "manifest_of",
    "read_array",
]

_AT_ONCE = 256  # images in memory
_A_THREAD = 32  # images at least that a thread is worth starting for
_UNKNOWN = "a conditional that is not recorded"


class StoredImages(ABC):
    """Images on disk, one per row, and the latents that they show.

    Attributes:
        latents: (N, d) float32 raw latents.
    """

    latents: npt.NDArray[np.float32]

    @abstractmethod
    def encoded(self, row: int) -> bytes:
        """Return the encoded image of a row, PNG where this layout has to encode it."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Return where the image of a row is, for messages."""

    def pixels(self, row: int) -> npt.NDArray[np.uint8]:
        """Return the (H, W, 3) uint8 image of a row; it may be read-only."""
        return decode(self.encoded(row), self.place(row))

    def batch(self, rows: npt.NDArray[np.int64], threads: int = 1) -> npt.NDArray[np.uint8]:
        """Return (B, H, W, 3) uint8: a copy of the images of the given rows, of which there is at least one.

        Args:
            rows: (B,) the rows.
            threads: the most threads that decode, which they do without the interpreter's lock; one for few images.
        """
        asked, where = [int(row) for row in rows], f"{self.place(int(rows[0]))} and others"
        workers = min(threads, len(asked) // _A_THREAD)
        if workers < 2:
            return stack(map(self.pixels, asked), where)
        with ThreadPoolExecutor(workers) as pool:
            return stack(pool.map(decode, map(self.encoded, asked), map(self.place, asked)), where)

    def read(self, rows: range, pool: Executor) -> Iterator[EncodedImage]:
        """Yield the images of rows both encoded and decoded; what takes long is done by ``pool``."""
        encoded = [self.encoded(row) for row in rows]
        return map(EncodedImage, encoded, pool.map(decode, encoded, map(self.place, rows)))


class StoredSplit(StoredImages):
    """One split of a dataset on disk. Opening it reads latents only; images are read one by one.

    Attributes:
        layout: "native", "published" or "decoded".
        root: the folder.
        split: name of the split.
        manifest: the manifest in the folder, or None where there is none.
        factors: what the columns of the latents are.
        ids: (N,) int64, index of each row within the split as it was planned.
        latents: (N, d) float32 raw latents.
    """

    layout: ClassVar[str]
    root: Path
    split: str
    manifest: Manifest | None
    factors: Factors
    ids: npt.NDArray[np.int64]

    @property
    def positives(self) -> StoredImages | None:
        """The exact positives of the rows, where the dataset was rendered with ``--pairs``; else None."""
        return None

    def provenance(self) -> Manifest:
        """Return the manifest, or what is known of this split where the folder has none."""
        if self.manifest is not None:
            return self.manifest
        return Manifest(
            splits={self.split: len(self.latents)},
            rows_per_shard=len(self.latents),
            resolution=len(self.pixels(0)),
            factors=self.factors,
            latents={self.split: latents_sha256(self.latents)},
            render=self._render(),
        )

    def fingerprint(self) -> str:
        """Return a SHA-256 of all that decides what this split shows; the same in every layout."""
        return self.provenance().fingerprint(self.split)

    def _render(self) -> Mapping[str, Any]:
        """Return what the layout alone says about how its images were made."""
        return {}


class SomeImages(StoredImages):
    """Some rows of stored images.

    Args:
        images: the images.
        rows: (n,) rows of them, in any order.
    """

    def __init__(self, images: StoredImages, rows: npt.NDArray[np.int64]) -> None:
        self._all = images
        self._rows = rows
        self.latents = images.latents[rows]

    def encoded(self, row: int) -> bytes:
        """Return the encoded image of a row."""
        return self._all.encoded(int(self._rows[row]))

    def place(self, row: int) -> str:
        """Return where the image of a row is, for messages."""
        return self._all.place(int(self._rows[row]))

    def pixels(self, row: int) -> npt.NDArray[np.uint8]:
        """Return the (H, W, 3) uint8 image of a row; it may be read-only."""
        return self._all.pixels(int(self._rows[row]))

    def batch(self, rows: npt.NDArray[np.int64], threads: int = 1) -> npt.NDArray[np.uint8]:
        """Return (B, H, W, 3) uint8: a copy of the images of the given rows."""
        return self._all.batch(self._rows[rows], threads)


class SomeRows(SomeImages, StoredSplit):
    """Some rows of a split, with what is known of the whole: its root, its name, its manifest.

    Args:
        whole: the split.
        rows: (n,) rows of it, in any order.
    """

    def __init__(self, whole: StoredSplit, rows: npt.NDArray[np.int64]) -> None:
        super().__init__(whole, rows)
        self.whole = whole
        self.layout = whole.layout  # type: ignore[misc]  # that of a class elsewhere
        self.root, self.split, self.manifest, self.factors = whole.root, whole.split, whole.manifest, whole.factors
        self.ids = whole.ids[rows]

    @property
    def positives(self) -> StoredImages | None:
        """The exact positives of the rows, where the dataset was rendered with ``--pairs``; else None."""
        positives = self.whole.positives
        return None if positives is None else SomeImages(positives, self._rows)

    def provenance(self) -> Manifest:
        """Return the manifest of the whole, or what is known of it where the folder has none."""
        return self.whole.provenance()

    def fingerprint(self) -> str:
        """Return a SHA-256 of what the whole split shows and of which rows of it these are."""
        return hashlib.sha256(f"{self.whole.fingerprint()} {self.ids.tolist()}".encode()).hexdigest()


@dataclass(frozen=True)
class StoredDataset:
    """The splits of a dataset, complete and described by one manifest.

    Attributes:
        splits: the splits by name.
        manifest: the dataset's manifest, or what is known of it where there is none.
    """

    splits: Mapping[str, StoredSplit]
    manifest: Manifest

    @classmethod
    def of(cls, splits: Sequence[StoredSplit]) -> "StoredDataset":
        """Return the dataset that consists of ``splits``.

        Raises:
            DatasetError: if a split is incomplete, or some splits have exact positives and some do not.
        """
        for split in splits:
            planned = len(split.latents) if split.manifest is None else split.manifest.splits[split.split]
            if len(split.latents) != planned or not np.array_equal(split.ids, np.arange(planned)):
                raise DatasetError(
                    f"{split.root} holds {len(split.latents)} of the {planned} images of the split {split.split!r}, "
                    "or not in order: finish rendering it first"
                )
        if len({split.positives is None for split in splits}) > 1:
            raise DatasetError(f"{splits[0].root}: some splits hold exact positives and some do not")
        return cls({split.split: split for split in splits}, manifest_of(splits))

    @property
    def has_positives(self) -> bool:
        """Whether every row also holds an exact positive."""
        return any(split.positives is not None for split in self.splits.values())

    @property
    def rows(self) -> int:
        """The number of rows of all splits."""
        return sum(len(split.latents) for split in self.splits.values())

    def images(self, stored: StoredImages, advance: Callable[[], object]) -> Iterator[EncodedImage]:
        """Yield images in order, a few hundred in memory at a time.

        Each is decoded, so that a damaged one is found here and not after the conversion.

        Args:
            stored: a split of this dataset, or the exact positives of one.
            advance: called after every image.

        Raises:
            DatasetError: if an image is damaged, or not as large as the manifest says.
        """
        side = self.manifest.resolution
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for start in range(0, len(stored.latents), _AT_ONCE):
                rows = range(start, min(start + _AT_ONCE, len(stored.latents)))
                for row, image in zip(rows, stored.read(rows, pool), strict=True):
                    height, width = image.pixels.shape[:2]
                    if not height == width == side:
                        raise DatasetError(
                            f"{stored.place(row)} is {width}x{height} pixels; the dataset's are {side}x{side}"
                        )
                    advance()
                    yield image


def manifest_of(splits: Sequence[StoredSplit]) -> Manifest:
    """Return the manifest of the dataset that ``splits`` make up, or what is known of it where it has none."""
    told = [split.provenance() for split in splits]
    if splits[0].positives is not None and told[0].pairs is None:
        told = [replace(manifest, pairs=_UNKNOWN) for manifest in told]
    if splits[0].manifest is not None:
        return told[0]
    # What is known of a split without a manifest has one split, and one digest of its latents.
    counts = {split: count for manifest in told for split, count in manifest.splits.items()}
    digests = {
        split: manifest.latents[split]
        for manifest in told
        for split in manifest.splits
        if not isinstance(manifest.latents, str)
    }
    return replace(told[0], splits=counts, latents=digests)


def read_array(path: Path, advice: str, mode: Literal["r", "c"] = "r") -> npt.NDArray[Any]:
    """Map an array of a ``.npy`` file into memory; one that claims to hold more than its file does is refused.

    Args:
        path: the file.
        advice: what to do where it cannot be read, for the message.
        mode: "r" for an array that cannot be written to, "c" for one of which what is written stays in this process.

    Raises:
        DatasetError: if the file is missing, damaged, or not a regular one.
    """
    try:
        with open_regular(path):
            pass
        array = np.load(path, mmap_mode=mode, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            array.close()
            raise TypeError("it is an archive of arrays")
        return np.asarray(array)
    except (OSError, *NOT_AN_ARRAY) as error:
        raise DatasetError(f"{path} cannot be read as an array ({error}); {advice}") from error


def checked_latents(latents: npt.NDArray[Any], factors: Factors, where: str) -> npt.NDArray[np.float32]:
    """Return latents as :func:`~ident3d.latents.check_latents` does; DatasetError that says where they are."""
    try:
        return check_latents(latents, factors)
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from error
