"""MCC: the mean correlation of factors with the embedding dimensions that a linear assignment gives them.

The intervals are those of the matched dimensions at hand. Rank correlations are not functions of row means, since the
ranks move with the draw; that is followed to first order through the influence function.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from jaxtyping import Float64
from scipy.optimize import linear_sum_assignment

from ident3d.factors import Factors
from ident3d.metrics.evaluation import DEFAULT_PROTOCOL, Evaluation, EvaluationProtocol, Targets, diagnose, warn_of
from ident3d.metrics.metric import FactorMetric, FactorScores, Measurement, Statistic
from ident3d.metrics.r2 import least_squares

__all__ = [
    "Correlation",
    "MatchedCorrelation",
    "Matching",
    "Pearson",
    "Spearman",
    "circular_ranks",
    "correlation_statistic",
    "correlations",
    "match",
    "mcc",
    "rank_correlation_statistic",
    "ranks",
]

Array = npt.NDArray[np.float64]
Correlation = Literal["pearson", "spearman"]


@dataclass(frozen=True)
class Matching:
    """Which embedding dimension is matched to which factor.

    Attributes:
        factors: (M,) positions of the matched factors; M is the smaller of the numbers of factors and dimensions.
        dimensions: (M,) the dimension of each.
        values: (F,) absolute correlation of each factor with its dimension; 0 for a factor without one.
    """

    factors: npt.NDArray[np.int64]
    dimensions: npt.NDArray[np.int64]
    values: Array


class MatchedCorrelation(FactorMetric):
    """The absolute correlation of each factor with the dimension that the assignment gives it, over all rows."""

    is_extra = False

    @abstractmethod
    def columns(self, evaluation: Evaluation) -> tuple[Array, Array]:
        """Return the (N, d) standardised dimensions and the (N, C) target columns that are correlated."""

    @abstractmethod
    def statistic(self, matching: Matching, embeddings: Array, columns: Array, targets: Targets) -> Statistic:
        """Return the correlations of a matching as a function of the rows."""

    def values(self, evaluation: Evaluation) -> Array:
        """Return the absolute correlation of each factor, (F,)."""
        return match(correlations(*self.columns(evaluation), evaluation.targets)).values

    def measure(self, evaluation: Evaluation) -> Measurement:
        """Return the correlations, those with permuted latents, and their statistic for this matching."""
        embeddings, columns = self.columns(evaluation)
        matching = match(correlations(embeddings, columns, evaluation.targets))
        tables = correlations(embeddings, columns, evaluation.targets, evaluation.orders)
        chance = np.stack([match(table).values for table in tables])
        return Measurement(matching.values, chance, self.statistic(matching, embeddings, columns, evaluation.targets))


class Pearson(MatchedCorrelation):
    """MCC with Pearson's correlation."""

    label = "MCC"

    def columns(self, evaluation: Evaluation) -> tuple[Array, Array]:
        """Return the dimensions and the targets as they are."""
        return evaluation.embeddings, evaluation.targets.columns

    def statistic(self, matching: Matching, embeddings: Array, columns: Array, targets: Targets) -> Statistic:
        """Return the correlations from second moments."""
        return correlation_statistic(matching, embeddings, columns, targets)


class Spearman(MatchedCorrelation):
    """MCC with Spearman's correlation: that of ranks."""

    label = "MCC ranks"

    def columns(self, evaluation: Evaluation) -> tuple[Array, Array]:
        """Return the ranks of both."""
        return ranks(evaluation.embeddings), circular_ranks(evaluation.targets)

    def statistic(self, matching: Matching, embeddings: Array, columns: Array, targets: Targets) -> Statistic:
        """Return the correlations through their influence function."""
        return rank_correlation_statistic(matching, embeddings, columns, targets)


_CORRELATIONS: dict[str, MatchedCorrelation] = {"pearson": Pearson(), "spearman": Spearman()}


