"""Positive pairs: streams of batches, and what matching in a finite dataset makes of a conditional."""

from ident3d.pairs.augmented import AugmentedPairs
from ident3d.pairs.frames import FramePairs
from ident3d.pairs.live import LivePairs, LivePool
from ident3d.pairs.matched import PositivePairs
from ident3d.pairs.realised import RealisedConditional, realised_conditional
from ident3d.pairs.rendered import RenderedPairs
from ident3d.pairs.stream import PairBatch, PairStream, StoredPairs
from ident3d.pairs.transforms import BatchTransform, normalize

__all__ = [
    "AugmentedPairs",
    "BatchTransform",
    "FramePairs",
    "LivePairs",
    "LivePool",
    "PairBatch",
    "PairStream",
    "PositivePairs",
    "RealisedConditional",
    "RenderedPairs",
    "StoredPairs",
    "normalize",
    "realised_conditional",
]
