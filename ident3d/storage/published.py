"""The layout of the published archives: ``raw_latents.npy`` beside ``images/NNNNNN.png``, one folder per split."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.factors import FACTORS
from ident3d.files import read_bytes, sha256_of, write_text
from ident3d.latents import to_physical
from ident3d.storage.images import MAX_IMAGE_BYTES, PNG_SIGNATURE, encode_png
from ident3d.storage.manifest import MANIFEST_NAME, Manifest
from ident3d.storage.split import StoredDataset, StoredSplit, checked_latents, read_array

__all__ = [
    "CHECKSUMS",
    "IMAGES_FOLDER",
    "PHYSICAL_LATENTS",
    "RAW_LATENTS",
    "PublishedSplit",
    "image_name",
    "is_published_split",
    "published_folder",
    "published_splits",
    "read_checksums",
    "write_published",
]

RAW_LATENTS = "raw_latents.npy"
PHYSICAL_LATENTS = "latents.npy"
IMAGES_FOLDER = "images"
_NESTED = "3dident"  # the folder inside the published archives
_SUFFIX = ".png"
CHECKSUMS = "SHA256SUMS"
"""Checksums of a conversion's files, as ``sha256sum --check`` reads them; the published archives have none."""
_CHECKSUM = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[^/\\][^\\]*)")
_MOST_CHECKSUM_BYTES = 1 << 30


def image_name(index: int, count: int) -> str:
    """Return the file name of an image: the index, padded to ceil(log10(count)) digits."""
    return f"{index:0{len(str(max(count - 1, 0)))}d}{_SUFFIX}"


def published_folder(root: Path, split: str) -> Path | None:
    """Return the folder of a split in the published layout, or None where there is none."""
    return next((folder for folder in (root / split, root / _NESTED / split) if is_published_split(folder)), None)


def published_splits(root: Path) -> list[str]:
    """Return the splits that are there in the published layout."""
    folders = (folder for parent in (root, root / _NESTED) if parent.is_dir() for folder in parent.iterdir())
    return sorted({folder.name for folder in folders if is_published_split(folder)}, reverse=True)


def is_published_split(folder: Path) -> bool:
    """Return whether a folder is that of one split in the published layout."""
    return not folder.name.startswith(".") and (folder / RAW_LATENTS).is_file() and (folder / IMAGES_FOLDER).is_dir()


class PublishedSplit(StoredSplit):
    """One split in the published layout.

    A manifest beside the splits says how the images were made. The published archives have none: theirs are the
    ten factors of 3DIdent, rendered with the hue map "published".

    Args:
        root: the folder that holds ``train/`` and ``test/``, or ``3dident/`` with both.
        split: name of the split.

    Raises:
        DatasetError: if images, latents and manifest differ in number, or the latents are damaged.
    """

    layout = "published"

    def __init__(self, root: Path, split: str) -> None:
        folder = published_folder(root, split)
        if folder is None:
            raise FileNotFoundError(f"{root} holds no split {split!r} in the published layout")
        self.root = root
        self.split = split
        self.manifest = Manifest.read(root) if (root / MANIFEST_NAME).exists() else None
        self.factors = FACTORS if self.manifest is None else self.manifest.factors
        self._source = folder / RAW_LATENTS
        self._images = folder / IMAGES_FOLDER
        array = _array(self._source)
        # Before the rows are read, of which there may be any number; an array that has no rows is refused below.
        self._digits = self._check_images(len(array)) if array.ndim == 2 else 0
        self.latents = checked_latents(array, self.factors, str(self._source))
        self._digest = _digest(self.latents)
        self._is_from_elsewhere = False
        self.ids = np.arange(len(self.latents))
        planned = len(self.latents) if self.manifest is None else self.manifest.splits.get(split)
        if planned != len(self.latents):
            raise DatasetError(
                f"{folder} holds {len(self.latents)} rows, but {root / MANIFEST_NAME} says {planned or 'no such split'}"
            )

    def encoded(self, row: int) -> bytes:
        """Return the encoded image of a row, as it is stored."""
        self._check_unchanged()
        path = self.place(row)
        try:
            return read_bytes(path, MAX_IMAGE_BYTES)
        except FileNotFoundError as error:
            raise DatasetError(f"{path} is missing; fetch the archive again") from error
        except (ValueError, IsADirectoryError) as error:
            raise DatasetError(f"{error}: it is no image; fetch the archive again") from error

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_is_from_elsewhere": True}

    def place(self, row: int) -> str:
        """Return where the image of a row is, for messages."""
        return f"{self._images}{os.sep}{row:0{self._digits}d}{_SUFFIX}"

    def _check_unchanged(self) -> None:
        """Raise DatasetError where the folder that came from another process holds other latents by now."""
        if not self._is_from_elsewhere:
            return
        array = _array(self._source)
        is_as_it_was = array.shape == self.latents.shape and (
            _digest(checked_latents(array, self.factors, str(self._source))) == self._digest
        )
        if not is_as_it_was:
            raise DatasetError(
                f"{self._source} is not the file that it was when the dataset was opened: it was changed or replaced "
                "since; open the dataset again"
            )
        self._is_from_elsewhere = False

    def _render(self) -> Mapping[str, Any]:
        return {"hue_map": "published"}

    def _check_images(self, count: int) -> int:
        """Return the number of digits that names are padded to; DatasetError unless they are those of rows 0 to N - 1.

        Names are matched to rows by their number, never by the order of a listing. Hidden files are not counted.
        """
        stems = {file.stem for file in self._images.iterdir() if file.suffix == _SUFFIX and file.name[0] != "."}
        if len(stems) != count:
            raise DatasetError(f"{len(stems)} images in {self._images} but {count} rows of latents")
        digits = min(map(len, stems))  # row 0 has the fewest that its name can have, whether padded or not
        missing = next((row for row in range(count) if f"{row:0{digits}d}" not in stems), None)
        if missing is not None:
            raise DatasetError(
                f"{self._images / image_name(missing, count)} is missing, though there are {count} images; they are "
                "named by their row, all with the same number of digits"
            )
        return digits


