"""Rendering images of a dataset again, from the settings in its manifest, and comparing them with the stored ones."""

import logging
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ident3d.arguments import check_count
from ident3d.errors import DatasetError
from ident3d.progress import ProgressBar
from ident3d.randomness import generator
from ident3d.storage.images import decode
from ident3d.storage.layouts import resolve_root
from ident3d.storage.manifest import MANIFEST_NAME, Manifest, native_splits
from ident3d.storage.native import NativeSplit
from ident3d.storage.split import StoredImages
from render.blender.pool import PoolSpec
from render.blender.protocol import Renderer
from render.dataset.plan import ImageId, ImageSpec

__all__ = ["Comparison", "VerifyReport", "VerifySpec", "compare", "psnr", "sample_images", "verify_images"]

_LOG = logging.getLogger("ident3d.render")


@dataclass(frozen=True)
class Comparison:
    """A stored image compared with the same one rendered again.

    Attributes:
        image: which image.
        psnr: peak signal-to-noise ratio in dB; infinite where the pixels are equal.
    """

    image: ImageId
    psnr: float


@dataclass(frozen=True)
class VerifyReport:
    """The result of rendering images again.

    Attributes:
        root: the dataset's folder.
        comparisons: one for each image.
        tolerance_db: lowest peak signal-to-noise ratio that counts as the same image, in dB.
    """

    root: Path
    comparisons: tuple[Comparison, ...]
    tolerance_db: float

    @property
    def different(self) -> list[ImageId]:
        """The images that differ by more than the tolerance."""
        return [found.image for found in self.comparisons if found.psnr < self.tolerance_db]


@dataclass(frozen=True, kw_only=True)
class VerifySpec:
    """Which images are rendered again, and when they count as the same.

    Attributes:
        sample: how many images, exact positives among them, 1 or more; all of them where there are fewer.
        seed: seed of their choice, 0 or larger.
        tolerance_db: lowest peak signal-to-noise ratio that counts as the same image, in dB; positive.
    """

    sample: int = 8
    seed: int = 0
    tolerance_db: float = 40.0

    def __post_init__(self) -> None:
        if not self.tolerance_db > 0:  # NaN neither
            raise ValueError(f"expected a positive tolerance in dB, not {self.tolerance_db}")


def verify_images(root: Path | str, spec: VerifySpec | None = None, pool: PoolSpec | None = None) -> VerifyReport:
    """Render random images of a dataset again, from the settings in its manifest, and compare.

    On the same Blender and device the pixels are equal; on another device they may differ by rounding. To check the
    files, :func:`ident3d.storage.verification.verify` needs no Blender.

    Args:
        root: the dataset's folder, or "sample".
        spec: which images, and when they count as the same.
        pool: the workers; where None, on a GPU if one is available, or else on all cores.

    Raises:
        ValueError: if a number is out of range.
        FileNotFoundError: if the folder does not exist, or has no manifest.
        DatasetError: if the manifest is damaged or not understood, or a stored image cannot be read.
        RenderError: if the machine cannot render, or an image cannot be rendered.
    """
    spec = spec or VerifySpec()
    folder = resolve_root(root)
    if not (folder / MANIFEST_NAME).exists():
        raise FileNotFoundError(
            f"{folder} has no {MANIFEST_NAME}, which says how its images were made: only datasets that "
            "python -m render made can be rendered again. ident3d verify checks the files of any dataset"
        )
    made = ImageSpec.of(Manifest.read(folder))
    images = sample_images(folder, spec.sample, spec.seed)
    with made.workers(pool or PoolSpec()) as workers:
        if made.engine.has_series and made.blender != workers.about.series:
            _LOG.warning("rendered with Blender %s, compared with %s", made.blender, workers.about.version)
        return VerifyReport(folder, tuple(compare(folder, made, images, workers)), spec.tolerance_db)


def psnr(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> float:
    """Return the peak signal-to-noise ratio of two images in dB, 10 log10(255^2 / mean squared difference)."""
    if one.shape != other.shape:
        raise ValueError(f"images of shape {one.shape} and {other.shape} cannot be compared")
    error = float(np.mean((one.astype(np.float64) - other) ** 2))
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def sample_images(root: Path, count: int, seed: int) -> list[ImageId]:
    """Return random images of a dataset, exact positives among them, each at most once.

    Args:
        root: the dataset's folder.
        count: how many, 1 or more; all of them where there are fewer.
        seed: seed of their choice, 0 or larger.
    """
    check_count(count, "the number of images to compare", 1)
    images = []
    for split in native_splits(root):
        stored = NativeSplit(root, split)
        kinds = (False,) if stored.positives is None else (False, True)
        images += [ImageId(split, int(row), positive) for row in stored.ids for positive in kinds]
    if not images:
        raise DatasetError(f"{root} holds no finished shard yet")
    chosen = generator(seed, "verify").permutation(len(images))[:count]
    return [images[k] for k in sorted(chosen)]


def compare(root: Path, spec: ImageSpec, images: list[ImageId], renderer: Renderer) -> list[Comparison]:
    """Render images again from the stored latents, and compare.

    Args:
        root: the dataset's folder.
        spec: what its images are rendered from.
        images: which ones.
        renderer: renders the images, with the quality and the resolution of ``spec``.

    Returns:
        One comparison for each image, in their order.

    Raises:
        DatasetError: if a stored image cannot be read.
    """
    splits = {split: NativeSplit(root, split) for split in {image.split for image in images}}
    rows = {split: {int(id_): row for row, id_ in enumerate(stored.ids)} for split, stored in splits.items()}

    def stored_images(image: ImageId) -> StoredImages:
        split = splits[image.split]
        return split.positives if image.positive and split.positives is not None else split

    def stored_latents(image: ImageId) -> npt.NDArray[np.float32]:
        row: npt.NDArray[np.float32] = stored_images(image).latents[rows[image.split][image.row]]
        return row

    found = {}
    with ProgressBar(len(images), unit="images", label="rendering again") as bar:
        for image, png in renderer.render(spec.job(image, stored_latents(image)) for image in images):
            stored = stored_images(image).pixels(rows[image.split][image.row])
            found[image] = Comparison(image, psnr(stored, decode(png, f"the new image of {image}")))
            bar.update()
    return [found[image] for image in images]
