"""The pairs that runs train on, drawn on the device in large pools."""

from collections.abc import Sequence

import torch
from torch import Tensor

from baselines.synthetic.experiments import Experiment
from ident3d.randomness import torch_generator

__all__ = ["PairPools"]


class PairPools:
    """Pools of batches of latents for each of S runs.

    Rejection samplers make a step wait for the device, and many small draws cost more than a large one. So the pairs of
    many steps are drawn at once, and a step only takes a slice. Pool i of a run depends on (its seed, i) only: runs are
    the same alone and side by side, and a resumed run goes on where it was.

    Args:
        experiment: whose pairs they are; for a supervised one only anchors are drawn.
        seeds: the runs' seeds.
        batch: pairs in a batch.
        steps: batches in a pool.
        device: where they are drawn and kept.
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
