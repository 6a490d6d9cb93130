"""Positive pairs that were rendered as pairs."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ident3d.conditionals.conditional import Conditional
from ident3d.errors import DatasetError
from ident3d.pairs.stream import PairBatch, PairData, RenderedPairData, ResidentImages, StoredPairs, check_memory
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, FactorSpace

__all__ = ["RenderedPairs", "exact_positives"]


def exact_positives(
    latents: npt.NDArray[np.float32],
    conditional: Conditional,
    seed: int,
    *,
    split: str = "train",
    start: int = 0,
    space: FactorSpace | None = None,
) -> npt.NDArray[np.float32]:
    """Draw the latents of one positive for every row.

    Row i depends on its own latents and on (seed, split, start + i) only.

    Args:
        latents: (n, d) raw latents.
        conditional: what the positives are drawn from.
        seed: seed of the dataset, 0 or larger.
        split: name of the split.
        start: index of the first row within the split.
        space: where the latents live, in which the conditional draws the factors of the space; others are held, or
            drawn anew. None: the box [-1, 1]^d.

    Returns:
        (n, d) float32 in [-1, 1].

    Raises:
        ValueError: if the conditional is not defined on the space.
    """
    positives = np.empty_like(latents, dtype=np.float32)
    for row, anchor in enumerate(torch.from_numpy(np.array(latents, dtype=np.float32))):
        generator = torch_generator(seed, f"pairs/{split}", start + row)
        if space is None:
            drawn = conditional.sample(anchor[None], Box(len(anchor)), generator)
        else:
            drawn = conditional.sample(space.coordinates(anchor[None]), space.space, generator)
            drawn = space.complete(drawn, generator)
        positives[row] = drawn[0].numpy()
    return positives


class RenderedPairs(StoredPairs):
    """The exact positive pairs of a dataset that was rendered with ``python -m render --pairs CONDITIONAL``.

    Every stored image has one positive, rendered from latents that were drawn from the conditional. Nothing is
    matched, so the conditional is the one that was asked for. A batch's ``ids_pos`` are its ``ids``.

    Streams, ranks, workers, resuming: see :class:`~ident3d.pairs.stream.PairStream`.

    Example:
        >>> import ident3d
        >>> ident3d.RenderedPairs(ident3d.ThreeDIdent("sample"))
        Traceback (most recent call last):
        ident3d.errors.DatasetError: the dataset has no exact positives: render one with python -m ...

    Args:
        data: the dataset.
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        transform: what is made of each image, (3, H, W); see :class:`~ident3d.pairs.stream.PairStream`.
        dtype: what the images are served in: a dtype of floats scales them to [0, 1]; None: uint8.

    Raises:
        DatasetError: if the dataset has no exact positives.
        TypeError: if data is not a dataset.
        ValueError: if batch size or seed are not usable.
    """

    def __init__(
        self,
        data: RenderedPairData,
        batch_size: int = 512,
        seed: int = 0,
        *,
        transform: Callable[[Tensor], Any] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(data, batch_size, seed, transform, dtype)
        positives: PairData | None = getattr(data, "positives", None)
        if positives is None:
            raise DatasetError(
                "the dataset has no exact positives: render one with python -m render ROOT --pairs CONDITIONAL, or "
                "match pairs with PositivePairs"
            )
        self._positives = positives
        provenance = getattr(data, "provenance", None)
        self._conditional = getattr(provenance, "pairs", None) or "the conditional that they were rendered with"
        self._say()

    @property
    def realises(self) -> str:
        """That positives follow the conditional that was asked for."""
        return f"exact pairs of {len(self.data):,} images: positives follow {self._conditional}"

    def on_device(self, device: torch.device | str, *, together: bool = False) -> Self:
        """Return this stream with all images, and their positives, on ``device``.

        See :meth:`StoredPairs.on_device`.
        """
        target = self._usable(device)
        check_memory([self.data, self._positives], target)
        positives = ResidentImages(self._positives, target, together=together)
        images = ResidentImages(self.data, target, positives, together=together)
        return self._with(data=images, _positives=positives, device=target)

    def _draw(self, number: int) -> PairBatch:
        ids = self._anchors(number)
        x, x_pos = self._images(ids), self._positives.pixels(ids).permute(0, 3, 1, 2)
        z_pos = self._positives.latents.index_select(0, ids)
        return PairBatch(x, x_pos, self._latents(ids), z_pos, ids, ids.clone(), number)
