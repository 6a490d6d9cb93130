"""Training the runs of an experiment side by side within a budget, with scores on the way and checkpoints.

First come the budgets: "paper", "quick" and a number of seconds. :func:`train` trains all runs of an experiment as one
set of tensors (:class:`Runs`), on pools of pairs that depend on the seed of a run alone (:class:`PairPools`), and
scores them on latents that no run is trained on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from baselines.losses import Loss, SupervisedMSE
from baselines.synthetic.experiments import Experiment
from baselines.synthetic.networks import Initialisation, MixingNetwork, StackedEncoder
from baselines.training.checkpoint import DivergedError, load_checkpoint, load_optimiser, load_state, save_checkpoint
from baselines.training.evaluation import score_factors
from baselines.training.progress import Schedule
from ident3d.metrics import plain_factors
from ident3d.progress import ProgressBar
from ident3d.randomness import torch_generator

__all__ = [
    "EVALUATION_LATENTS",
    "PAPER",
    "PAPER_ANINFONCE",
    "QUICK",
    "QUICK_ANINFONCE",
    "Budget",
    "HiddenPrecision",
    "PairPools",
    "RunScores",
    "Runs",
    "TrainingProgress",
    "parse_budget",
    "score_observations",
    "score_runs",
    "train",
]

EVALUATION_LATENTS = 4096
"""Number of latents that each run is scored on."""

_PROTOCOL = "paper"
_POOL_PAIRS = {"cpu": 2**14, "cuda": 2**19}  # pairs of a run drawn at once: what a cache holds; what keeps a GPU busy
_SAVE_SECONDS = 60.0
_WARM_UP_STEPS = 3  # eager steps before a CUDA graph is captured, as torch's documentation asks

HiddenPrecision = Literal["float32", "bfloat16", "auto"]


@dataclass(frozen=True)
class Budget:
    """Size and training of an experiment.

    Attributes:
        name: name of the budget, part of the path of results.
        dim: number of latents.
        batch: pairs in a batch; the other anchors of the batch are the negatives.
        steps: optimiser steps; None if the time is limited.
        seconds: training time of an experiment, all its runs together; None if the steps are limited.
        learning_rate: learning rate of Adam for the encoder.
        scalar_learning_rate: learning rate of Adam for the logarithm of the box's size and for Lambda.
        decay: whether the learning rates rise over the first 2% of the training and fall to 0 along a cosine; constant
            otherwise.
        initialisation: initial weights of the encoders; see :class:`~baselines.synthetic.networks.StackedEncoder`.
        evaluations: number of evaluations during training.
        hidden_precision: data type of the encoder's hidden layers; "auto" is bfloat16 if it is native to the device.
    """

    name: str
    dim: int
    batch: int
    steps: int | None
    seconds: float | None
    learning_rate: float
    scalar_learning_rate: float
    decay: bool
    initialisation: Initialisation
    evaluations: int
    hidden_precision: HiddenPrecision

    def __post_init__(self) -> None:
        if self.dim < 2 or self.batch < 2:
            raise ValueError(f"a budget has dim >= 2 and a batch of 2 pairs or more, not {self.dim} and {self.batch}")
        if (self.steps is None) == (self.seconds is None):
            raise ValueError("a budget has either steps or seconds")
        for name in ("steps", "seconds", "learning_rate", "scalar_learning_rate", "evaluations"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} of a budget is positive and finite, not {value}")

    def adjusted(
        self,
        *,
        dim: int | None = None,
        batch: int | None = None,
        learning_rate: float | None = None,
        scalar_learning_rate: float | None = None,
        hidden_precision: HiddenPrecision | None = None,
    ) -> Budget:
        """Return the same budget with the settings that are not None changed.

        Another number of latents becomes part of its name.
        """
        moved = dim is not None and dim != self.dim
        return replace(
            self,
            name=f"{self.name}-{dim}-latents" if moved else self.name,
            dim=self.dim if dim is None else dim,
            batch=self.batch if batch is None else batch,
            learning_rate=self.learning_rate if learning_rate is None else learning_rate,
            scalar_learning_rate=self.scalar_learning_rate if scalar_learning_rate is None else scalar_learning_rate,
            hidden_precision=self.hidden_precision if hidden_precision is None else hidden_precision,
        )

    def limited(self, seconds: float) -> Budget:
        """Return the same budget with limited time in place of steps, and 40 evaluations.

        Args:
            seconds: training time of an experiment.

        Raises:
            ValueError: if the time is not positive and finite, or the budget already limits it.
        """
        if self.steps is None:
            raise ValueError(
                f"the budget {self.name} already ends after {self.seconds:g} seconds; give that or a limit"
            )
        return replace(self, name=f"{self.name}-{seconds:g}s", steps=None, seconds=seconds, evaluations=40)

    def rate(self, progress: float) -> float:
        """Return the factor on the learning rates at a fraction ``progress`` of the training."""
        if not self.decay:
            return 1.0
        return min(1.0, (progress + 1e-4) / 0.02) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    def hidden_type(self, device: torch.device) -> torch.dtype:
        """Return the data type of the hidden layers on ``device``."""
        if self.hidden_precision == "auto":
            native = (
                torch.cuda.is_bf16_supported(including_emulation=False)
                if device.type == "cuda"
                else device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001 - torch has no public question for it
            )
            return torch.bfloat16 if native else torch.float32
        return torch.bfloat16 if self.hidden_precision == "bfloat16" else torch.float32


PAPER = Budget(
    name="paper",
    dim=10,
    batch=6144,
    steps=300_000,
    seconds=None,
    learning_rate=1e-4,
    scalar_learning_rate=1e-4,
    decay=False,
    initialisation="torch",
    evaluations=100,
    hidden_precision="float32",
)
"""Appendix A.3, for a GPU: one learning rate for all parameters."""

PAPER_ANINFONCE = replace(PAPER, scalar_learning_rate=1e-3)
"""The paper's budget where Lambda is learned: its rate is that of AnInfoNCE's published code."""

QUICK = Budget(
    name="quick",
    dim=4,
    batch=512,
    steps=2000,
    seconds=None,
    learning_rate=3e-3,
    scalar_learning_rate=7e-3,
    decay=True,
    initialisation="he",
    evaluations=20,
    hidden_precision="auto",
)
"""A minute or two per row on two cores.

