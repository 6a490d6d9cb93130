"""Bootstrap: 95% intervals of R2 and MCC from resampled rows.

The intervals speak of the fitted map and the matched dimensions at hand: resampling rows says how far their scores
would move on other rows of the same distribution. Both scores are then functions of row means, so a draw costs one
row of a matrix product in place of a regression. Rank correlations are not: their ranks move with the draw, and that
is followed to first order through the influence function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ident3d.factors import Factor
from ident3d.metrics.evaluation import Targets
from ident3d.metrics.mcc import Matching
from ident3d.metrics.scores import FactorScores

__all__ = ["Statistic", "bootstrap", "correlation_statistic", "interval", "r2_statistic", "rank_correlation_statistic"]

_LEVEL = 0.95
_DRAWS_AT_ONCE = 8  # keeps the counts of a block in the cache

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Statistic:
    """The numbers of the factors as a function of row means.

    Attributes:
        columns: (N, M) numbers of each row.
        of_means: maps (D, M) means of the columns to the (D, F) numbers of the factors.
    """

    columns: Array
    of_means: Callable[[Array], Array]


def bootstrap(statistics: Sequence[Statistic], draws: int, generator: np.random.Generator) -> list[Array]:
    """Return the statistics on rows that are drawn with replacement, the same rows for all of them.

    Args:
        statistics: the statistics, all over the same N rows.
        draws: number of draws D, of N rows each.
        generator: where the draws come from.

    Returns:
        (D, F) float64 for each statistic.
    """
    columns = np.hstack([statistic.columns for statistic in statistics])
    rows = len(columns)
    means = np.empty((draws, columns.shape[1]))
    for start in range(0, draws, _DRAWS_AT_ONCE):
        block = min(_DRAWS_AT_ONCE, draws - start)
        drawn = generator.integers(0, rows, size=(block, rows), dtype=np.int64)
        counts = np.stack([np.bincount(of_draw, minlength=rows) for of_draw in drawn])
        means[start : start + block] = counts.astype(np.float64) @ columns / rows
    ends = np.cumsum([statistic.columns.shape[1] for statistic in statistics])
    parts = np.split(means, ends[:-1], axis=1)
    return [statistic.of_means(part) for statistic, part in zip(statistics, parts, strict=True)]


def r2_statistic(prediction: Array, targets: Targets, scored: npt.NDArray[np.bool_]) -> Statistic:
    """Return R2 of each factor, for one fitted map, over the scored rows among those drawn.

    Args:
        prediction: (S, C) predictions of the scored rows.
        targets: the factors' target columns, of all N rows.
        scored: (N,) bool with S true entries.
    """
    truth = targets.columns[scored]
    centred = truth - truth.mean(axis=0)
    columns = np.zeros((len(scored), 1 + 3 * truth.shape[1]))
    columns[scored] = np.hstack([np.ones((len(truth), 1)), (truth - prediction) ** 2, centred**2, centred])

    def of_means(means: Array) -> Array:
        # the share of scored rows changes from draw to draw
        error, square, mean = np.split(means[:, 1:] / np.maximum(means[:, :1], 1 / len(scored)), 3, axis=1)
        total = targets.pooled(square - mean**2)
        return np.subtract(1, np.divide(targets.pooled(error), total, out=np.ones_like(total), where=total > 0))

    return Statistic(columns, of_means)


def correlation_statistic(matching: Matching, embeddings: Array, targets: Targets) -> Statistic:
    """Return the correlation of each factor with its dimension, for one matching.

    A draw in which the correlation turns round counts as negative. Factors without a dimension are 0.

    Args:
        matching: which dimension stands for which factor.
        embeddings: (N, d) standardised dimensions.
        targets: the factors.
    """
    x, y, _ = _matched_pairs(matching, embeddings, targets.columns, targets)

    def of_means(means: Array) -> Array:
        mx, my, mxx, myy, mxy = np.split(means, 5, axis=1)
        spread = np.sqrt(np.maximum(mxx - mx**2, 0) * np.maximum(myy - my**2, 0))
        correlation = np.divide(mxy - mx * my, spread, out=np.zeros_like(spread), where=spread > 0)
        return _of_all_factors(np.clip(correlation, -1, 1), matching)

    return Statistic(np.hstack([x, y, x * x, y * y, x * y]), of_means)


def rank_correlation_statistic(matching: Matching, ranks: Array, target_ranks: Array, targets: Targets) -> Statistic:
    """Return the rank correlation of each factor with its dimension, to first order in the drawn rows.

    With a and b the standardised functions of the ranks of a dimension and of a factor, the correlation is the mean
    of a b, and a row contributes by its own product, by moving the ranks of the rows above it, and by the ties that it
    makes.

    Args:
        matching: which dimension stands for which factor.
        ranks: (N, d) standardised ranks of the dimensions.
        target_ranks: (N, C) ranks of the targets, see :func:`~ident3d.metrics.mcc.circular_ranks`.
        targets: the factors.
    """
    x, y, weights = _matched_pairs(matching, ranks, target_ranks, targets)
    influence = np.empty_like(x)
    for pair, factor in enumerate(matching.factors):
        own = np.flatnonzero(targets.owner == factor)
        if len(own) == 1:
            position = target_ranks[:, own[0]]
            slope = np.full(len(x), weights[pair, 0] * len(x))
        else:
            cosine, sine = target_ranks[:, own].T
            position = np.mod(np.arctan2(sine, cosine), 2 * np.pi)
            slope = 2 * np.pi * (weights[pair, 1] * cosine - weights[pair, 0] * sine)
        influence[:, pair] = (
            x[:, pair] * y[:, pair]
            + _rank_slope(x[:, pair]) * _mean_above(x[:, pair], y[:, pair])
            + _mean_above(position, x[:, pair] * slope)
            + (x[:, pair] * y[:, pair]).mean() * (_spread_slope(x[:, pair]) + _spread_slope(position))
        )
    influence += (x * y).mean(axis=0) - influence.mean(axis=0)
    return Statistic(influence, lambda means: _of_all_factors(np.clip(means, -1, 1), matching))


def interval(factors: Sequence[Factor], draws: Array) -> tuple[FactorScores, FactorScores]:
    """Return the ends of the 95% percentile intervals of (D, F) draws."""
    tail = (1 - _LEVEL) / 2
    low = FactorScores.reduced(factors, draws, lambda values: np.quantile(values, tail, axis=0))
    high = FactorScores.reduced(factors, draws, lambda values: np.quantile(values, 1 - tail, axis=0))
    return low, high


def _matched_pairs(
    matching: Matching, embeddings: Array, columns: Array, targets: Targets
) -> tuple[Array, Array, Array]:
    """Return each matched dimension beside the combination of its factor's columns that correlates best with it.

    Returns:
        (N, M) dimensions; (N, M) standardised combinations, 0 where there is no correlation; (M, 2) their weights on
        the factor's first centred column and, on a circle, its second.
    """
    dimensions = embeddings[:, matching.dimensions]
    best = np.zeros_like(dimensions)
    weights = np.zeros((dimensions.shape[1], 2))
    for pair, factor in enumerate(matching.factors):
        own = targets.owner == factor
        centred = columns[:, own] - columns[:, own].mean(axis=0)
        weight = np.linalg.lstsq(centred, dimensions[:, pair], rcond=None)[0]
        combination = centred @ weight
        deviation = np.sqrt((combination**2).mean())
        if deviation > 0:
            best[:, pair] = combination / deviation
            weights[pair, : own.sum()] = weight / deviation
    return dimensions, best, weights


def _of_all_factors(of_matched: Array, matching: Matching) -> Array:
    everything = np.zeros((len(of_matched), len(matching.values)))
    everything[:, matching.factors] = of_matched
    return everything


def _rank_slope(standardised: Array) -> float:
    """Return N over the standard deviation that the ranks had, from the standing of the lowest, tied or not."""
    rows, lowest = len(standardised), float(standardised.min())
    tied = int((standardised == lowest).sum())
    return 0.0 if tied == rows else 2 * rows * lowest / (tied - rows)


def _spread_slope(position: Array) -> Array:
    """Return by how much of itself a row narrows the standard deviation of the ranks, which ties narrow.

    The variance of ranks is (1 - sum p^3) / 12 N^2 with p the share of each value; without ties there is no slope.
    """
    _, inverse, counts = np.unique(position, return_inverse=True, return_counts=True)
    shares = counts / len(position)
    cubes = float((shares**3).sum())
    if cubes == 1:
        return np.zeros(len(position))
    return np.asarray(1.5 * (shares[inverse] ** 2 - cubes) / (1 - cubes))


def _mean_above(position: Array, values: Array) -> Array:
    """Return for each row the mean over all rows of the values at positions above its own; ties count half."""
    order = np.argsort(position)
    ascending = position[order]
    below = np.concatenate([[0.0], np.cumsum(values[order])])
    left, right = np.searchsorted(ascending, ascending, "left"), np.searchsorted(ascending, ascending, "right")
    above = np.empty(len(position))
    above[order] = (below[-1] - (below[left] + below[right]) / 2) / len(position)
    return above