def mcc(
    latents: Any,
    embeddings: Any,
    ids: Any = None,
    *,
    correlation: Correlation = "pearson",
    latent_ids: Any = None,
    factors: Factors | None = None,
    protocol: str | EvaluationProtocol = DEFAULT_PROTOCOL,
) -> FactorScores:
    """Compute the mean correlation coefficient over all rows.

    Each factor gets an embedding dimension of its own, so that the sum of absolute correlations is largest. With fewer
    dimensions than factors the factors that are left over count 0. A circular factor has the circular-linear
    correlation: the multiple correlation of the dimension with (cos, sin) of the phase.

    Example:
        >>> import ident3d
        >>> z = ident3d.sample_latents(500)
        >>> round(float(ident3d.metrics.mcc(z, -z[:, ::-1])), 4)  # up to order and sign
        1.0

    Args:
        latents: (N, k) raw latents, or a dataset.
        embeddings: (N, d) embeddings of the same rows.
        ids: (N,) unique integers, the embeddings' ids, which decide the halves; the row numbers where None.
        latent_ids: (N,) the latents' ids, by which rows are matched; see :meth:`Evaluation.of`.
        correlation: "pearson", or "spearman" for the correlation of ranks.
        factors: the factors of the latents' columns; 3DIdent's where None and k is 10.
        protocol: the protocol, or its name.

    Returns:
        Absolute correlation of each factor, of each group, and mean over factors, in [0, 1].

    Raises:
        ValueError: for an unknown correlation; otherwise, and TypeError, see :meth:`Evaluation.of`.

    Warns:
        DegenerateEmbeddingWarning: as :func:`~ident3d.metrics.score` does.

    Reference:
        Hyvarinen and Morioka, Unsupervised feature extraction by time-contrastive learning (2016); for circular
        factors Mardia, Linear-circular correlation coefficients and rhythmometry (1976).
    """
    if correlation not in _CORRELATIONS:
        raise ValueError(f"unknown correlation {correlation!r}; choose from {', '.join(_CORRELATIONS)}")
    evaluation = Evaluation.of(latents, embeddings, ids, latent_ids=latent_ids, factors=factors, protocol=protocol)
    warn_of(diagnose(evaluation)[1])
    return FactorScores.of(evaluation.targets.factors, _CORRELATIONS[correlation].values(evaluation))


def match(table: Float64[Array, "f d"]) -> Matching:
    """Assign dimensions to factors so that the sum of the (F, d) correlations is largest."""
    factors, dimensions = linear_sum_assignment(table, maximize=True)
    values = np.zeros(len(table))
    values[factors] = table[factors, dimensions]
    return Matching(factors, dimensions, values)


def correlations(
    embeddings: Array,
    columns: Array,
    targets: Targets,
    orders: Sequence[npt.NDArray[np.int64]] | None = None,
) -> Array:
    """Return the absolute correlation of every factor with every dimension.

    Args:
        embeddings: (N, d) standardised dimensions, or their standardised ranks; constant ones are 0.
        columns: (N, C) target columns, or their ranks.
        targets: whose columns they are.
        orders: P permutations of the targets' rows.

    Returns:
        (F, d) float64 in [0, 1]; with permutations (P, F, d), one table for each.
    """
    rows = len(columns)
    centred = columns - columns.mean(axis=0)
    deviation = np.sqrt(np.einsum("nc,nc->c", centred, centred) / rows)
    scale = np.where(deviation > 0, deviation, 1)
    if orders is None:
        simple = (centred.T @ embeddings)[None]
    else:
        by_column = np.ascontiguousarray(centred.T)
        permuted = np.empty_like(by_column)  # one for all: memory that is new costs more than what is done with it
        simple = np.stack(
            [np.take(by_column, order, axis=1, out=permuted, mode="clip") @ embeddings for order in orders]
        )
    simple /= rows * scale[:, None]  # (P, C, d)
    if columns.shape[1] == len(targets.factors):  # none on a circle, which has two columns
        tables: Array = np.minimum(np.abs(simple), 1)
    else:
        between = centred.T @ centred / (rows * scale * scale[:, None])
        tables = np.stack(
            [_multiple(simple[:, own], between[np.ix_(own, own)]) for own in _columns_of_factors(targets)], axis=1
        )
    first: Array = tables[0]
    return first if orders is None else tables


def ranks(values: Float64[Array, "n d"]) -> Float64[Array, "n d"]:
    """Return standardised ranks of each column, ties averaged; a constant column is 0."""
    ranked = np.empty_like(values, order="F")
    for column in range(values.shape[1]):
        ranked[:, column] = _column_ranks(np.ascontiguousarray(values[:, column]))
    ranked -= (len(values) + 1) / 2
    deviation = np.sqrt(np.einsum("nd,nd->d", ranked, ranked) / len(ranked))
    ranked /= np.where(deviation > 0, deviation, 1)
    return ranked


def circular_ranks(targets: Targets) -> Float64[Array, "n c"]:
    """Return the (N, C) targets by rank: ranks on a line, and (cos, sin) of evenly spread phases on a circle."""
    ranked = np.empty_like(targets.columns)
    for own in _columns_of_factors(targets):
        if len(own) == 1:
            ranked[:, own[0]] = _column_ranks(targets.columns[:, own[0]])
        else:
            angle = np.arctan2(targets.columns[:, own[1]], targets.columns[:, own[0]])
            phase = 2 * np.pi * (_column_ranks(angle) - 0.5) / len(angle)
            ranked[:, own] = np.stack([np.cos(phase), np.sin(phase)], axis=1)
    return ranked