The scalar learning rate is for the learned size of a box, and only rates near this one work. At 3e-3 the box stays so
small for so long that the cubed distances of row 2 of Table 2 hardly tell pairs apart, and its embeddings collapse. At
1e-2 it outgrows the embeddings of row 5, and at 2e-2 those of row 4 too, which can then rotate in it.
"""

QUICK_ANINFONCE = replace(QUICK, scalar_learning_rate=3e-2)
"""The quick budget where Lambda is learned."""

_SECONDS = replace(QUICK, dim=10, batch=1024, learning_rate=1e-3, scalar_learning_rate=3e-3, evaluations=40)

# Each without and with a learned Lambda.
_TIMED = (_SECONDS, replace(_SECONDS, scalar_learning_rate=QUICK_ANINFONCE.scalar_learning_rate))
_NAMED = {"paper": (PAPER, PAPER_ANINFONCE), "quick": (QUICK, QUICK_ANINFONCE)}


def parse_budget(text: str, *, learns_precision: bool = False) -> Budget:
    """Return the budget that a command line names.

    Args:
        text: "paper", "quick", or a number of seconds: ten latents for that long, whatever machine it is.
        learns_precision: whether it is for experiments that learn Lambda.

    Raises:
        ValueError: if it is not one of these.
    """
    if text in _NAMED:
        return _NAMED[text][learns_precision]
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(f"a budget is {', '.join(_NAMED)} or a number of seconds, not {text!r}") from None
    return replace(_TIMED[learns_precision], name=f"{seconds:g}s", steps=None, seconds=seconds)


def train(
    experiment: Experiment,
    seeds: Sequence[int],
    budget: Budget,
    device: torch.device,
    *,
    checkpoint: Path | None = None,
    label: str = "training",
) -> tuple[RunScores, ...]:
    """Train one run for each seed, and return the scores on the way.

    Args:
        experiment: the experiment.
        seeds: one per run; all different.
        budget: the budget.
        device: device to train on.
        checkpoint: file of the checkpoint, written once a minute and at the end, and resumed from; None for no
            checkpoint.
        label: text before the progress bar.

    Returns:
        Scores, from step 0 to the end.

    Raises:
        ValueError: if there are no seeds, or duplicated ones.
        DivergedError: if a run diverges.
        Ident3DError: if the checkpoint is damaged or of another training.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"expected one or more seeds, all different, not {list(seeds)}")
    runs, progress = Runs(experiment, seeds, budget, device), TrainingProgress(budget)
    identity = {"experiment": experiment.description, "seeds": list(seeds), "budget": asdict(budget)}
    if checkpoint is not None and checkpoint.exists():
        state = load_checkpoint(checkpoint, identity)
        runs.load(state["runs"], str(checkpoint))
        progress.load(state["progress"])

    def keep() -> None:
        if checkpoint is not None:
            save_checkpoint(checkpoint, identity, {"runs": runs.state(), "progress": progress.state()})

    steps = max(1, _POOL_PAIRS.get(device.type, _POOL_PAIRS["cuda"]) // budget.batch)
    pairs = PairPools(experiment, seeds, budget.batch, steps, device)
    saved = time.monotonic()
    with ProgressBar(100, unit="%", label=label, shown={"r2": "R2", "mcc": "MCC"}, stays=False) as bar:
        while True:
            position = progress.position
            share = progress.schedule.share(position)
            if progress.are_scores_due(position):
                progress.record(_scores_now(runs, progress), position)
                bar.reach(int(100 * share))
                bar.show({metric: fmean(progress.history[-1].mean(metric)) for metric in ("r2", "mcc")})
            if share >= 1:
                break
            if time.monotonic() - saved > _SAVE_SECONDS:
                keep()
                saved = time.monotonic()
            runs.step(pairs.batch_of(progress.step), budget.rate(share))
            progress.step += 1
    keep()
    return tuple(progress.history)


@dataclass(frozen=True)
class RunScores:
    """The scores of S runs at one step.

    Attributes:
        step: optimiser steps done.
        seconds: training time so far, all runs together.
        loss: (S,) loss of each run on the last batch, in nats; NaN before the first step.
        r2: (S, dim) R2 up to affine maps, per factor.
        mcc: (S, dim) correlation of each factor with its embedding dimension.
        precision: (S, dim) learned Lambda of AnInfoNCE; None for other losses.
    """

    step: int
    seconds: float
    loss: tuple[float, ...]
    r2: tuple[tuple[float, ...], ...]
    mcc: tuple[tuple[float, ...], ...]
    precision: tuple[tuple[float, ...], ...] | None = None

    def mean(self, metric: str) -> tuple[float, ...]:
        """Return each run's mean over factors of "r2" or "mcc"."""
        return tuple(float(np.mean(run)) for run in getattr(self, metric))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "step": self.step,
            "seconds": round(self.seconds, 2),
            "loss": [None if math.isnan(value) else round(value, 6) for value in self.loss],
            "r2": [_rounded(run) for run in self.r2],
            "mcc": [_rounded(run) for run in self.mcc],
            "precision": None if self.precision is None else [_rounded(run) for run in self.precision],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunScores:
        """Return the scores that :meth:`to_json` gave."""
        nested = {key: _tuples(data[key]) for key in ("r2", "mcc", "precision")}
        loss = tuple(math.nan if value is None else value for value in data["loss"])
        return cls(step=data["step"], seconds=data["seconds"], loss=loss, **nested)


def score_observations(experiment: Experiment, seeds: Sequence[int]) -> RunScores:
    """Return the scores of the observations themselves, which show how strongly the latents are mixed."""
    latents = _evaluated_latents(experiment, seeds)
    scores = score_runs(latents, MixingNetwork(seeds, experiment.dim)(latents))
    return RunScores(0, 0.0, (math.nan,) * len(seeds), **scores)


def score_runs(latents: Tensor, embeddings: Tensor) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Score embeddings of S runs against their latents, by the paper's protocol.

    Args:
        latents: (S, N, dim).
        embeddings: (S, N, d).

    Returns:
        "r2" and "mcc", each (S, dim): a number for every factor of every run.

    Raises:
        ValueError: if an embedding is not finite: the run has diverged.
    """
    factors = plain_factors(latents.shape[-1])
    runs = [score_factors(z, h, factors=factors, protocol=_PROTOCOL) for z, h in zip(latents, embeddings, strict=True)]
    return {metric: tuple(tuple(scores[metric].values()) for scores in runs) for metric in ("r2", "mcc")}


class Runs:
    """S runs of an experiment as one set of tensors with a leading axis of runs.

    Their losses are added, so no gradient passes from one run to another, and Adam works per parameter: each run is the
    same as alone. On a CUDA device the whole step is one graph, replayed without launching its parts.

    Args:
        experiment: the experiment.
        seeds: one per run.
        budget: the budget.
        device: device to train on.
    """

    def __init__(self, experiment: Experiment, seeds: Sequence[int], budget: Budget, device: torch.device) -> None:
        self.experiment = experiment
        self.device = device
        self.mixing = MixingNetwork(seeds, experiment.dim, device)
        self.encoder = StackedEncoder(
            seeds,
            experiment.dim,
            experiment.model_space,
            hidden_type=budget.hidden_type(device),
            initialisation=budget.initialisation,
        ).to(device)
        self.losses = nn.ModuleList(_loss(experiment) for _ in seeds).to(device)
        self._rates, self._optimiser = self._build_optimiser(budget)
        self._last_losses = torch.full((len(seeds),), math.nan, device=device)
        self._step: Callable[[Tensor], None] = self._train_on
        self._eager_steps = 0
        self._evaluated = _evaluated_latents(experiment, seeds)

    def step(self, latents: Tensor, rate: float) -> None:
        """Take one optimiser step.

        Args:
            latents: (S, 2, B, dim) anchors and positives; (S, 1, B, dim) anchors where the runs are supervised.
            rate: the factor on the learning rates.
        """
        for group, base in zip(self._optimiser.param_groups, self._rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(base * rate)
            else:
                group["lr"] = base * rate
        if self.device.type == "cuda" and self._step == self._train_on:
            self._step_before_capture(latents)
        else:
            self._step(latents)

    @torch.no_grad()
    def scores(self) -> dict[str, tuple[tuple[float, ...], ...]]:
        """Return R2 and MCC per factor on latents that no run is trained on."""
        return score_runs(self._evaluated, self.encoder(self.mixing(self._evaluated.to(self.device))).cpu())

    def last_losses(self) -> tuple[float, ...]:
        """Return each run's loss on the last batch."""
        return tuple(self._last_losses.tolist())

    def precision(self) -> tuple[tuple[float, ...], ...] | None:
        """Return the learned Lambda of each run; None if the loss has none."""
        learned = (cast("Loss", loss).precision for loss in self.losses)
        return tuple(tuple(precision.tolist()) for precision in learned if precision is not None) or None

    def state(self) -> dict[str, Any]:
        """Return everything that a resumed training needs."""
        return {
            "encoder": self.encoder.state_dict(),
            "losses": self.losses.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }

    def load(self, state: dict[str, Any], source: str = "a state") -> None:
        """Load a state, before the first step.

        Args:
            state: what :meth:`state` returned.
            source: where it comes from, for messages.

        Raises:
            ValueError: if it is of other networks.
        """
        load_state(self.encoder, state["encoder"], f"the encoders in {source}")
        load_state(self.losses, state["losses"], f"the losses in {source}")
        load_optimiser(self._optimiser, state["optimiser"], f"the optimiser in {source}")

    def _build_optimiser(self, budget: Budget) -> tuple[list[float], torch.optim.Adam]:
        own = [*self.losses.parameters(), *self.encoder.outputs.parameters()]
        scalars = [parameter for parameter in own if parameter.requires_grad]
        groups = [([*self.encoder.weights, *self.encoder.biases], budget.learning_rate)]
        groups += [(scalars, budget.scalar_learning_rate)] if scalars else []
        on_cuda = self.device.type == "cuda"  # there a graph reads the rates from the device
        optimiser = torch.optim.Adam(
            [
                {"params": members, "lr": torch.tensor(rate, device=self.device) if on_cuda else rate}
                for members, rate in groups
            ],
            fused=True,
            capturable=on_cuda,
        )
        return [rate for _, rate in groups], optimiser

    def _train_on(self, latents: Tensor) -> None:
        runs, views, batch, dim = latents.shape
        embeddings = self.encoder(self.mixing(latents.view(runs, views * batch, dim))).view(runs, views, batch, dim)
        targets = latents[:, 0] if self.experiment.objective is None else embeddings[:, -1]
        pairs = zip(self.losses, embeddings[:, 0], targets, strict=True)
        losses = torch.stack([loss(anchors, target) for loss, anchors, target in pairs])
        self._optimiser.zero_grad(set_to_none=True)
        losses.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._optimiser.step()
        self._last_losses.copy_(losses.detach())

    def _step_before_capture(self, latents: Tensor) -> None:
        """Take an eager step on a stream of its own; after the last of them, capture the step as a CUDA graph."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # likewise
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._train_on(latents)
        torch.cuda.current_stream().wait_stream(side)
        self._eager_steps += 1
        if self._eager_steps < _WARM_UP_STEPS:
            return
        held, graph = latents.clone(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._train_on(held)

        def replay(given: Tensor) -> None:
            held.copy_(given)
            graph.replay()

        self._step = replay


class PairPools:
    """Pools of batches of latents for each of S runs.

    Rejection samplers make a step wait for the device, and many small draws cost more than a large one. So the pairs of
    many steps are drawn at once, and a step only takes a slice. Pool i of a run depends on (its seed, i) only: runs are
    the same alone and side by side, and when they are resumed.

    Args:
        experiment: the experiment; if it is supervised, only anchors are drawn.
        seeds: one per run.
        batch: pairs in a batch.
        steps: batches in a pool.
        device: device of the pools.
    """

    def __init__(
        self, experiment: Experiment, seeds: Sequence[int], batch: int, steps: int, device: torch.device
    ) -> None:
        self.experiment = experiment
        self.seeds = tuple(seeds)
        self.batch = batch
        self.steps = steps
        self.device = device
        self._held: tuple[int, Tensor] | None = None

    def batch_of(self, step: int) -> Tensor:
        """Return the (S, V, B, dim) float32 latents of a step: V is 2, anchors and positives, or 1, anchors."""
        index, offset = divmod(step, self.steps)
        if self._held is None or self._held[0] != index:
            self._held = (index, self._draw(index))
        return self._held[1][offset]

    def _draw(self, index: int) -> Tensor:
        """Return (steps, S, V, B, dim)."""
        process, rows = self.experiment.process, self.steps * self.batch
        draw = process.pairs if self.experiment.objective is not None else process.anchors
        runs = []
        for seed in self.seeds:
            generator = torch_generator(seed, "synthetic/pairs", index, device=self.device)
            drawn = draw(rows, generator)
            runs.append(drawn.reshape(self.steps, self.batch, *drawn.shape[1:]).transpose(1, 2))
        return torch.stack(runs, dim=1).contiguous()


class TrainingProgress:
    """Steps and seconds done, the scores so far, and when the next ones are due.

    Args:
        budget: the budget.

    Attributes:
        step: optimiser steps done.
        history: the scores so far.
    """

    def __init__(self, budget: Budget) -> None:
        self.schedule = Schedule(budget.steps or budget.seconds or math.nan)
        self.step = 0
        self.history: list[RunScores] = []
        self._by_steps = budget.steps is not None
        self._interval = self.schedule.length / budget.evaluations
        self._scored_at = -self._interval
        self._seconds_before = 0.0
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the training and its evaluations, those before a resumption included."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def position(self) -> float:
        """The position in the training, in the unit of its budget: steps or seconds."""
        return self.step if self._by_steps else self.seconds

    def are_scores_due(self, position: float) -> bool:
        """Return whether the runs should be scored here: at the start, at the end, and evenly between."""
        return self.schedule.is_due(self._interval, position, self._scored_at)

    def record(self, scores: RunScores, position: float) -> None:
        """Keep the scores of this position."""
        self.history.append(scores)
        self._scored_at = position

    def state(self) -> dict[str, Any]:
        """Return everything that a resumed training needs, as plain data."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "looked": self._scored_at / self._interval,
            "history": [scores.to_json() for scores in self.history],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Load the state of an earlier training."""
        self.step = state["step"]
        self.history = [RunScores.from_json(scores) for scores in state["history"]]
        self._scored_at = state["looked"] * self._interval
        self._seconds_before = state["seconds"]
        self._started = time.monotonic()


def _scores_now(runs: Runs, progress: TrainingProgress) -> RunScores:
    try:
        scores = runs.scores()
    except ValueError as error:
        raise DivergedError(
            f"a run diverged before step {progress.step} ({error}); a smaller learning rate may help"
        ) from error
    return RunScores(progress.step, progress.seconds, runs.last_losses(), **scores, precision=runs.precision())


def _loss(experiment: Experiment) -> Loss:
    if experiment.objective is None:
        return SupervisedMSE()
    loss = experiment.objective.loss(experiment.dim)
    if not isinstance(loss, Loss):
        raise TypeError(
            f"the loss of {experiment.objective.label} is a {type(loss).__name__}; derive it from baselines.losses.Loss"
        )
    return loss


def _evaluated_latents(experiment: Experiment, seeds: Sequence[int]) -> Tensor:
    """Return the (S, N, dim) latents that runs are scored on, always the same."""
    generators = [torch_generator(seed, "synthetic/evaluation") for seed in seeds]
    return torch.stack([experiment.process.latents(EVALUATION_LATENTS, drawn) for drawn in generators])


def _rounded(values: tuple[float, ...]) -> list[float]:
    return [round(value, 6) for value in values]


def _tuples(data: Any) -> Any:
    return tuple(_tuples(item) for item in data) if isinstance(data, list) else data
