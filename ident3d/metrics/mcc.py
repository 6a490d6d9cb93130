"""MCC: the mean correlation of factors with the embedding dimensions that a linear assignment gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from ident3d.factors import Factors
from ident3d.metrics.evaluation import DEFAULT_PROTOCOL, Evaluation, Protocol, Targets
from ident3d.metrics.scores import FactorScores

__all__ = ["Correlation", "Matching", "circular_ranks", "correlations", "match", "mcc", "ranks"]

Correlation = Literal["pearson", "spearman"]


@dataclass(frozen=True)
class Matching:
    """Which embedding dimension stands for which factor.

    Attributes:
        factors: (M,) positions of the matched factors; M is the smaller of the numbers of factors and dimensions.
        dimensions: (M,) the dimension of each.
        values: (F,) absolute correlation of each factor with its dimension; 0 for a factor without one.
    """

    factors: npt.NDArray[np.int64]
    dimensions: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def mcc(
    latents: Any,
    embeddings: Any,
    ids: Any = None,
    *,
    correlation: Correlation = "pearson",
    factors: Factors | None = None,
    protocol: str | Protocol = DEFAULT_PROTOCOL,
) -> FactorScores:
    """Compute the mean correlation coefficient over all rows.

    Each factor gets an embedding dimension of its own, so that the sum of absolute correlations is largest. With fewer
    dimensions than factors the factors that are left over count 0. A circular factor has the circular-linear
    correlation: the multiple correlation of the dimension with (cos, sin) of the phase.

    Args:
        latents: (N, k) raw latents.
        embeddings: (N, d) embeddings of the same rows.
        ids: (N,) unique integers; the row numbers where None.
        correlation: "pearson", or "spearman" for the correlation of ranks.
        factors: the factors of the latents' columns; 3DIdent's where None and k is 10.
        protocol: the protocol, or its name.

    Returns:
        Absolute correlation of each factor, of each group, and mean over factors, in [0, 1].

    Raises:
        ValueError: for an unknown correlation; otherwise, and TypeError, see :meth:`Evaluation.of`.

    Reference:
        Hyvarinen and Morioka, Unsupervised feature extraction by time-contrastive learning (2016); for circular
        factors Mardia, Linear-circular correlation coefficients and rhythmometry (1976).
    """
    if correlation not in get_args(Correlation):
        raise ValueError(f"no correlation {correlation!r}; expected one of {', '.join(get_args(Correlation))}")
    evaluation = Evaluation.of(latents, embeddings, ids, factors=factors, protocol=protocol)
    targets = evaluation.targets
    if correlation == "pearson":
        matching = match(correlations(evaluation.embeddings, targets.columns, targets))
    else:
        matching = match(correlations(ranks(evaluation.embeddings), circular_ranks(targets), targets))
    return FactorScores.of(targets.factors, matching.values)


def match(table: npt.NDArray[np.float64]) -> Matching:
    """Assign dimensions to factors so that the sum of the (F, d) correlations is largest."""
    factors, dimensions = linear_sum_assignment(table, maximize=True)
    values = np.zeros(len(table))
    values[factors] = table[factors, dimensions]
    return Matching(factors, dimensions, values)


def correlations(
    embeddings: npt.NDArray[np.float64],
    columns: npt.NDArray[np.float64],
    targets: Targets,
    orders: Sequence[npt.NDArray[np.int64]] | None = None,
) -> npt.NDArray[np.float64]:
    """Return the absolute correlation of every factor with every dimension.

    Args:
        embeddings: (N, d) standardised dimensions, or their standardised ranks; constant ones are 0.
        columns: (N, C) target columns, or their ranks.
        targets: whose columns they are.
        orders: P permutations of the targets' rows.

    Returns:
        (F, d) float64 in [0, 1]; with permutations (P, F, d), one table for each.
    """
    rows, width = columns.shape
    centred = columns - columns.mean(axis=0)
    deviation = np.sqrt((centred**2).mean(axis=0))
    standard = centred / np.where(deviation > 0, deviation, 1)
    permuted = standard if orders is None else np.hstack([standard[order] for order in orders])
    simple = (permuted.T @ embeddings / rows).reshape(-1, width, embeddings.shape[1])
    tables = np.stack([_multiple(simple[:, own], standard[:, own]) for own in _columns_of_factors(targets)], axis=1)
    return tables[0] if orders is None else tables


def ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return standardised ranks of each column, ties averaged; a constant column is 0."""
    ranked = np.empty_like(values)
    for column in range(values.shape[1]):
        ranked[:, column] = _column_ranks(np.ascontiguousarray(values[:, column]))
    ranked -= (len(values) + 1) / 2
    deviation = np.sqrt(np.einsum("nd,nd->d", ranked, ranked) / len(ranked))
    ranked /= np.where(deviation > 0, deviation, 1)
    return ranked


def circular_ranks(targets: Targets) -> npt.NDArray[np.float64]:
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


def _multiple(simple: npt.NDArray[np.float64], standard: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the multiple correlation with a factor's one column, or two, from its (P, columns, d) simple ones."""
    if standard.shape[1] == 1:
        return np.asarray(np.minimum(np.abs(simple[:, 0]), 1))
    between = float((standard[:, 0] * standard[:, 1]).mean())
    cosine, sine = simple[:, 0], simple[:, 1]
    squared = (cosine**2 + sine**2 - 2 * cosine * sine * between) / max(1 - between**2, np.finfo(np.float64).eps)
    multiple: npt.NDArray[np.float64] = np.sqrt(np.clip(squared, 0, 1))
    return multiple


def _column_ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    order = np.argsort(values)
    ascending = values[order]
    if (ascending[1:] == ascending[:-1]).any():
        return np.asarray(rankdata(values), dtype=np.float64)
    ranked = np.empty(len(values))
    ranked[order] = np.arange(1.0, len(values) + 1)
    return ranked