def _array(path: Path) -> npt.NDArray[Any]:
    array = read_array(path, "fetch it again, or convert the dataset again")
    if array.size == 0:
        raise DatasetError(f"{path} holds no latents")
    return array


def _digest(latents: npt.NDArray[np.float32]) -> str:
    return hashlib.sha256(latents.tobytes()).hexdigest()


def write_published(source: StoredDataset, folder: Path, advance: Callable[[], object]) -> None:
    """Write a dataset as ``raw_latents.npy``, ``latents.npy`` and ``images/`` per split, and a manifest beside them.

    This layout cannot hold exact positives; they are left out.

    Args:
        source: the dataset.
        folder: where it goes.
        advance: called after every image.
    """
    sums = {}
    for split, stored in source.splits.items():
        files = folder / split / IMAGES_FOLDER
        files.mkdir(parents=True)
        np.save(folder / split / RAW_LATENTS, stored.latents)
        np.save(folder / split / PHYSICAL_LATENTS, to_physical(stored.latents, stored.factors))
        for row, image in enumerate(source.images(stored, advance)):
            is_png = image.encoded.startswith(PNG_SIGNATURE)
            path = files / image_name(row, len(stored.latents))
            encoded = image.encoded if is_png else encode_png(image.pixels)
            path.write_bytes(encoded)
            sums[f"{split}/{IMAGES_FOLDER}/{path.name}"] = hashlib.sha256(encoded).hexdigest()
        for name in (RAW_LATENTS, PHYSICAL_LATENTS):
            sums[f"{split}/{name}"] = sha256_of(folder / split / name)
    replace(source.manifest, shards=(), pairs=None).write(folder)
    write_text(folder / CHECKSUMS, "".join(f"{sha256}  {name}\n" for name, sha256 in sums.items()))


def read_checksums(root: Path) -> dict[str, str] | None:
    """Return the SHA-256 of files of the published layout by their paths below ``root``; None where there are none.

    Raises:
        DatasetError: if the file that holds them is damaged, or names something outside of ``root``.
    """
    path = root / CHECKSUMS
    if not os.path.lexists(path):
        return None
    try:
        lines = read_bytes(path, _MOST_CHECKSUM_BYTES).decode("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read ({error}); fetch it again, or convert the dataset again") from error
    found = {}
    for number, line in enumerate(lines, 1):
        matched = _CHECKSUM.fullmatch(line)
        if matched is None or ".." in matched["name"].split("/") or matched["name"] in found:
            raise DatasetError(
                f"{path}, line {number} is not a checksum and the path of a file; convert the dataset again"
            )
        found[matched["name"]] = matched["sha256"]
    return found
