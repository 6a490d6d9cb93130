"""Positive pairs that are two augmented views of one picture."""

from collections.abc import Callable

from torch import Tensor

from ident3d.pairs.batch import PairBatch, PairData
from ident3d.pairs.simclr import SimCLRViews
from ident3d.pairs.stream import PairStream

__all__ = ["AugmentedPairs"]


class AugmentedPairs(PairStream):
    """Two views of one picture as a positive pair: the paper's comparison to learning without knowing the latents.

    Both views carry the latents of the picture that they were made of, though a crop shows another position and a
    colour jitter other hues. A batch's ``ids_pos`` are its ``ids``.

    Streams, ranks, workers, resuming: see :class:`~ident3d.pairs.stream.PairStream`.

    Args:
        data: the dataset.
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        views: how views are drawn.
        transform: what is made of the views, (B, 3, H, W) uint8; a function of its input alone.

    Raises:
        TypeError: if the dataset is none, or views are drawn by no function.
        ValueError: if batch size or seed are not usable.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, table 4, last row.
    """

    def __init__(
        self,
        data: PairData,
        batch_size: int = 512,
        seed: int = 0,
        *,
        views: SimCLRViews | None = None,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(data, batch_size, seed, transform)
        if views is not None and not callable(views):
            raise TypeError(f"the views of a picture are drawn by a SimCLRViews, not by {views!r}")
        self.views = SimCLRViews() if views is None else views

    def _draw(self, number: int) -> PairBatch:
        ids = self._anchors(number)
        pictures, generator = self._pictures(ids), self._generator("views", number)
        z = self._latents(ids)
        return PairBatch(
            self.views(pictures, generator), self.views(pictures, generator), z, z.clone(), ids, ids.clone(), number
        )
