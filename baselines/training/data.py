"""The data of a run: the training and validation parts of the train split, and the stream of pairs."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baselines.recipes import Recipe
from ident3d import AugmentedPairs, Box, PairIndex, PositivePairs, RenderedPairs
from ident3d.conditionals import AnisotropicNormal, Normal, parse
from ident3d.errors import NotLoadedError
from ident3d.pairs import PairBatch, StoredPairs
from ident3d.pairs.stream import PairData
from ident3d.randomness import torch_generator

if TYPE_CHECKING:
    from ident3d import ThreeDIdent
    from ident3d.conditionals.conditional import Conditional

__all__ = [
    "DatasetPart",
    "SingleImages",
    "build_stream",
    "content_and_style",
    "image_resolution",
    "matching_index",
    "pair_conditional",
    "split_validation",
    "true_precision",
]

_LOG = logging.getLogger("ident3d.baselines")


class DatasetPart:
    """Some rows of a dataset, as a dataset that pairs can be drawn from.

    Args:
        data: the dataset.
        rows: (N,) int64, the rows.

    Attributes:
        rows: the rows.
        latents: (N, d) float32.
        factors: the factors that the columns of the latents hold.
        positives: the same rows of the dataset's exact positives; None if it has none.
        transform: the dataset's own, which streams of pairs and :func:`ident3d.embedding.embed` apply; None if it has
            none.
    """

    def __init__(self, data: PairData, rows: Tensor) -> None:
        self._data = data
        self.rows = rows
        self.latents = data.latents[rows]
        self.factors = data.factors
        self.transform = getattr(data, "transform", None)
        positives: PairData | None = getattr(data, "positives", None)
        self.positives = None if positives is None else DatasetPart(positives, rows)

    def __len__(self) -> int:
        return len(self.rows)

    def pixels(self, rows: Tensor) -> Tensor:
        """Return the (B, H, W, 3) uint8 images of (B,) rows of this part."""
        return self._data.pixels(self.rows[rows])


class SingleImages(StoredPairs):
    """Images with their latents and no positives, for supervised training; ``x_pos`` is ``x``.

    Order, ranks, workers and resuming: see :class:`~ident3d.pairs.PairStream`.
    """

    def _draw(self, number: int) -> PairBatch:
        ids = self._anchors(number)
        x, z = self._images(ids), self.data.latents[ids]
        return PairBatch(x, x, z, z, ids, ids, number)


def split_validation(data: ThreeDIdent, validation: int, seed: int) -> tuple[DatasetPart, DatasetPart]:
    """Split the train split into a training part and a validation part.

    Args:
        data: the train split, of N images.
        validation: number of images to hold out, at most half of them.
        seed: seed of the run.

    Returns:
        The training part and the validation part, which are disjoint.

    Raises:
        ValueError: if the dataset is too small.
    """
    if validation < 1 or 2 * validation > len(data):
        raise ValueError(
            f"the dataset has {len(data)} images, of which at least 1 and at most half can be held out for validation, "
            f"not {validation}; choose another --validation or render more"
        )
    order = torch.randperm(len(data), generator=torch_generator(seed, "training/validation"))
    held_out, rest = order[:validation].sort().values, order[validation:].sort().values
    return DatasetPart(data, rest), DatasetPart(data, held_out)


def pair_conditional(recipe: Recipe, data: ThreeDIdent) -> Conditional | None:
    """Return the conditional of the positives: the recipe's, or the one that exact pairs were rendered with.

    Returns:
        The conditional; None if there are no pairs, they are augmented, or their conditional is unknown. None, too, for
        rendered pairs whose manifest names a class that is not loaded, because a manifest imports no module.

    Raises:
        ValueError: if the conditional cannot be read.
    """
    if recipe.pairs != "rendered":
        return None if recipe.conditional is None else parse(recipe.conditional, data.factors)
    text = data.provenance.pairs
    try:
        return None if text is None else parse(text, data.factors, may_import=False)
    except NotLoadedError as error:
        _LOG.warning("nothing is made of the conditional of the rendered pairs: %s", error)
        return None


def true_precision(conditional: Conditional | None, dim: int) -> npt.NDArray[np.float64] | None:
    """Return the (dim,) diagonal of Lambda of a normal conditional; None for other conditionals."""
    if isinstance(conditional, Normal):
        return 1 / (2 * np.broadcast_to(np.asarray(conditional.sigma, dtype=np.float64), dim) ** 2)
    if isinstance(conditional, AnisotropicNormal):
        return np.broadcast_to(np.asarray(conditional.precision, dtype=np.float64), dim).copy()
    return None


def content_and_style(conditional: Conditional | None, dim: int) -> dict[str, list[int]]:
    """Return the columns that vary little within a pair, "content", and those that vary much, "style".

    Returns:
        The columns by these names; empty unless the conditional is normal with exactly two scales.
    """
    precision = true_precision(conditional, dim)
    kinds = [] if precision is None else sorted(set(precision.tolist()), reverse=True)
    if precision is None or len(kinds) != 2:
        return {}
    return {name: np.flatnonzero(precision == k).tolist() for name, k in zip(("content", "style"), kinds, strict=True)}


def image_resolution(data: ThreeDIdent) -> int:
    """Return the height of a dataset's images in pixels."""
    return data.pixels([0]).shape[1]


def build_stream(recipe: Recipe, part: DatasetPart, data: ThreeDIdent, seed: int, *, batch_size: int) -> StoredPairs:
    """Return the stream of a recipe's batches.

    Args:
        recipe: the recipe.
        part: the training part.
        data: the whole dataset, whose factors a conditional may name.
        seed: seed of the run.
        batch_size: pairs in a batch of this process.

    Raises:
        ValueError: if the conditional cannot be read or is not defined on the box of the latents, or the part is
            smaller than a batch.
        DatasetError: if the dataset lacks the exact pairs that the recipe needs.
    """
    if len(part) < batch_size:
        raise ValueError(
            f"{len(part)} training images are fewer than a batch of {batch_size}: most pairs of a batch would share "
            "images; choose a smaller --batch-size or render more"
        )
    if recipe.pairs == "single":
        return SingleImages(part, batch_size, seed, None)
    if recipe.pairs == "augmented":
        return AugmentedPairs(part, batch_size, seed)
    if recipe.pairs == "rendered":
        return RenderedPairs(part, batch_size, seed)
    conditional = pair_conditional(recipe, data)
    if conditional is None:
        raise ValueError("matched pairs are drawn from a conditional: give one")
    index = matching_index(conditional, part, in_own_metric=recipe.match_in_own_metric)
    return PositivePairs(part, conditional, batch_size, seed, index)


def matching_index(conditional: Conditional, data: PairData, *, in_own_metric: bool) -> PairIndex:
    """Return the index that matches draws from a conditional to the images of a dataset.

    Args:
        conditional: the conditional of the positives.
        data: the dataset, or a part of one.
        in_own_metric: whether matching divides each factor by the conditional's standard deviation in it.

    Raises:
        ValueError: if the conditional is not defined on the box of the latents.
    """
    space = Box(len(data.factors))
    conditional.check(space)
    scale = conditional.displacement_std(space) if in_own_metric else None
    # Both are exact and give the same matches; "exact" needs FAISS, and "torch" is slow for many images without a GPU.
    backend = "exact" if find_spec("faiss") is not None else "torch"
    return PairIndex(data.latents, backend, scale, factors=data.factors)
