"""What every layout of a split offers to the dataset class."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.factors import Factors
from ident3d.latents import check_latents
from ident3d.storage.images import EncodedImage, decode, stack
from ident3d.storage.manifest import Manifest

__all__ = ["StoredImages", "StoredSplit", "checked_latents"]


class StoredImages(ABC):
    """Images on disk, one a row, and the latents that they show.

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

    def batch(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """Return (B, H, W, 3) uint8: a copy of the images of the given rows, of which there is at least one."""
        return stack((self.pixels(int(row)) for row in rows), f"{self.place(int(rows[0]))} and others")

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
        manifest: the manifest that lies in the folder, or None where there is none.
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
        """Return the manifest, or what can be told of this split where the folder has none."""
        if self.manifest is not None:
            return self.manifest
        digest = hashlib.sha256(np.ascontiguousarray(self.latents, dtype="<f4").tobytes()).hexdigest()
        return Manifest(
            splits={self.split: len(self.latents)},
            rows_per_shard=len(self.latents),
            resolution=len(self.pixels(0)),
            factors=self.factors,
            latents={self.split: digest},
            render=self._render(),
        )

    def fingerprint(self) -> str:
        """Return a SHA-256 of all that decides what this split shows; the same in every layout."""
        return self.provenance().fingerprint(self.split)

    def _render(self) -> Mapping[str, Any]:
        """Return what a layout by itself tells about how its images were made."""
        return {}


def checked_latents(latents: npt.NDArray[Any], factors: Factors, where: str) -> npt.NDArray[np.float32]:
    """Return latents as :func:`~ident3d.latents.check_latents` does; DatasetError that says where they lie."""
    try:
        return check_latents(latents, factors)
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from error
