"""Where the images of a training are kept: all in the device's memory, or read and decoded as they are asked for."""

from __future__ import annotations

import copy
import logging
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from baselines.training.options import Images
from baselines.training.placement import Placement
from ident3d.pairs import RenderedPairs, StoredPairs

__all__ = ["Serving", "choose_serving", "free_memory", "needed_memory", "step_memory"]

_LOG = logging.getLogger("ident3d.baselines")

_WORKSPACE = 1 << 30  # of libraries, and what an allocator cannot use
_TRANSIENT = 1.15  # of what a step keeps: the gradients that are on their way, and an evaluation
_COPIES_OF_WEIGHTS = 5  # weights, gradients, Adam's two moments, and weights in half precision
_LOCKED = 1.3  # threads that take this many times their share of CPU time get in each other's way
_COUNTED = (2, 4)  # images that a step's memory is counted on


@dataclass(frozen=True)
class Serving:
    """How images reach a training.

    Attributes:
        resident: whether all images are decoded once, into the device's memory.
        workers: processes that decode images that are not resident; 0: threads of this process do.
        reason: why, in a sentence for the log.
    """

    resident: bool
    workers: int
    reason: str


def step_memory(encoder: nn.Module, images: int, resolution: int, *, half: bool) -> int:
    """Estimate the bytes that a training step takes beside its images, without taking one.

    What autograd keeps of the forward pass is counted on a copy of the encoder and a few images on the CPU, and grows
    with their number; weights are there five times.

    Args:
        encoder: the encoder, on the CPU; it stays as it is.
        images: images in a step of this process.
        resolution: their pixels a side.
        half: whether the encoder computes in bfloat16.
    """
    tried = copy.deepcopy(encoder).train().to(memory_format=torch.channels_last)
    few, more = (_kept(tried, count, resolution, half=half) for count in _COUNTED)
    activations = (more - few) / (_COUNTED[1] - _COUNTED[0]) * images
    weights = sum(parameter.nbytes for parameter in encoder.parameters())
    return math.ceil(_TRANSIENT * activations + _COPIES_OF_WEIGHTS * weights) + _WORKSPACE


def _kept(encoder: nn.Module, images: int, resolution: int, *, half: bool) -> int:
    """Return the bytes that autograd keeps of a forward pass, views counted once."""
    storages: dict[int, tuple[int, Tensor]] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes(), tensor  # kept, so that no other comes to its place
        return tensor

    batch = torch.rand(images, 3, resolution, resolution, generator=torch.Generator().manual_seed(0))
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=half),
    ):
        encoder(batch.to(memory_format=torch.channels_last))
    return sum(size for size, _ in storages.values())


def needed_memory(stream: StoredPairs) -> int:
    """Return the bytes of all images of a stream, and of their positives where those are other images."""
    one = stream.data.pixels(torch.zeros(1, dtype=torch.int64, device="cpu")).nbytes
    return one * len(stream.data) * (2 if isinstance(stream, RenderedPairs) else 1)


def free_memory(device: torch.device) -> int:
    """Return the bytes of a device's memory that are free, those that torch holds in reserve included."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + held
    return min(_available_ram(), _left_of_cgroup())


def _available_ram() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:")))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if hasattr(os, "sysconf") else 0


def _left_of_cgroup() -> int:
    try:
        limit, used = (int(Path("/sys/fs/cgroup", name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # "max" where there is no limit
        return 1 << 62
    return max(0, limit - used)


def choose_serving(stream: StoredPairs, images: Images, placement: Placement, step_bytes: int) -> Serving:
    """Choose how images reach a training, and say in the log what was chosen and why.

    Args:
        stream: the stream of pairs.
        images: what was asked for.
        placement: device and processes, which all choose the same.
        step_bytes: what a training step takes; see :func:`step_memory`.
    """
    serving = _chosen(stream, images, placement, step_bytes)
    if placement.is_first:
        _LOG.info("%s", serving.reason)
    return serving


def _chosen(stream: StoredPairs, images: Images, placement: Placement, step_bytes: int) -> Serving:
    if images.resident == "always":
        return Serving(resident=True, workers=0, reason=f"all images are kept on {placement.device}, as asked for")
    if images.resident == "auto" and placement.device.type == "cpu" and stream.data_layout == "decoded":
        return Serving(resident=False, workers=images.workers or 0, reason="images are read from the decoded cache")
    needed = needed_memory(stream)
    sharers = placement.local_size if placement.device.type == "cpu" else 1
    total, free = sharers * (needed + step_bytes), free_memory(placement.device)
    sums = (
        f"{_gib(needed)} of images and about {_gib(step_bytes)} for a step"
        f"{f', in each of {sharers} processes,' if sharers > 1 else ''} of {_gib(free)} free on {placement.device}"
    )
    if images.resident == "auto" and _all(total <= free, placement):
        return Serving(resident=True, workers=0, reason=f"all images are kept on {placement.device}: {sums}")
    why = f"they would not fit, {sums}" if images.resident == "auto" else "as asked for"
    return _read(stream, images, placement, f"images are not kept in memory, {why}")


def _read(stream: StoredPairs, images: Images, placement: Placement, why: str) -> Serving:
    if images.workers is not None:
        who = f"{images.workers} processes, as asked for" if images.workers else "threads, as asked for"
        return Serving(resident=False, workers=images.workers, reason=f"{why}; batches are made by {who}")
    stream.batch(0)  # opens what is opened once
    wall, busy = time.perf_counter(), time.process_time()
    stream.batch(1)
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    cores = max(1, _usable_cores() // placement.local_size)
    alone = busy / min(cores, torch.get_num_threads())
    measured = f"a batch took {wall:.3f} s here, {busy:.3f} s of CPU time"
    hint = (
        ""
        if stream.data_layout == "decoded"
        else ("; a decoded cache makes it a copy: ident3d convert ROOT ROOT --to decoded")
    )
    if placement.device.type == "cpu" or cores < 3 or wall <= _LOCKED * alone:
        threads = torch.get_num_threads()
        reason = f"{why}; batches are made ahead by up to {threads} threads, because {measured}{hint}"
        return Serving(resident=False, workers=0, reason=reason)
    reason = f"{why}; batches are made ahead by {cores - 1} processes, because {measured} in threads{hint}"
    return Serving(resident=False, workers=cores - 1, reason=reason)


def _all(fits: bool, placement: Placement) -> bool:
    """Return whether it fits in every process; their images are decoded together."""
    if placement.world_size == 1 or not dist.is_initialized():
        return fits
    answer: Any = torch.tensor(int(fits), device=placement.device)
    dist.all_reduce(answer, dist.ReduceOp.MIN)
    return bool(answer.item())


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
