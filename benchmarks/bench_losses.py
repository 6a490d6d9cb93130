"""Time and memory of the losses against the published form, forward and backward, on one device.

The published form is re-implemented here: a B x B x d tensor of differences, then ``torch.norm(..., p).pow(p)`` as the
papers' code has it. For p = 1 and p = 3 the same cost as ``abs().pow(p).sum()`` is quicker, and is used instead; so
every ratio is to the quickest form. For the dot product it is a dense B x B matrix: there ours does the same
arithmetic, and only spares the memory. Both are timed in turn in one run, on a CPU in its time over all threads, that
of the system included; with one thread, what else the machine does changes it least. Peak
memory is that of a process of its own for each.

Usage: ``python -m benchmarks.bench_losses [--batch 6144] [--dim 10] [--repeats 3] [--device cpu]``
"""

import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import tyro
from torch import Tensor

from baselines.losses import delta_info_nce, info_nce

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Options:
    """What to measure."""

    batch: int = 6144
    """Pairs in a batch."""
    dim: int = 10
    """Dimensions of an embedding."""
    repeats: int = 3
    """Timed repetitions; the median counts."""
    device: str = "cpu"
    """Where to run."""
    threads: int = 0
    """Threads on the CPU; 0 leaves the choice to torch. One is fair where others use the machine too."""


def _published(p: float) -> Loss:
    def cost(differences: Tensor) -> Tensor:
        if p == 2:
            return torch.norm(differences, p=p, dim=-1).pow(p)
        return differences.abs().pow(p).sum(-1)

    def loss(z: Tensor, z_pos: Tensor) -> Tensor:
        costs = cost(z.unsqueeze(1) - z.unsqueeze(0))
        costs = costs.masked_fill(torch.eye(len(z), dtype=torch.bool, device=z.device), torch.inf)
        positive = cost(z - z_pos)
        return (positive + torch.logsumexp(torch.cat([-positive.unsqueeze(1), -costs], 1), 1)).mean()

    return loss


def _dense_dot(z: Tensor, z_pos: Tensor) -> Tensor:
    dots = (z @ z.T).masked_fill(torch.eye(len(z), dtype=torch.bool, device=z.device), -torch.inf)
    positive = (z * z_pos).sum(-1)
    return (torch.logsumexp(torch.cat([positive.unsqueeze(1), dots], 1), 1) - positive).mean()


def _delta(p: float, *, metric: bool = False) -> Loss:
    def loss(z: Tensor, z_pos: Tensor) -> Tensor:
        return delta_info_nce(z, z_pos, p=p, metric=metric)

    return loss


CASES: dict[str, tuple[Loss, Loss]] = {
    "InfoNCE, dot product": (info_nce, _dense_dot),
    "delta-InfoNCE, p = 1": (_delta(1), _published(1)),
    "delta-InfoNCE, p = 2": (_delta(2), _published(2)),
    "delta-InfoNCE, p = 3": (_delta(3), _published(3)),
}


def _batch(options: Options) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.rand(options.batch, options.dim, generator=generator) * 2 - 1
    z_pos = z + 0.1 * torch.randn(z.shape, generator=generator)
    return z.to(options.device).requires_grad_(), z_pos.to(options.device).requires_grad_()


def _seconds(loss: Loss, z: Tensor, z_pos: Tensor) -> float:
    z.grad = z_pos.grad = None
    clock = time.perf_counter if z.is_cuda else time.process_time
    start = clock()
    loss(z, z_pos).backward()  # type: ignore[no-untyped-call]
    if z.is_cuda:
        torch.cuda.synchronize()
    return clock() - start


def _measure_memory(options: Options, name: str, which: int, results: Any) -> None:
    z, z_pos = _batch(options)
    if options.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        _seconds(CASES[name][which], z, z_pos)
        results.put((torch.cuda.max_memory_allocated() - before) / 2**20)
        return
    # A small batch first, so that what the libraries take is not counted.
    _seconds(CASES[name][which], z[:64].detach().requires_grad_(), z_pos[:64].detach().requires_grad_())
    unit = 2**20 if sys.platform == "darwin" else 2**10
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _seconds(CASES[name][which], z, z_pos)
    results.put((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / unit)


def _peak_mib(options: Options, name: str, which: int) -> float:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    process = context.Process(target=_measure_memory, args=(options, name, which, results))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"measuring the memory of {name} ended with status {process.exitcode}")
    return float(results.get())


def main(options: Options) -> None:
    """Print the table."""
    if options.threads:
        torch.set_num_threads(options.threads)
    # Memory first: a new process starts with its parent's peak, which the timing would raise.
    memory = {name: [_peak_mib(options, name, which) for which in (0, 1)] for name in CASES}
    z, z_pos = _batch(options)
    print(
        f"B = {options.batch}, d = {options.dim}, float32, forward and backward, {options.device}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}"
    )
    print("| loss | ours, s | published, s | faster | ours, MiB | published, MiB |")
    print("|---|---|---|---|---|---|")
    for name, (ours, theirs) in CASES.items():
        _seconds(ours, z, z_pos)  # warm up
        pairs = [(_seconds(ours, z, z_pos), _seconds(theirs, z, z_pos)) for _ in range(options.repeats)]
        fast, slow = (statistics.median(column) for column in zip(*pairs, strict=True))
        small, large = memory[name]
        print(f"| {name} | {fast:.3f} | {slow:.2f} | {slow / fast:.1f}x | {small:.0f} | {large:.0f} |")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
