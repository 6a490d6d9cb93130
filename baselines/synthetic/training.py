"""Train the runs of an experiment within a budget: scored on the way, kept on disk, resumed."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from baselines.synthetic.budgets import Budget
from baselines.synthetic.checkpoints import load_checkpoint, save_checkpoint
from baselines.synthetic.evaluation import Snapshot
from baselines.synthetic.experiments import Experiment
from baselines.synthetic.progress import Progress
from baselines.synthetic.runs import Runs
from baselines.synthetic.stream import PairPools
from ident3d.errors import Ident3DError

__all__ = ["train"]

_POOL_PAIRS = {"cpu": 2**14, "cuda": 2**19}  # pairs of a run drawn at once: what a cache holds; what keeps a GPU busy
_SAVE_SECONDS = 60.0


def train(
    experiment: Experiment,
    seeds: Sequence[int],
    budget: Budget,
    device: torch.device,
    *,
    checkpoint: Path | None = None,
    label: str = "training",
) -> tuple[Snapshot, ...]:
    """Train one run for each seed, and return what was seen on the way.

    Args:
        experiment: what is run.
        seeds: one a run; all different.
        budget: how long.
        device: where.
        checkpoint: a file that the training is kept in, once a minute and at the end, and resumed from; None keeps
            nothing.
        label: what the progress bar says.

    Returns:
        Snapshots, the first at step 0, the last at the end.

    Raises:
        ValueError: if seeds are doubled or missing.
        Ident3DError: if a run diverges, or the checkpoint is of another training.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"expected one or more seeds, all different, not {list(seeds)}")
    runs, progress = Runs(experiment, seeds, budget, device), Progress(budget)
    identity = {"experiment": experiment.description, "seeds": list(seeds), "budget": asdict(budget)}
    if checkpoint is not None and checkpoint.exists():
        state = load_checkpoint(checkpoint, identity, device)
        runs.load(state["runs"])
        progress.load(state["progress"])

    def keep() -> None:
        if checkpoint is not None:
            save_checkpoint(checkpoint, identity, {"runs": runs.state(), "progress": progress.state()})

    steps = max(1, _POOL_PAIRS.get(device.type, _POOL_PAIRS["cuda"]) // budget.batch)
    pairs = PairPools(experiment, seeds, budget.batch, steps, device)
    saved = time.monotonic()
    with tqdm(total=100, desc=label, unit="%", disable=None, leave=False) as bar:
        while True:
            share = progress.share
            if progress.is_due(share):
                progress.record(_look(runs, progress), share)
                bar.update(int(100 * share) - bar.n)
                bar.set_postfix_str(_summary(progress.history[-1]))
            if share >= 1:
                break
            if time.monotonic() - saved > _SAVE_SECONDS:
                keep()
                saved = time.monotonic()
            runs.step(pairs.batch_of(progress.step), budget.rate(share))
            progress.step += 1
    keep()
    return tuple(progress.history)


def _look(runs: Runs, progress: Progress) -> Snapshot:
    try:
        scores = runs.scores()
    except ValueError as error:
        raise Ident3DError(
            f"a run diverged before step {progress.step} ({error}); a smaller learning rate may help"
        ) from error
    return Snapshot(progress.step, progress.seconds, runs.last_losses(), **scores, precision=runs.precision())


def _summary(snapshot: Snapshot) -> str:
    return f"R2 {np.mean(snapshot.mean('r2')):.3f} MCC {np.mean(snapshot.mean('mcc')):.3f}"
