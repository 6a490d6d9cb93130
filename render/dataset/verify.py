"""Rendering rows of a dataset again, from what its manifest stores, to see whether they are what it says."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.randomness import generator
from ident3d.storage.images import decode
from ident3d.storage.manifest import Manifest, native_splits
from ident3d.storage.native import NativeSplit
from ident3d.storage.split import StoredImages
from render.dataset.plan import ImageId, Plan, Recipe
from render.dataset.render import Renderer

__all__ = ["Comparison", "compare", "psnr", "sampled"]


@dataclass(frozen=True)
class Comparison:
    """A stored image against the same one rendered again.

    Attributes:
        image: which image.
        psnr: peak signal-to-noise ratio in dB; infinite where the pixels are equal.
    """

    image: ImageId
    psnr: float


def psnr(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> float:
    """Return the peak signal-to-noise ratio of two images in dB, 10 log10(255^2 / mean squared difference)."""
    if one.shape != other.shape:
        raise ValueError(f"images of shape {one.shape} and {other.shape} cannot be compared")
    error = float(np.mean((one.astype(np.float64) - other) ** 2))
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def sampled(root: Path, count: int, seed: int) -> list[ImageId]:
    """Return random images of a dataset, exact positives among them, each at most once.

    Args:
        root: the dataset's folder.
        count: how many, 1 or more; all of them where there are fewer.
        seed: which ones, 0 or larger.
    """
    if count < 1:
        raise ValueError(f"expected a sample of 1 or more images, not {count}")
    images = []
    for split in native_splits(root):
        stored = NativeSplit(root, split)
        kinds = (False,) if stored.positives is None else (False, True)
        images += [ImageId(split, int(row), positive) for row in stored.ids for positive in kinds]
    if not images:
        raise DatasetError(f"{root} holds no shard yet")
    chosen = generator(seed, "verify").permutation(len(images))[:count]
    return [images[k] for k in sorted(chosen)]


def compare(root: Path, images: list[ImageId], renderer: Renderer) -> list[Comparison]:
    """Render images again from the latents and the manifest of a dataset, and compare.

    Args:
        root: the dataset's folder.
        images: which ones.
        renderer: makes the images, with the quality and the resolution of the manifest.

    Returns:
        One comparison for each image, in their order.

    Raises:
        DatasetError: if the dataset does not say how it was made, or a stored image cannot be read.
    """
    manifest = Manifest.read(root)
    plan = Plan(manifest, Recipe.of(manifest))
    splits = {split: NativeSplit(root, split) for split in {image.split for image in images}}
    rows = {split: {int(id_): row for row, id_ in enumerate(stored.ids)} for split, stored in splits.items()}

    def stored_images(image: ImageId) -> StoredImages:
        split = splits[image.split]
        return split.positives if image.positive and split.positives is not None else split

    def stored_latents(image: ImageId) -> npt.NDArray[np.float32]:
        row: npt.NDArray[np.float32] = stored_images(image).latents[rows[image.split][image.row]]
        return row

    found = {}
    for image, png in renderer.render(plan.job(image, stored_latents(image)) for image in images):
        row = rows[image.split][image.row]
        stored = stored_images(image).pixels(row)
        found[image] = Comparison(image, psnr(stored, decode(png, f"the new image of {image}")))
    return [found[image] for image in images]
