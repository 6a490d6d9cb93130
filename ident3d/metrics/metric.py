"""The contract of a metric, and what is needed to judge its numbers: 95% intervals and the chance level.

A metric of your own is a subclass of :class:`FactorMetric` with one number per factor, and an entry in
:data:`~ident3d.metrics.METRICS`::

    class BestPixel(FactorMetric):
        label = "best"

        def values(self, evaluation):
            return correlations(evaluation.embeddings, evaluation.targets.columns, evaluation.targets).max(axis=1)

    METRICS.register("best", BestPixel())

Intervals are about other rows of the same distribution. A metric that is a function of row means, see
:class:`Statistic`, has them from bootstrap draws that cost one row of a matrix product each; for any other they follow,
to first order, from leaving out a twentieth of the rows at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from ident3d.factors import Factor
from ident3d.metrics.evaluation import Evaluation

__all__ = [
    "FactorMetric",
    "FactorScores",
    "Measurement",
    "Metric",
    "MetricScores",
    "Statistic",
    "Summary",
    "bootstrap",
    "interval",
    "jackknife",
]

_LEVEL = 0.95
_DRAWS_AT_ONCE = 64  # each block reads all the columns once, and holds 8 bytes a row and draw
_BLOCKS = 20  # parts of the rows that the jackknife leaves out in turn

Array = npt.NDArray[np.float64]


class Metric(ABC):
    """One metric of embeddings.

    Attributes:
        label: what the table calls it.
        is_extra: whether it is computed only where it is asked for by name; the others always are.
    """

    label: str
    is_extra: bool = True

    @abstractmethod
    def measure(self, evaluation: Evaluation) -> Measurement | Summary:
        """Return a number per factor with what its interval and chance level need, or numbers of the whole."""


class FactorMetric(Metric):
    """A metric with one number per factor: a column of the table.

    Example:
        >>> import ident3d, numpy as np
        >>> class Constant(ident3d.metrics.FactorMetric):
        ...     label = "one"
        ...     def values(self, evaluation):
        ...         return np.ones(len(evaluation.targets.factors))
        >>> test = ident3d.ThreeDIdent("sample", split="test")
        >>> evaluation = ident3d.metrics.Evaluation.of(test, test.latents, protocol="ident3d-1")
        >>> Constant().values(evaluation).sum()
        10.0
    """

    @abstractmethod
    def values(self, evaluation: Evaluation) -> Array:
        """Return the number of each factor.

        Args:
            evaluation: standardised embeddings, target columns, and the halves of the rows.

        Returns:
            (F,) float64, for the factors ``evaluation.targets.factors``.
        """

    def measure(self, evaluation: Evaluation) -> Measurement:
        """Return the values, those of permuted latents, and their statistic by the jackknife.

        The values are computed some forty times for it; a metric that has a quicker way overrides this.
        """
        values = self.values(evaluation)
        chance = np.stack([self.values(evaluation.permuted(order)) for order in evaluation.orders])
        return Measurement(values, chance, jackknife(self.values, evaluation))


@dataclass(frozen=True)
class Measurement:
    """A metric of each factor, before its intervals are drawn.

    Attributes:
        values: (F,) the factors' numbers.
        chance: (P, F) the same for latents whose rows were permuted.
        statistic: the numbers as a function of the rows.
    """

    values: Array
    chance: Array
    statistic: Statistic


class Summary(Protocol):
    """Numbers of the embeddings as a whole: a line below the table, which ``str`` writes, and a key of the JSON.

    Attributes:
        key: the key.
    """

    key: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""


@dataclass(frozen=True)
class Statistic:
    """The numbers of the factors as a function of row means.

    Attributes:
        columns: (N, M) numbers of each row.
        of_means: maps (D, M) means of the columns to the (D, F) numbers of the factors.
    """

    columns: Array
    of_means: Callable[[Array], Array]


@dataclass(frozen=True)
class FactorScores:
    """One number per factor, and their means. ``float(...)`` is the mean.

    Attributes:
        mean: the mean over factors.
        per_group: the mean over the factors of each group.
        per_factor: the number of each factor.
    """

    mean: float
    per_group: dict[str, float]
    per_factor: dict[str, float]

    @classmethod
    def of(cls, factors: Sequence[Factor], values: Array) -> FactorScores:
        """Return the scores from the (F,) numbers of the factors."""
        return cls.reduced(factors, values[None], lambda draws: np.asarray(draws[0]))

    @classmethod
    def reduced(cls, factors: Sequence[Factor], draws: Array, reduce: Callable[[Array], Any]) -> FactorScores:
        """Reduce many draws of the factors' numbers to one of each.

        Args:
            factors: the F factors.
            draws: (D, F) numbers.
            reduce: a function of (D,) or (D, F) draws that reduces the first axis, such as a quantile.

        Returns:
            The reduction of each factor's draws, and of the draws of each mean.
        """
        groups = dict.fromkeys(factor.group for factor in factors)
        members = {group: [i for i, factor in enumerate(factors) if factor.group == group] for group in groups}
        return cls(
            mean=float(reduce(draws.mean(axis=1))),
            per_group={group: float(reduce(draws[:, own].mean(axis=1))) for group, own in members.items()},
            per_factor={
                factor.name: float(value) for factor, value in zip(factors, np.atleast_1d(reduce(draws)), strict=True)
            },
        )

    def __float__(self) -> float:
        return self.mean

    def __repr__(self) -> str:
        return "\n".join(
            f"{f'[{name}]' if kind == 'group' else name:18}{value:8.4f}" for (kind, name), value in self.named().items()
        )

    def named(self) -> dict[tuple[str, str], float]:
        """Return all numbers by their kind and name: factors, groups, and ("mean", "mean")."""
        found = {("factor", name): value for name, value in self.per_factor.items()}
        found |= {("group", name): value for name, value in self.per_group.items()}
        return found | {("mean", "mean"): self.mean}

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        return {"mean": self.mean, "per_group": dict(self.per_group), "per_factor": dict(self.per_factor)}


@dataclass(frozen=True)
class MetricScores:
    """What one metric found, with what is needed to judge it. ``float(...)`` is the mean over factors.

    Attributes:
        label: what the table calls the metric.
        value: the scores.
        low: lower ends of the 95% intervals.
        high: upper ends of the 95% intervals.
        chance: the same metric for latents whose rows were permuted, mean over permutations.
        ceiling: the scores of a supervised encoder; None where none was given.
    """

    label: str
    value: FactorScores
    low: FactorScores
    high: FactorScores
    chance: FactorScores
    ceiling: FactorScores | None = None

    def __float__(self) -> float:
        return self.value.mean

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain data; the ceiling is left out where there is none."""
        parts = {"value": self.value, "low": self.low, "high": self.high, "chance": self.chance}
        if self.ceiling is not None:
            parts["ceiling"] = self.ceiling
        return {name: part.to_json() for name, part in parts.items()}


