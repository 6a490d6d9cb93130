"""What all streams of positive pairs share: order, workers, ranks, resuming, and pictures that stay on a device."""

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ident3d.counts import check_count
from ident3d.device import usable_device
from ident3d.pairs.batch import PairBatch, PairData, check_data
from ident3d.pairs.resident import ResidentPictures
from ident3d.randomness import torch_generator

__all__ = ["PairStream", "check_workers"]


class PairStream(IterableDataset[PairBatch], ABC):
    """An endless stream of batches of positive pairs.

    Batch b depends on the seed and b only. Iterating gives batches 0, 1, 2, ...; several ranks take turns: at step s,
    rank r of R gets batch s R + r, so that together they see the stream that one rank would see. Workers of a rank
    take turns at its steps in the same way. So the stream is the same for any number of workers, any way of starting
    them, and after any restart.

    Args:
        data: where latents and pictures come from.
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        transform: what is made of (B, 3, H, W) uint8 pictures, where they are: of anchors and positives separately. A
            function of its input alone, or the stream depends on more than the seed. None leaves pictures as they are.

    Attributes:
        device: where batches are made.

    Raises:
        TypeError: if the dataset is none, the transform no function, or batch size or seed no integer.
        ValueError: if the dataset is empty, the batch size is not positive, or the seed is negative.
    """

    def __init__(
        self, data: PairData, batch_size: int, seed: int, transform: Callable[[Tensor], Tensor] | None
    ) -> None:
        check_data(data)
        check_count(batch_size, "batch_size", 1)
        check_count(seed, "a seed", 0)
        if transform is not None and not callable(transform):
            raise TypeError(f"a transform is a function of (B, 3, H, W) uint8 pictures, not {transform!r}")
        self.data = data
        self.batch_size = int(batch_size)
        self.seed = int(seed)
        self.transform = transform
        self.device = torch.device("cpu")
        self._step = 0
        self._rank, self._ranks = 0, 1

    def batch(self, number: int) -> PairBatch:
        """Return batch ``number`` of the stream, 0 or larger, whatever was returned before."""
        check_count(number, "the number of a batch", 0)
        return self._finished(self._draw(number))

    def __iter__(self) -> Iterator[PairBatch]:
        in_worker = get_worker_info() is not None
        for batch in map(self.batch, self.numbers()):
            # Left to the thread that feeds the queue, the copy to shared memory aborts a process that ends meanwhile.
            yield batch.share_memory() if in_worker else batch

    def numbers(self) -> Iterator[int]:
        """Return the numbers of the batches that are this rank's, and in a DataLoader's worker this worker's."""
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return (step * self._ranks + self._rank for step in itertools.count(self._step + first, stride))

    def from_step(self, step: int) -> Self:
        """Return this stream, starting at ``step``: what a training run resumes with after ``step`` steps."""
        check_count(step, "a step", 0)
        return self._with(_step=step)

    def shard(self, rank: int, world_size: int) -> Self:
        """Return the part of this stream for one of ``world_size`` ranks; see the class.

        Raises:
            ValueError: if the rank is not in [0, world_size).
        """
        check_count(world_size, "world_size", 1)
        check_count(rank, "rank", 0)
        if rank >= world_size:
            raise ValueError(f"rank is in [0, {world_size}) for {world_size} ranks, not {rank}")
        return self._with(_rank=rank, _ranks=world_size)

    def on_device(self, device: torch.device | str) -> Self:
        """Return this stream with all pictures in the memory of ``device``, where batches are then made.

        Every picture is decoded once, now. Batches are those of this stream, number by number, and pixel by pixel
        but for the rounding of augmented views.

        Raises:
            TypeError: if it is no device.
            ValueError: if there is no such device here, or the pictures do not fit in its free memory.
        """
        target = usable_device(device)
        resident = ResidentPictures(self.data, target, positive=self._uses_positives)
        return self._with(data=resident, device=target)

    def loader(
        self,
        num_workers: int = 0,
        *,
        start: int | None = None,
        pin_memory: bool | None = None,
        prefetch_factor: int | None = None,
        multiprocessing_context: Any = None,
    ) -> DataLoader[PairBatch]:
        """Return a DataLoader that yields this stream's batches in order, endlessly.

        Args:
            num_workers: processes that match and decode; 0 does it in this one.
            start: the first step; None: where this stream starts.
            pin_memory: whether batches are put in page-locked memory; None: where there is a CUDA device to send
                them to.
            prefetch_factor: batches that a worker makes in advance; None for the DataLoader's own choice.
            multiprocessing_context: how workers are started: "fork", "spawn", "forkserver", or None for the default.

        Raises:
            TypeError: if a count is no integer.
            ValueError: if a count is too small, or pictures are on a GPU and workers are asked for: they would not
                share it.
        """
        check_workers(num_workers, prefetch_factor)
        stream = self if start is None else self.from_step(start)
        if num_workers and self.device.type != "cpu":
            raise ValueError(f"pictures on {self.device} are served without workers; use num_workers=0")
        return DataLoader(
            stream,
            batch_size=None,
            num_workers=num_workers,
            pin_memory=self._pins(pin_memory),
            prefetch_factor=prefetch_factor,
            multiprocessing_context=multiprocessing_context,
        )

    def _pins(self, pin_memory: bool | None) -> bool:
        return torch.cuda.is_available() and self.device.type == "cpu" if pin_memory is None else pin_memory

    _uses_positives = False

    @abstractmethod
    def _draw(self, number: int) -> PairBatch:
        """Return a batch before the transform: pictures where they are, the rest on the CPU."""

    def _finished(self, drawn: PairBatch) -> PairBatch:
        """Return a batch after the transform, all on one device."""
        if self.transform is not None:
            drawn = replace(drawn, x=self.transform(drawn.x), x_pos=self.transform(drawn.x_pos))
            if not (isinstance(drawn.x, Tensor) and isinstance(drawn.x_pos, Tensor)):
                raise TypeError(f"the transform makes {type(drawn.x).__name__} of pictures; expected a tensor")
        return drawn.to(drawn.x.device)

    def _pictures(self, rows: Tensor, *, positive: bool = False) -> Tensor:
        """Return the (B, 3, H, W) uint8 pictures of (B,) rows, channels last in memory."""
        return self.data.pixels(rows, positive=positive).permute(0, 3, 1, 2)

    def _latents(self, rows: Tensor) -> Tensor:
        """Return the (B, d) latents of (B,) rows."""
        return self.data.latents.index_select(0, rows)  # indexing with [] wakes all threads for a few kB

    def _anchors(self, number: int) -> Tensor:
        """Return (batch_size,) rows, drawn uniformly: stored latents follow the marginal already."""
        return torch.randint(len(self.data), (self.batch_size,), generator=self._generator("anchors", number))

    def _generator(self, purpose: str, number: int) -> torch.Generator:
        return torch_generator(self.seed, f"pairs/{purpose}", number)

    def _with(self, **changes: Any) -> Self:
        changed = copy.copy(self)
        vars(changed).update(changes)
        return changed


def check_workers(num_workers: int, prefetch_factor: int | None) -> None:
    """Raise TypeError or ValueError unless workers and prefetched batches are counts that a DataLoader can use."""
    check_count(num_workers, "num_workers", 0)
    if prefetch_factor is not None:
        check_count(prefetch_factor, "prefetch_factor", 1)
