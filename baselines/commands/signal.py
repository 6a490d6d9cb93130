"""``python -m baselines signal``: what a contrastive loss can learn of each factor from given pairs and negatives."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

import tyro

from ident3d.commandline import EXIT_OK, write_json

__all__ = ["MeasureSignal"]


@dataclass(frozen=True)
class MeasureSignal:
    """Say what a contrastive loss can learn of each factor from pairs, before any training.

    A loss with M negatives can gain at most ln(M + 1) nats, and factors that vary little within a pair use them up. For
    each factor and each group of factors this prints by how many nats the best critic is better than the best one that
    does not see it ("gain"), how strongly the loss pulls on a small feature of it once all else is known ("pull"), the
    same at the start, when nothing is known, and what share of it is left. A factor with a share near 0 is not learned,
    whatever the encoder: take a larger sigma, a larger batch, or both views as negatives. No image is read.

    Examples:
        python -m baselines signal 'normal(sigma=0.1)' --live --batch-size 128
        python -m baselines signal 'normal(sigma=0.3)' --live --batch-size 512 --negatives both
        python -m baselines signal 'normal(sigma=0.1)' --dataset data/mini --batch-size 128 --json
    """

    conditional: tyro.conf.Positional[str]
    """What positives are drawn from, for example 'normal(sigma=0.3)'."""
    dataset: str | None = None
    """Match pairs among the train split of this dataset, a folder in any layout, or "sample"."""
    live: bool = False
    """Exact pairs of uniform anchors, as live and rendered pairs are."""
    batch_size: int = 512
    """Pairs in a batch."""
    negatives: Literal["anchors", "positives", "both"] = "anchors"
    """Which of the batch's other items are negatives."""
    p: float = 2.0
    """Exponent of the distance."""
    in_own_metric: bool = False
    """Whether matching divides each factor by the conditional's standard deviation in it."""
    seed: int = 0
    """Seed of the draws."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Print the signal of every factor."""
        from baselines.training.signal import contrastive_signal
        from ident3d import ThreeDIdent
        from ident3d.conditionals import parse

        if self.live == (self.dataset is not None):
            raise ValueError("pairs are either matched in a dataset or exact: give one of --dataset ROOT and --live")
        data = None if self.dataset is None else ThreeDIdent(self.dataset, split="train")
        conditional = parse(self.conditional) if data is None else parse(self.conditional, data.factors)
        found = contrastive_signal(
            conditional,
            data,
            batch_size=self.batch_size,
            negatives=self.negatives,
            p=self.p,
            in_own_metric=self.in_own_metric,
            seed=self.seed,
        )
        if self.json:
            write_json(found.to_json())
        else:
            sys.stdout.write(f"{found.table()}\n")
        return EXIT_OK
