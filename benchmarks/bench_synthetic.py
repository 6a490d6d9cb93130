"""Training steps a second of the synthetic experiments, against the published formulation, in one process.

The published formulation is written anew here from its description: latents drawn with NumPy and redrawn until they lie
in the box, two forward passes in float32, a broadcast (B, B, n) tensor of differences for the loss, the batch's own
anchors as negatives, and a score of 4,096 fresh latents every 250 steps. Both take turns, so that what else the machine
does weighs on both; medians over rounds count. Where other work shares the processor, the clock counts that too, and
the ratio of processor times says more: with one thread, for with two the time that one waits for the other is in it.

Usage: ``python -m benchmarks.bench_synthetic [--dim 10] [--batch 1024] [--threads 2] [--rounds 5] [--steps 4]``
"""

import itertools
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
import tyro
from torch import Tensor, nn

from baselines.synthetic.experiments import Experiment, Power
from baselines.synthetic.networks import draw_weights
from baselines.synthetic.results import provenance
from baselines.synthetic.studies.tables import table1, table2
from baselines.synthetic.training import QUICK, Budget, PairPools, Runs, score_runs
from ident3d.conditionals import GeneralizedNormal, Laplace, Normal

Array = npt.NDArray[np.float64]

_EVERY = 250  # steps between the published code's evaluations


@dataclass(frozen=True)
class Options:
    """What to measure."""

    dim: int = 10
    """Number of latents."""
    batch: int = 1024
    """Pairs in a batch."""
    rounds: int = 5
    """Rounds; in each, every formulation takes its turn."""
    steps: int = 4
    """Steps of a turn."""
    threads: int = 2
    """Threads on the CPU."""


class Published:
    """The published formulation of an experiment in the box with an unbounded model."""

    def __init__(self, experiment: Experiment, batch: int) -> None:
        assumed = experiment.objective
        if not isinstance(assumed, Power):
            raise TypeError(f"only L^p losses are broadcast, not {assumed}")
        dim = experiment.dim
        self.p, self.batch, self.dim = assumed.p, batch, dim
        self.conditional = experiment.process.conditional
        self.random = np.random.default_rng(0)
        self.mixing = _leaky([draw_weights(dim, 0)[layer].float().T for layer in range(3)])
        widths = [dim, dim * 10, *(dim * 50,) * 4, dim * 10, dim]
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), nn.LeakyReLU()]
        self.encoder = nn.Sequential(*layers[:-1])
        self.optimiser = torch.optim.Adam(self.encoder.parameters(), lr=1e-4)

    def step(self) -> None:
        """Take one step."""
        z = self.random.random((self.batch, self.dim))
        z_pos = self._positives(z)
        x, x_pos = (self.mixing(torch.from_numpy(latents).float()) for latents in (z, z_pos))
        self.optimiser.zero_grad()
        self._loss(self.encoder(x), self.encoder(x_pos)).backward()
        self.optimiser.step()

    @torch.no_grad()
    def evaluate(self) -> None:
        """Score fresh latents."""
        z = torch.from_numpy(self.random.random((4096, self.dim))).float()
        score_runs(z[None], self.encoder(self.mixing(z))[None])

    def _positives(self, z: Array) -> Array:
        drawn = z + self._noise(z.shape)
        while (outside := (drawn < 0) | (drawn > 1)).any():
            drawn = np.where(outside, z + self._noise(z.shape), drawn)
        return drawn

    def _noise(self, shape: tuple[int, ...]) -> Array:
        law = self.conditional
        if isinstance(law, Normal):
            return self.random.normal(0.0, float(law.sigma), shape)  # type: ignore[arg-type]  # one width in every row
        if isinstance(law, Laplace):
            return self.random.laplace(0.0, float(law.scale), shape)  # type: ignore[arg-type]  # likewise
        if isinstance(law, GeneralizedNormal):
            size = self.random.gamma(1 / law.p, size=shape) ** (1 / law.p)
            return size * self.random.choice([-1.0, 1.0], size=shape) * float(law.scale)  # type: ignore[arg-type]  # likewise
        raise TypeError(f"no sampler for {law}")

    def _loss(self, z: Tensor, z_pos: Tensor) -> Tensor:
        negative = torch.linalg.vector_norm(z.unsqueeze(0) - z.roll(1, 0).unsqueeze(1), self.p, dim=-1).pow(self.p)
        positive = torch.linalg.vector_norm(z - z_pos, self.p, dim=-1).pow(self.p)
        return (positive + torch.logsumexp(torch.cat([-negative, -positive.unsqueeze(1)], 1), 1)).mean()


