"""Positive pairs that are matched in a finite dataset."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from ident3d.arguments import check_count
from ident3d.conditionals.conditional import Conditional, check_conditional
from ident3d.device import Readback, send
from ident3d.matching.index import PairIndex, check_index
from ident3d.pairs.realised import RealisedConditional, estimated
from ident3d.pairs.stream import PairBatch, PairData, StoredPairs, check_workers, made
from ident3d.spaces import Box, Space

__all__ = ["MatchedLoader", "PositivePairs"]

_FEW_DRAWS = 1000  # a standard deviation to within 2%, in a tenth of a second

if TYPE_CHECKING:
    from collections.abc import Iterator


class MatchedLoader(DataLoader[PairBatch]):
    """Yields the batches of a stream of matched pairs from decoded images.

    Copying decoded images takes a tenth of the time that matching takes, and less than sending them from one
    process to another. So workers send ids, and the process that iterates copies the images.

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

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        for number in self._pairs.numbers():
            yield number, made(self._pairs.match, number)


class PositivePairs(StoredPairs):
    """Positive pairs of stored images, from a conditional.

    The anchor is a stored image, drawn uniformly. A target is drawn from the conditional around the anchor's
    latents, and the positive is the stored image with the latents nearest to the target, the anchor itself left
    out. A finite dataset widens the conditional by this: see :meth:`realised_conditional`. How far is logged to
    ``ident3d.pairs`` when the stream is made, as a warning where the dataset is too small for the conditional.

    Streams, ranks, workers, resuming: see :class:`~ident3d.pairs.stream.PairStream`.

    Example:
        >>> import ident3d
        >>> data = ident3d.ThreeDIdent("sample")
        >>> pairs = ident3d.PositivePairs(data, ident3d.Normal(0.3), batch_size=128)
        >>> batch = pairs.batch(0)
        >>> batch.x.shape, bool((batch.ids != batch.ids_pos).all())
        (torch.Size([128, 3, 64, 64]), True)
        >>> len(pairs.epoch(0))
        8

    Args:
        data: the dataset, of two images or more.
        conditional: what targets are drawn from.
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        index: what matches targets to ``data``; None: an exact one in plain L2.
        space: where the latents live; None: the box [-1, 1]^d.
        transform: what is made of each image, (3, H, W); see :class:`~ident3d.pairs.stream.PairStream`.
        dtype: what the images are served in: a dtype of floats scales them to [0, 1]; None: uint8.

    Raises:
        TypeError: if data is not a dataset, conditional not a conditional, or index not a PairIndex.
        ValueError: if the conditional is not defined on the space, latents lie outside it, the index is one of other
            latents, or batch size or seed are not usable.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, section 4.2.2.
    """

    def __init__(
        self,
        data: PairData,
        conditional: Conditional,
        batch_size: int = 512,
        seed: int = 0,
        index: PairIndex | None = None,
        *,
        space: Space | None = None,
        transform: Callable[[Tensor], Any] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(data, batch_size, seed, transform, dtype)
        check_conditional(conditional)
        self.conditional = conditional
        self.index = PairIndex(data.latents, factors=data.factors) if index is None else index
        check_index(self.index, data.latents)
        self.space = Box(self.index.width) if space is None else space
        conditional.check(self.space)
        self.space.check(data.latents, "the latents of the dataset")
        self._estimate = self._estimated(_FEW_DRAWS)
        self._say(logging.WARNING if self._estimate.is_too_small else logging.INFO)

    @property
    def realises(self) -> str:
        """What the dataset makes of the conditional, in a sentence, estimated from 1,000 pairs."""
        return self._estimate.sentence

    def _estimated(self, draws: int) -> RealisedConditional:
        return estimated(
            self.data.latents,
            self.conditional,
            space=self.space,
            index=self.index,
            seed=self.seed,
            draws=draws,
            factors=self.data.factors,
        )

    def on_device(self, device: torch.device | str, *, together: bool = False) -> Self:
        """Return this stream with all images on ``device``, matched there too if the index is exact.

        See :meth:`StoredPairs.on_device`.
        """
        moved = super().on_device(device, together=together)
        moved.index = self.index.on(device)
        return moved

    def realised_conditional(self, draws: int = 20_000) -> RealisedConditional:
        """Return what this dataset and index make of the conditional.

        Args:
            draws: number of pairs that it is estimated from.

        Warns:
            UserWarning: if the dataset is too small for the conditional.
        """
        found = self._estimated(draws)
        if found.is_too_small:
            warnings.warn(found.advice, UserWarning, stacklevel=2)
        return found

    def match(self, number: int) -> Int64[Tensor, "2 batch"]:
        """Return the ids of batch ``number``, without its images: anchors and positives."""
        check_count(number, "the number of a batch", 0)
        anchors, targets = self.draw(number)
        positives, _ = self.index.match(targets, exclude=anchors)
        return torch.stack([anchors, positives])

    def _begin(self, number: int) -> Callable[[], PairBatch]:
        is_there = self.device.type != "cpu" and self.index.search_device == self.device
        if not is_there or self._of_targets is not None:  # the dataset's transforms take tensors of the CPU
            return super()._begin(number)
        anchors, targets = self.draw(number)
        there = send(anchors, self.device)
        positives, are_settled = self.index.nearest(send(targets, self.device), there)
        batch = self.batch_of(number, torch.stack([there, positives]))
        settled = Readback(are_settled.all())

        def finish() -> PairBatch:
            if bool(settled.value()):
                return batch
            return self.batch_of(number, send(self.match(number), self.device))

        return finish

    def draw(self, number: int) -> tuple[Tensor, Tensor]:
        """Return the (B,) anchors and (B, d) targets of a batch, on the CPU."""
        anchors = self._anchors(number)
        generator = self._generator("targets", number)
        return anchors, self.conditional.sample(self._latents(anchors), self.space, generator)

    def batch_of(self, number: int, ids: Int64[Tensor, "2 batch"]) -> PairBatch:
        """Return batch ``number``, whose ids :meth:`match` has found, with its images."""
        return self._finished(self._imaged(number, ids))

    def loader(self, num_workers: int = 0, **options: Any) -> DataLoader[PairBatch]:
        """Return a DataLoader that yields this stream's batches in order, endlessly.

        From decoded images, workers only match, and batches get their images in the process that iterates. A
        transform that is not quick is left to the workers, and images with it. For the options see
        :meth:`~ident3d.pairs.stream.PairStream.loader`.
        """
        check_workers(num_workers, options.get("prefetch_factor"))
        if num_workers and self.index.device.type != "cpu" and self.device.type == "cpu":
            raise ValueError(
                f"the index searches on {self.index.device}, which processes cannot share: use num_workers=0, or an "
                "index on the CPU, such as PairIndex(data.latents)"
            )
        is_decoded = getattr(self.data, "layout", None) == "decoded" and self.device.type == "cpu"
        if num_workers == 0 or not (is_decoded and self.takes_little_time):
            return super().loader(num_workers, **options)
        start, pin_memory = options.pop("start", None), options.pop("pin_memory", None)
        pairs = self if start is None else self.from_step(start)
        return MatchedLoader(pairs, num_workers=num_workers, pin_memory=self._pins(pin_memory), **options)

    def _draw(self, number: int) -> PairBatch:
        return self._imaged(number, self.match(number))

    def _imaged(self, number: int, ids: Tensor) -> PairBatch:
        anchors, positives = ids[0], ids[1]
        images = self._images(ids.reshape(-1))
        x, x_pos = images[: len(anchors)], images[len(anchors) :]
        z, z_pos = self._latents(anchors), self._latents(positives)
        return PairBatch(x, x_pos, z, z_pos, anchors, positives, number)
