"""Scores of runs on fresh latents, and their course while the runs train."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ident3d.metrics import affine_r2, mcc, plain_factors

__all__ = ["EVALUATION_LATENTS", "Snapshot", "score_runs"]

EVALUATION_LATENTS = 4096
_PROTOCOL = "paper"


@dataclass(frozen=True)
class Snapshot:
    """What is known of S runs at one step.

    Attributes:
        step: optimiser steps done.
        seconds: training time so far, all runs together.
        loss: (S) the last batch's loss of each run, in nats; NaN before the first step.
        r2: (S, dim) R2 up to affine maps of every factor.
        mcc: (S, dim) correlation of every factor with its embedding dimension.
        precision: (S, dim) AnInfoNCE's learned Lambda; None without one.
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
    def from_json(cls, data: dict[str, Any]) -> "Snapshot":
        """Return the snapshot of plain data."""
        nested = {key: _tuples(data[key]) for key in ("r2", "mcc", "precision")}
        loss = tuple(math.nan if value is None else value for value in data["loss"])
        return cls(step=data["step"], seconds=data["seconds"], loss=loss, **nested)


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
    found: dict[str, list[tuple[float, ...]]] = {"r2": [], "mcc": []}
    for z, h in zip(latents, embeddings, strict=True):
        for name, metric in (("r2", affine_r2), ("mcc", mcc)):
            scores = metric(z, h, factors=factors, protocol=_PROTOCOL)
            found[name].append(tuple(scores.per_factor.values()))
    return {name: tuple(runs) for name, runs in found.items()}


def _rounded(values: tuple[float, ...]) -> list[float]:
    return [round(value, 6) for value in values]


def _tuples(data: Any) -> Any:
    return tuple(_tuples(item) for item in data) if isinstance(data, list) else data
