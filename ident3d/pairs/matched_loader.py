"""A loader whose workers match, and whose pictures are copied where they are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from ident3d.pairs.batch import PairBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ident3d.pairs.matched import PositivePairs

__all__ = ["MatchedLoader"]


class MatchedLoader(DataLoader[PairBatch]):
    """Yields the batches of a stream of matched pairs from decoded pictures.

    Copying decoded pictures takes a tenth of the time that matching takes, and less than sending them from one
    process to another. So workers send ids, and the process that iterates copies the pictures.

    Args:
        pairs: the stream.
        pin_memory: whether batches are put in page-locked memory.
        options: of the DataLoader.
    """

    def __init__(self, pairs: PositivePairs, *, pin_memory: bool, **options: Any) -> None:
        super().__init__(_Matches(pairs), batch_size=None, **options)  # type: ignore[arg-type]  # yields batches only below
        self._pairs = pairs
        self._pins = pin_memory

    def __iter__(self) -> Iterator[PairBatch]:  # type: ignore[override]  # any iterator will do
        matches: Iterator[tuple[int, Tensor]] = super().__iter__()
        for number, ids in matches:
            batch = self._pairs.batch_of(number, ids)
            yield batch.pin_memory() if self._pins else batch


class _Matches(IterableDataset[tuple[int, Tensor]]):
    """The numbers of a stream's batches with the ids of their anchors and positives, (2, B) int64."""

    def __init__(self, pairs: PositivePairs) -> None:
        self._pairs = pairs

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        return ((number, self._pairs.match(number)) for number in self._pairs.numbers())
