"""Positive pairs that were rendered as pairs."""

from collections.abc import Callable

from torch import Tensor

from ident3d.errors import DatasetError
from ident3d.pairs.batch import PairBatch, RenderedPairData
from ident3d.pairs.stream import PairStream

__all__ = ["RenderedPairs"]


class RenderedPairs(PairStream):
    """The exact positive pairs of a dataset that was rendered with ``python -m render --pairs CONDITIONAL``.

    Every stored picture has one positive, rendered from latents that were drawn from the conditional. Nothing is
    matched, so the conditional is the one that was asked for. A batch's ``ids_pos`` are its ``ids``.

    Streams, ranks, workers, resuming: see :class:`~ident3d.pairs.stream.PairStream`.

    Args:
        data: the dataset.
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        transform: what is made of (B, 3, H, W) uint8 pictures, a function of its input alone.

    Raises:
        DatasetError: if the dataset has no exact positives.
        TypeError: if the dataset is none.
        ValueError: if batch size or seed are not usable.
    """

    _uses_positives = True

    def __init__(
        self,
        data: RenderedPairData,
        batch_size: int = 512,
        seed: int = 0,
        *,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(data, batch_size, seed, transform)
        positives: Tensor | None = getattr(data, "latents_pos", None)
        if positives is None:
            raise DatasetError(
                "the dataset has no exact positives: render one with python -m render ROOT --pairs CONDITIONAL, or "
                "match pairs with PositivePairs"
            )
        self._latents_pos = positives

    def _draw(self, number: int) -> PairBatch:
        ids = self._anchors(number)
        x, x_pos = self._pictures(ids), self._pictures(ids, positive=True)
        return PairBatch(x, x_pos, self._latents(ids), self._latents_pos.index_select(0, ids), ids, ids.clone(), number)
