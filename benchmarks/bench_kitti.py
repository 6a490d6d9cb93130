"""Pairs of frames a second, beside the published loader, in CPU time.

Run as ``make bench-kitti``. The published loader keeps one bool array a pedestrian, makes float32 frames of (1, 64, 64)
one pair at a time, and stacks them into a batch. Ours are served as float32 too. Both run in this process, on one
thread, on the same walkers.
"""

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from ident3d import FramePairs, walkers
from ident3d.kitti import MaskSequences

WALKERS = 250
BATCH = 32
MAX_DELTA = 5
SECONDS = 5.0

Item = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float32]]


class PublishedPairs(Dataset[Item]):
    """One pair at a time, as the published loader makes it."""

    def __init__(self, data: MaskSequences, max_delta: int) -> None:
        masks = data.pixels(torch.arange(len(data)))[..., 0].numpy() > 0
        ends = np.cumsum(data.lengths.numpy())[:-1]
        self.masks = np.split(masks, ends)
        self.latents = np.split(data.latents.numpy(), ends)
        self.ends = np.cumsum([len(sequence) - 1 for sequence in self.masks])
        self.max_delta = max_delta
        self._random = np.random.default_rng(0)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> Item:
        number = int(np.searchsorted(self.ends, index, side="right"))
        masks, latents = self.masks[number], self.latents[number]
        first = index - (int(self.ends[number - 1]) if number else 0)
        second = min(first + int(self._random.integers(1, self.max_delta + 1)), len(masks) - 1)
        frames = [(masks[frame].astype(np.uint8) * 255)[None].astype(np.float32) / 255.0 for frame in (first, second)]
        return frames[0], frames[1], latents[first], latents[second]


def stacked(items: list[Item]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return frames and latents of pairs as two tensors, anchor and positive in turn."""
    frames = [frame for item in items for frame in item[:2]]
    latents = [values for item in items for values in item[2:]]
    return torch.tensor(np.stack(frames)), torch.tensor(np.stack(latents))


def pairs_per_cpu_second(serve: Callable[[], int]) -> float:
    """Return how many pairs are served in a CPU second; ``serve`` makes one batch and returns its pairs."""
    serve()
    served, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        served += serve()
    return served / (time.process_time() - start)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    data = walkers(WALKERS)
    published = DataLoader(PublishedPairs(data, MAX_DELTA), BATCH, shuffle=True, drop_last=True, collate_fn=stacked)
    batches = iter(published)

    def serve_published() -> int:
        nonlocal batches
        batch = next(batches, None)
        if batch is None:
            batches = iter(published)
            batch = next(batches)
        return len(batch[0]) // 2

    ours = iter(FramePairs(data, MAX_DELTA, BATCH, dtype=torch.float32))
    theirs = pairs_per_cpu_second(serve_published)
    found = pairs_per_cpu_second(lambda: len(next(ours)))
    print(f"{len(data):,} frames of {WALKERS} walkers, batches of {BATCH} pairs, float32, CPU time of one thread")
    print(f"published loader {theirs:>12,.0f} pairs a second")
    print(f"FramePairs       {found:>12,.0f} pairs a second, {found / theirs:.1f} times")


if __name__ == "__main__":
    main()