def bootstrap(statistics: Sequence[Statistic], draws: int, generator: np.random.Generator) -> list[Array]:
    """Return the statistics on rows that are drawn with replacement, the same rows for all of them.

    Args:
        statistics: the statistics, all over the same N rows.
        draws: number of draws D, of N rows each.
        generator: where the draws come from.

    Returns:
        (D, F) float64 for each statistic.
    """
    import torch  # whose products of matrices are several times as fast as NumPy's where it is built with MKL

    columns = torch.from_numpy(np.hstack([statistic.columns for statistic in statistics]))
    rows = len(columns)
    found = torch.empty((draws, columns.shape[1]), dtype=torch.float64, device="cpu")
    counts = np.empty((min(draws, _DRAWS_AT_ONCE), rows))
    for start in range(0, draws, _DRAWS_AT_ONCE):
        block = min(_DRAWS_AT_ONCE, draws - start)
        for of_draw in counts[:block]:
            of_draw[:] = np.bincount(generator.integers(0, rows, size=rows, dtype=np.int64), minlength=rows)
        torch.mm(torch.from_numpy(counts[:block]), columns, out=found[start : start + block])
    means = found.numpy() / rows
    ends = np.cumsum([statistic.columns.shape[1] for statistic in statistics])
    parts = np.split(means, ends[:-1], axis=1)
    return [statistic.of_means(part) for statistic, part in zip(statistics, parts, strict=True)]


def jackknife(values: Callable[[Evaluation], Array], evaluation: Evaluation) -> Statistic:
    """Return any metric's numbers as means of what each row contributes, to first order.

    A twentieth of the rows is left out at a time, and what changes is shared among its rows.

    Args:
        values: the metric: an evaluation to the (F,) numbers of the factors.
        evaluation: the evaluation.

    Reference:
        Efron and Tibshirani, An introduction to the bootstrap (1993), chapter 11; Kunsch, The jackknife and the
        bootstrap for general stationary observations (1989), for blocks.
    """
    whole, rows = values(evaluation), len(evaluation.embeddings)
    block = np.arange(rows) % _BLOCKS  # as many fitted and scored rows in each, whatever divides them
    without = np.stack([values(evaluation.of_rows(block != left_out)) for left_out in range(_BLOCKS)])
    influence = (_BLOCKS - 1) * (without.mean(axis=0) - without)
    # a mean over N rows of numbers that are one per block varies too little by the size of a block
    columns = whole + np.sqrt(rows / _BLOCKS) * influence[block]
    return Statistic(columns + (whole - columns.mean(axis=0)), lambda means: means)


def interval(factors: Sequence[Factor], draws: Array) -> tuple[FactorScores, FactorScores]:
    """Return the ends of the 95% percentile intervals of (D, F) draws."""
    tail = (1 - _LEVEL) / 2
    low = FactorScores.reduced(factors, draws, lambda values: np.quantile(values, tail, axis=0))
    high = FactorScores.reduced(factors, draws, lambda values: np.quantile(values, 1 - tail, axis=0))
    return low, high