class Ours:
    """The formulation of :mod:`baselines.synthetic`."""

    def __init__(self, experiment: Experiment, budget: Budget) -> None:
        device = torch.device("cpu")
        self.runs = Runs(experiment, (0,), budget, device)
        self.pairs = PairPools(experiment, (0,), budget.batch, max(1, 2**14 // budget.batch), device)
        self.taken = 0

    def step(self) -> None:
        """Take one step."""
        self.runs.step(self.pairs.batch_of(self.taken), 1.0)
        self.taken += 1

    def evaluate(self) -> None:
        """Score latents."""
        self.runs.scores()

    def encode(self) -> None:
        """Take the encoder's part of a step alone: forward and backward."""
        latents = self.pairs.batch_of(self.taken)
        self.runs.encoder(self.runs.mixing(latents.flatten(1, 2))).sum().backward()

    def draw(self) -> None:
        """Take the sampler's part of a pool."""
        self.pairs._draw(self.taken)  # noqa: SLF001 - a part on its own


def _leaky(weights: list[Tensor]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for weight in weights:
        layer = nn.Linear(len(weight), len(weight), bias=False).requires_grad_(requires_grad=False)
        layer.weight.copy_(weight)
        layers += [layer, nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


@dataclass(frozen=True)
class Taken:
    """Seconds of a call, by the clock and of the processor."""

    clock: float
    processor: float


def _seconds(call: Callable[[], None], times: int) -> Taken:
    start, worked = time.perf_counter(), time.process_time()
    for _ in range(times):
        call()
    return Taken((time.perf_counter() - start) / times, (time.process_time() - worked) / times)


def _median(rounds: list[tuple[Taken, Taken]]) -> Taken:
    """Return the median of a step with its share of an evaluation."""
    return Taken(
        statistics.median(step.clock + look.clock / _EVERY for step, look in rounds),
        statistics.median(step.processor + look.processor / _EVERY for step, look in rounds),
    )


def _compare(name: str, experiment: Experiment, options: Options) -> None:
    budget = replace(QUICK, dim=options.dim, batch=options.batch)
    full = Ours(experiment, replace(budget, hidden_precision="float32"))
    forms: dict[str, Published | Ours] = {"published": Published(experiment, options.batch), "float32": full}
    if budget.hidden_type(torch.device("cpu")) is torch.bfloat16:
        forms["bfloat16"] = Ours(experiment, replace(budget, hidden_precision="bfloat16"))
    taken: dict[str, list[tuple[Taken, Taken]]] = {form: [] for form in forms}
    for form in forms.values():
        form.step()
    for _ in range(options.rounds):
        for form, timed in forms.items():
            taken[form].append((_seconds(timed.step, options.steps), _seconds(timed.evaluate, 1)))
    medians = {form: _median(rounds) for form, rounds in taken.items()}
    reference = medians["published"]
    print(f"{name}: published {1 / reference.clock:.2f} steps/s, {1000 * reference.processor:.0f} ms of processor time")
    for form, timed in forms.items():
        if not isinstance(timed, Ours):
            continue
        median = medians[form]
        encoder, draw = _seconds(timed.encode, options.steps), _seconds(timed.draw, 1).processor / timed.pairs.steps
        print(
            f"  ours, hidden layers in {form}: {1 / median.clock:.2f} steps/s, "
            f"{reference.clock / median.clock:.1f} times by the clock, "
            f"{reference.processor / median.processor:.1f} times by processor time; "
            f"of a step's {1000 * median.processor:.0f} ms of processor time the encoder takes "
            f"{1000 * encoder.processor:.0f} ({_encoder_flop(options) / encoder.processor / 1e9:.0f} GFLOP/s a core), "
            f"drawing pairs {1000 * draw:.1f}, the rest the loss and the optimiser"
        )


def _encoder_flop(options: Options) -> float:
    widths = [options.dim, options.dim * 10, *(options.dim * 50,) * 4, options.dim * 10, options.dim]
    multiplications = sum(a * b for a, b in itertools.pairwise(widths))
    return 2.0 * 3 * multiplications * 2 * options.batch  # forward and two products backward, two views


def main(options: Options) -> None:
    """Compare the formulations on three losses."""
    torch.set_num_threads(options.threads)
    about = provenance(torch.device("cpu"))
    machine = f"{options.threads} threads, {about['processor']}, load {about['load']}"
    print(f"n = {options.dim}, batch {options.batch}, {machine}")
    rows = {
        "Laplace, p = 1": table2(options.dim)[5],
        "Normal, p = 2": table1(options.dim)[4],
        "GenNorm, p = 3": table2(options.dim)[6],
    }
    for name, row in rows.items():
        _compare(name, row.experiment, options)


if __name__ == "__main__":
    main(tyro.cli(Options))
    sys.exit(0)
