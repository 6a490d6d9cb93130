"""Positive pairs that are two frames of one pedestrian."""

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import torch
from jaxtyping import Int64
from torch import Tensor

from ident3d.arguments import check_count
from ident3d.pairs.stream import PairBatch, PairData, StoredPairs

__all__ = ["FramePairs", "SequenceData"]


class SequenceData(PairData, Protocol):
    """Frames of several sequences, one after the other; :class:`ident3d.KittiMasks` is such a dataset.

    Attributes:
        lengths: (P,) int64, the number of frames of each sequence.
    """

    lengths: Int64[Tensor, " sequences"]


class FramePairs(StoredPairs):
    """Pairs of a frame and a later one of the same pedestrian, 1 to ``max_delta`` frames after it.

    Anchors are drawn uniformly from all frames that have a successor, and the distance uniformly from 1 to
    ``max_delta``; where the sequence ends before, the positive is its last frame. So do the authors draw them. Batches
    are (B, 1, H, W) masks of 0 and 255. What conditional the latents of such pairs follow is up to the data.

    Streams, ranks, workers, resuming: see :class:`~ident3d.pairs.stream.PairStream`.

    Example:
        >>> import ident3d
        >>> batch = ident3d.FramePairs(ident3d.walkers(3), max_delta=5, batch_size=8).batch(0)
        >>> batch.x.shape, bool((batch.ids_pos - batch.ids).max() <= 5)
        (torch.Size([8, 1, 64, 64]), True)

    Args:
        data: the frames.
        max_delta: largest distance of a pair, in frames, 1 or more: 1 is 0.05 seconds of KITTI Masks, and 5 are 0.15
            on average.
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        transform: what is made of each mask, (1, H, W); see :class:`~ident3d.pairs.stream.PairStream`.
        dtype: what the masks are served in: a dtype of floats scales them to [0, 1]; None: uint8.

    Raises:
        TypeError: if data has no sequences, or a count is not an integer.
        ValueError: if a count is too small, lengths and frames differ in number, or no sequence has two frames.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, section 4.2.1.
    """

    def __init__(
        self,
        data: SequenceData,
        max_delta: int = 1,
        batch_size: int = 32,
        seed: int = 0,
        *,
        transform: Callable[[Tensor], Any] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(data, batch_size, seed, transform, dtype)
        if not isinstance(getattr(data, "lengths", None), Tensor):
            raise TypeError(
                f"pairs of frames are drawn from sequences, such as ident3d.KittiMasks(root); {type(data).__name__} "
                "has no lengths"
            )
        self.max_delta = check_count(max_delta, "max_delta", 1)
        self._starts, self._last = _pairs(data.lengths, len(data))
        self._say()

    @property
    def realises(self) -> str:
        """Which frames make pairs; what conditional they follow is up to the data."""
        apart = "1 frame" if self.max_delta == 1 else f"1 to {self.max_delta} frames"
        return f"pairs of frames {apart} apart, of {len(self.data):,}: positives follow what the sequences do"

    def _draw(self, number: int) -> PairBatch:
        generator = self._generator("frames", number)
        chosen = torch.randint(
            len(self._starts), (self.batch_size,), dtype=torch.int64, device=generator.device, generator=generator
        )
        delta = torch.randint(
            1, self.max_delta + 1, chosen.shape, dtype=torch.int64, device=generator.device, generator=generator
        )
        ids = self._starts[chosen]
        ids_pos = (ids + delta).minimum(self._last[chosen])
        return PairBatch(
            self._images(ids), self._images(ids_pos), self._latents(ids), self._latents(ids_pos), ids, ids_pos, number
        )


def _pairs(lengths: Tensor, frames: int) -> tuple[Tensor, Tensor]:
    """Return the rows of all frames that have a successor, and of the last frame of the sequence of each."""
    if int(lengths.sum()) != frames or bool((lengths < 1).any()):
        raise ValueError(f"sequences of {int(lengths.sum())} frames, one or more each, do not make up {frames} frames")
    single = int((lengths == 1).sum())
    if single == len(lengths):
        raise ValueError("no sequence has two frames, so there are no pairs")
    if single:
        warnings.warn(f"{single} of {len(lengths)} sequences have a single frame, which is in no pair", stacklevel=3)
    ends = lengths.cumsum(0)
    last = torch.repeat_interleave(ends - 1, lengths)
    rows = torch.arange(frames, dtype=torch.int64, device=lengths.device)
    starts = rows[rows < last]
    return starts, last[starts]
