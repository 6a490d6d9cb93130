"""Runs of one experiment, one a seed, side by side: their networks, their optimiser, and one step of training."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from baselines.losses import AnInfoNCE, SupervisedMSE
from baselines.synthetic.budgets import Budget
from baselines.synthetic.encoder import StackedEncoder
from baselines.synthetic.evaluation import EVALUATION_LATENTS, Snapshot, score_runs
from baselines.synthetic.experiments import Experiment
from baselines.synthetic.mixing import MixingNetwork
from ident3d.randomness import torch_generator

__all__ = ["Runs", "identity_snapshot"]

_WARM_UP_STEPS = 3  # eager steps before a CUDA graph is captured, as torch's documentation asks


class Runs:
    """S runs of an experiment as one set of tensors with a leading axis of runs.

    Their losses are added, so that no gradient passes from one run to another, and Adam works number by number: each
    run is what it would be alone. On a CUDA device the whole step is one graph, replayed without launching its parts.

    Args:
        experiment: what is run.
        seeds: one a run.
        budget: how it is trained.
        device: where.
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
        """Return the R2 and MCC of every factor on latents that no run has trained on."""
        return score_runs(self._evaluated, self.encoder(self.mixing(self._evaluated.to(self.device))).cpu())

    def last_losses(self) -> tuple[float, ...]:
        """Return each run's loss on the last batch."""
        return tuple(self._last_losses.tolist())

    def precision(self) -> tuple[tuple[float, ...], ...] | None:
        """Return each run's learned Lambda, or None where none is learned."""
        learned = [tuple(loss.precision.tolist()) for loss in self.losses if isinstance(loss, AnInfoNCE)]
        return tuple(learned) or None

    def state(self) -> dict[str, Any]:
        """Return all that a resumed training needs."""
        return {
            "encoder": self.encoder.state_dict(),
            "losses": self.losses.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take up a state; before the first step only."""
        self.encoder.load_state_dict(state["encoder"])
        self.losses.load_state_dict(state["losses"])
        # What depends on the device stays this optimiser's own: a training may go on where it did not begin.
        own = [{key: group[key] for key in ("lr", "capturable")} for group in self._optimiser.param_groups]
        groups = [{**held, **kept} for held, kept in zip(state["optimiser"]["param_groups"], own, strict=True)]
        self._optimiser.load_state_dict({**state["optimiser"], "param_groups": groups})

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


def _loss(experiment: Experiment) -> nn.Module:
    return SupervisedMSE() if experiment.objective is None else experiment.objective.loss(experiment.dim)


def identity_snapshot(experiment: Experiment, seeds: Sequence[int]) -> Snapshot:
    """Return the scores of the observations themselves: how far from the latents the mixing takes them."""
    latents = _evaluated_latents(experiment, seeds)
    scores = score_runs(latents, MixingNetwork(seeds, experiment.dim)(latents))
    return Snapshot(0, 0.0, (math.nan,) * len(seeds), **scores)


def _evaluated_latents(experiment: Experiment, seeds: Sequence[int]) -> Tensor:
    """Return the (S, N, dim) latents that runs are scored on, always the same."""
    generators = [torch_generator(seed, "synthetic/evaluation") for seed in seeds]
    return torch.stack([experiment.process.latents(EVALUATION_LATENTS, drawn) for drawn in generators])
