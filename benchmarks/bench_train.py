"""Training steps beside the same steps on a batch that never changes: what the data cost, and where it goes.

Run as ``make bench-train``. A whole step draws pairs, matches them, copies their images and trains on them; the fixed
one trains on one batch over and over. Both take turns in this process, so that both meet the same machine. The ratio is
that of their CPU times, of all threads, which other programs disturb less than wall-clock time: with more cores than
threads, batches are made beside the training, and the ratio of wall-clock times is nearer to 1. What a batch costs is
taken apart below, each part alone.
"""

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro

from baselines.pairs import matching_index
from baselines.recipes import RECIPES
from baselines.training.loop import Batch, Trainer
from baselines.training.objective import TrainedModel, build_encoder, build_loss, build_optimiser
from baselines.training.options import Intervals
from baselines.training.placement import Placement
from baselines.training.progress import Schedule
from ident3d import Normal, PositivePairs, ThreeDIdent

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Bench:
    """Training steps beside the same steps on a batch that never changes."""

    root: str = "sample"
    """Folder of a dataset; "sample" is the one inside the package, of 1,024 images of 64x64."""
    batch_size: int = 64
    """Pairs in a step."""
    steps: int = 4
    """Steps in a turn."""
    turns: int = 5
    """Turns of each kind of step."""
    threads: tuple[int, ...] = (1, 2)
    """Threads of torch."""
    bfloat16: bool = False
    """Whether the encoder computes in bfloat16."""


class Ignored:
    """Takes metrics and drops them."""

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Do nothing."""


class Runner:
    """A training that is timed turn by turn.

    Args:
        bench: what is measured.
        resolution: pixels a side of the images.
        folder: where a checkpoint may go.
    """

    def __init__(self, bench: Bench, resolution: int, folder: Path) -> None:
        recipe = replace(RECIPES["infonce-box"], batch_size=bench.batch_size)
        model = TrainedModel(build_encoder(recipe, 10, resolution, seed=0), build_loss(recipe, 10))
        model.to(memory_format=torch.channels_last)
        placement = Placement(CPU, half=bench.bfloat16)
        self.trainer = Trainer(model, build_optimiser(model, recipe), placement, folder / "checkpoint.pt")
        self.trainer.save = lambda: None  # a checkpoint is written at the end of each turn, and is no part of a step
        self.images = 2 * bench.batch_size * bench.steps
        self.steps = bench.steps

    def turn(self, batches: Iterator[Batch]) -> tuple[float, float]:
        """Return images per second of CPU time and of wall-clock time."""
        end = self.trainer.step + self.steps
        wall, cpu = time.perf_counter(), time.process_time()
        self.trainer.train(batches, Schedule(end, Intervals(end, end, end)), Ignored(), dict)
        return self.images / (time.process_time() - cpu), self.images / (time.perf_counter() - wall)


def cost(function: Callable[[int], object], turns: int) -> float:
    """Return the least CPU time in milliseconds that a function takes for a batch."""
    times = []
    for number in range(turns):
        start = time.process_time()
        function(number)
        times.append(time.process_time() - start)
    return 1000 * min(times)


def main(bench: Bench) -> int:
    """Print rates, ratios, and what a batch costs; return the exit status."""
    data = ThreeDIdent(bench.root)
    resolution = data.pixels([0]).shape[1]
    conditional = Normal(0.1)
    index = matching_index(conditional, data, in_own_metric=False)
    stored = PositivePairs(data, conditional, bench.batch_size, 0, index)
    pairs = stored.on_device(CPU)
    size = f"{resolution}x{resolution}"
    print(f"ResNet18, {size}, {bench.batch_size} pairs a step, {len(data)} images, torch {torch.__version__}")
    print("| threads | whole: images/s of CPU time | fixed batch | ratio (CPU time) | ratio (wall clock) |")
    print("|---|---|---|---|---|")
    steps = []
    for threads in bench.threads:
        torch.set_num_threads(threads)
        with tempfile.TemporaryDirectory() as folder:
            whole, fixed = (Runner(bench, resolution, Path(folder)) for _ in range(2))
            own, same = iter(pairs), itertools.repeat(pairs.batch(0))
            whole.turn(own)
            fixed.turn(same)
            rates = [(whole.turn(own), fixed.turn(same)) for _ in range(bench.turns)]
        cpu, wall = ([(a[k], b[k]) for a, b in rates] for k in (0, 1))
        ratios = [statistics.median(a / b for a, b in kind) for kind in (cpu, wall)]
        best = [max(rate[k] for rate in cpu) for k in (0, 1)]
        print(f"| {threads} | {best[0]:.1f} | {best[1]:.1f} | {ratios[0]:.3f} | {ratios[1]:.3f} |")
        steps.append(2000 * bench.batch_size / best[1])
    torch.set_num_threads(bench.threads[0])
    step = steps[0]
    found = [pairs.match(number) for number in range(bench.turns)]
    parts = {
        "drawing anchors and targets": cost(pairs.draw, bench.turns),
        "drawing and matching": cost(pairs.match, bench.turns),
        "copying decoded images": cost(lambda number: pairs.batch_of(number, found[number]), bench.turns),
        "decoding images instead": cost(lambda number: stored.batch_of(number, found[number]), bench.turns),
    }
    print(f"\nWith {bench.threads[0]} threads a fixed step takes {step:.0f} ms of CPU time; of a batch,")
    for name, milliseconds in parts.items():
        print(f"* {name}: {milliseconds:.2f} ms, {milliseconds / step:.2%} of it")
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Bench, description=__doc__)))
