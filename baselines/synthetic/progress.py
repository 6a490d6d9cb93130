"""Where a training stands."""

import math
import time
from typing import Any

from baselines.synthetic.budgets import Budget
from baselines.synthetic.evaluation import Snapshot

__all__ = ["Progress"]


class Progress:
    """Steps and seconds done, what was seen on the way, and when the next look is due.

    Args:
        budget: what there is to do.

    Attributes:
        step: optimiser steps done.
        history: the snapshots so far.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.step = 0
        self.history: list[Snapshot] = []
        self._looked = -1
        self._seconds_before = 0.0
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the training and its evaluations, those before a resumption included."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def share(self) -> float:
        """The share of the budget that is used up, from 0 to 1."""
        if self.budget.steps is not None:
            return min(1.0, self.step / self.budget.steps)
        return min(1.0, self.seconds / (self.budget.seconds or 1.0))

    def is_due(self, share: float) -> bool:
        """Return whether the runs should be scored at this share: at the start, at the end, and evenly between."""
        return self._interval(share) > self._looked

    def record(self, snapshot: Snapshot, share: float) -> None:
        """Keep what was seen at this share."""
        self.history.append(snapshot)
        self._looked = self._interval(share)

    def state(self) -> dict[str, Any]:
        """Return all that a resumed training needs, as plain data."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "looked": self._looked,
            "history": [snapshot.to_json() for snapshot in self.history],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state of an earlier training."""
        self.step = state["step"]
        self.history = [Snapshot.from_json(snapshot) for snapshot in state["history"]]
        self._looked = state["looked"]
        self._seconds_before = state["seconds"]
        self._started = time.monotonic()

    def _interval(self, share: float) -> int:
        """Return in which of the even intervals between two looks a share lies; rounding moves no look by a step."""
        return math.floor(share * self.budget.evaluations + 1e-9)
