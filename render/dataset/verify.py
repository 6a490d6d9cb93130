"""Rendering rows of a dataset again, from what its manifest stores, to see whether they are what it says."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.randomness import generator
from ident3d.storage.images import decode
from ident3d.storage.manifest import Manifest
from ident3d.storage.native import NativeSplit, native_splits
from render.dataset.plan import PictureId, Plan, Recipe
from render.dataset.render import Renderer

__all__ = ["Comparison", "compare", "psnr", "sampled"]


@dataclass(frozen=True)
class Comparison:
    """A stored picture against the same one rendered again.

    Attributes:
        picture: which picture.
        psnr: peak signal-to-noise ratio in dB; infinite where the pixels are equal.
    """

    picture: PictureId
    psnr: float


def psnr(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> float:
    """Return the peak signal-to-noise ratio of two pictures in dB, 10 log10(255^2 / mean squared difference)."""
    if one.shape != other.shape:
        raise ValueError(f"pictures of shape {one.shape} and {other.shape} cannot be compared")
    error = float(np.mean((one.astype(np.float64) - other) ** 2))
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def sampled(root: Path, count: int, seed: int) -> list[PictureId]:
    """Return random pictures of a dataset, exact positives among them, each at most once.

    Args:
        root: the dataset's folder.
        count: how many, 1 or more; all of them where there are fewer.
        seed: which ones, 0 or larger.
    """
    if count < 1:
        raise ValueError(f"expected a sample of 1 or more pictures, not {count}")
    pictures = []
    for split in native_splits(root):
        stored = NativeSplit(root, split)
        kinds = (False,) if stored.latents_pos is None else (False, True)
        pictures += [PictureId(split, int(row), positive) for row in stored.ids for positive in kinds]
    if not pictures:
        raise DatasetError(f"{root} holds no shard yet")
    chosen = generator(seed, "verify").permutation(len(pictures))[:count]
    return [pictures[k] for k in sorted(chosen)]


def compare(root: Path, pictures: list[PictureId], renderer: Renderer) -> list[Comparison]:
    """Render pictures again from the latents and the manifest of a dataset, and compare.

    Args:
        root: the dataset's folder.
        pictures: which ones.
        renderer: makes the pictures, with the quality and the resolution of the manifest.

    Returns:
        One comparison for each picture, in their order.

    Raises:
        DatasetError: if the dataset does not say how it was made, or a stored picture cannot be read.
    """
    manifest = Manifest.read(root)
    plan = Plan(manifest, Recipe.of(manifest))
    splits = {split: NativeSplit(root, split) for split in {picture.split for picture in pictures}}
    rows = {split: {int(id_): row for row, id_ in enumerate(stored.ids)} for split, stored in splits.items()}

    def stored_latents(picture: PictureId) -> npt.NDArray[np.float32]:
        stored = splits[picture.split]
        table = stored.latents_pos if picture.positive and stored.latents_pos is not None else stored.latents
        row: npt.NDArray[np.float32] = table[rows[picture.split][picture.row]]
        return row

    found = {}
    for picture, png in renderer.render(plan.job(picture, stored_latents(picture)) for picture in pictures):
        row = rows[picture.split][picture.row]
        stored = splits[picture.split].pixels(row, positive=picture.positive)
        found[picture] = Comparison(picture, psnr(stored, decode(png, f"the new picture of {picture}")))
    return [found[picture] for picture in pictures]