def _columns_of_factors(targets: Targets) -> list[npt.NDArray[np.int64]]:
    return [np.flatnonzero(targets.owner == position) for position in range(len(targets.factors))]


def _multiple(simple: Array, mutual: Array) -> Array:
    """Return the multiple correlation with a factor's columns from their simple ones and their mutual ones.

    Args:
        simple: (P, columns, d) correlations of the factor's one column, or two, with the dimensions.
        mutual: (columns, columns) correlations of the columns.
    """
    if len(mutual) == 1:
        return np.asarray(np.minimum(np.abs(simple[:, 0]), 1))
    between = float(mutual[0, 1])
    cosine, sine = simple[:, 0], simple[:, 1]
    squared = (cosine**2 + sine**2 - 2 * cosine * sine * between) / max(1 - between**2, np.finfo(np.float64).eps)
    multiple: Array = np.sqrt(np.clip(squared, 0, 1))
    return multiple


def _column_ranks(values: Array) -> Array:
    order = np.argsort(values)
    ascending = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    counts = np.diff(starts, append=len(values))
    ranked = np.empty(len(values))
    ranked[order] = np.repeat(starts + (counts + 1) / 2, counts)
    return ranked


def correlation_statistic(matching: Matching, embeddings: Array, columns: Array, targets: Targets) -> Statistic:
    """Return the correlation of each factor with its dimension, for one matching.

    A draw in which the correlation changes its sign counts as negative. Factors without a dimension are 0.

    Args:
        matching: which dimension is matched to which factor.
        embeddings: (N, d) standardised dimensions.
        columns: (N, C) target columns.
        targets: whose columns they are.
    """
    x, y, _ = _matched_pairs(matching, embeddings, columns, targets)

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
        matching: which dimension is matched to which factor.
        ranks: (N, d) standardised ranks of the dimensions.
        target_ranks: (N, C) ranks of the targets, see :func:`circular_ranks`.
        targets: whose columns they are.
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
        product, of_dimension, of_factor = x[:, pair] * y[:, pair], _doubled_ranks(x[:, pair]), _doubled_ranks(position)
        influence[:, pair] = (
            product
            + _rank_slope(x[:, pair]) * _mean_above(of_dimension, y[:, pair])
            + _mean_above(of_factor, x[:, pair] * slope)
            + product.mean() * (_spread_slope(of_dimension) + _spread_slope(of_factor))
        )
    influence += (x * y).mean(axis=0) - influence.mean(axis=0)
    return Statistic(influence, lambda means: _of_all_factors(np.clip(means, -1, 1), matching))


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
        weight = least_squares(centred, dimensions[:, pair : pair + 1], np.zeros(1))[:, 0]
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
    """Return N over the standard deviation that the ranks had, from the value of the lowest, tied or not."""
    rows, lowest = len(standardised), float(standardised.min())
    tied = int((standardised == lowest).sum())
    return 0.0 if tied == rows else 2 * rows * lowest / (tied - rows)


def _spread_slope(doubled: npt.NDArray[np.int64]) -> Array:
    """Return by how much of itself a row narrows the standard deviation of the ranks, which ties narrow.

    The variance of ranks is (1 - sum p^3) / 12 N^2 with p the share of each value; without ties there is no slope.

    Args:
        doubled: (N,) twice the ranks, see :func:`_doubled_ranks`.
    """
    shares = np.bincount(doubled) / len(doubled)
    squares = shares * shares
    cubes = float(shares @ squares)
    if cubes == 1:
        return np.zeros(len(doubled))
    return np.asarray((1.5 * (squares - cubes) / (1 - cubes))[doubled])


def _mean_above(doubled: npt.NDArray[np.int64], values: Array) -> Array:
    """Return for each row the mean over all rows of the values at ranks above its own; ties count half.

    Args:
        doubled: (N,) twice the ranks, see :func:`_doubled_ranks`.
        values: (N,) the values.
    """
    at = np.bincount(doubled, weights=values)
    up_to = np.cumsum(at)
    return np.asarray((up_to[-1] - up_to + at / 2)[doubled] / len(doubled))


def _doubled_ranks(position: Array) -> npt.NDArray[np.int64]:
    """Return twice the ranks, ties averaged, which are integers: (N,) from 2 to 2 N.

    Args:
        position: (N,) an increasing affine function of the ranks, so that no sorting is needed.
    """
    rows, low, high = len(position), float(position.min()), float(position.max())
    if low == high:
        return np.full(rows, rows + 1)
    first, last = 1 + int((position == low).sum()), 2 * rows + 1 - int((position == high).sum())
    return np.asarray(np.rint(first + (position - low) * ((last - first) / (high - low))), dtype=np.int64)
