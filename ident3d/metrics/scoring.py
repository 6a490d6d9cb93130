"""Scoring: every metric of one encoder's embeddings, with intervals, chance level and ceiling."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

import ident3d
from ident3d.factors import Factors
from ident3d.metrics.bootstrap import (
    Statistic,
    bootstrap,
    correlation_statistic,
    interval,
    r2_statistic,
    rank_correlation_statistic,
)
from ident3d.metrics.chance import Regressor, chance_correlation, permutations, r2_with_chance
from ident3d.metrics.dci import disentanglement
from ident3d.metrics.dimension import DegenerateEmbeddingWarning, diagnose
from ident3d.metrics.evaluation import DEFAULT_PROTOCOL, Evaluation, Protocol
from ident3d.metrics.mcc import circular_ranks, correlations, match, ranks
from ident3d.metrics.nonlinear import NonlinearMap
from ident3d.metrics.r2 import AffineMap, determination
from ident3d.metrics.scores import FactorScores, Metric, Scores
from ident3d.randomness import generator

__all__ = ["Extra", "score"]

Extra = Literal["nonlinear_r2", "dci"]


def score(
    latents: Any,
    embeddings: Any,
    ids: Any = None,
    *,
    factors: Factors | None = None,
    protocol: str | Protocol = DEFAULT_PROTOCOL,
    extras: Collection[Extra] = (),
    ceiling: Scores | None = None,
    fingerprint: str | None = None,
) -> Scores:
    """Score embeddings against the latents of the same rows.

    The scores depend on the set of (id, latents, embedding) alone, not on the order of the rows. Dimensions that are
    dead, constant or doubled count what they are worth, are named in ``Scores.warnings``, and raise one
    :class:`DegenerateEmbeddingWarning`.

    Args:
        latents: (N, k) raw latents: numpy, a torch tensor on any device, or nested lists.
        embeddings: (N, d) embeddings of the same rows, of any width.
        ids: (N,) unique integers, the samples' ids in their split; the row numbers where None.
        factors: the factors of the latents' columns; where None, 3DIdent's for ten columns, and nameless ones on
            lines for any other number (see :func:`~ident3d.factors.plain_factors`).
        protocol: "ident3d-1" (halves by a hash of the id), "paper" (the first 4,096 rows, fitted on their first half
            and scored on their second; fewer rows where there are fewer), or a protocol of one's own.
        extras: the slower metrics to add: "nonlinear_r2", "dci".
        ceiling: the scores of a supervised encoder on the same rows, to stand beside these.
        fingerprint: fingerprint of the dataset, carried along.

    Returns:
        The scores: R2 up to affine maps, MCC (Pearson and Spearman), each by factor, by group and in the mean, with
        95% bootstrap intervals and the chance level; rank and participation ratio.

    Raises:
        ValueError: if shapes disagree, a value is NaN or infinite (the row is named), ids are doubled, no latent
            varies, there are too few rows for the width, a protocol or an extra is unknown, or the ceiling was
            scored in another way.
        TypeError: if an array is not numeric.
    """
    unknown = set(extras) - set(get_args(Extra))
    if unknown:
        raise ValueError(f"no extra {', '.join(sorted(unknown))}; the extras are {', '.join(get_args(Extra))}")
    evaluation = Evaluation.of(latents, embeddings, ids, factors=factors, protocol=protocol)
    if ceiling is not None:
        _check_comparable(ceiling, evaluation, fingerprint)
    found, faults = diagnose(evaluation)
    metrics = _metrics(evaluation, extras)
    if ceiling is not None:
        metrics = {name: _with_ceiling(metric, ceiling.metrics.get(name)) for name, metric in metrics.items()}
    if evaluation.targets.constant:
        faults = (*faults, f"factors that do not vary are in no score: {', '.join(evaluation.targets.constant)}")
    if faults:
        warnings.warn("; ".join(faults), DegenerateEmbeddingWarning, stacklevel=2)
    return Scores(
        protocol=evaluation.protocol.name,
        rows=len(evaluation.embeddings),
        width=evaluation.embeddings.shape[1],
        metrics=metrics,
        dimension=found,
        disentanglement=disentanglement(evaluation) if "dci" in extras else None,
        constant_factors=evaluation.targets.constant,
        warnings=faults,
        fingerprint=fingerprint,
        version=ident3d.__version__,
    )


@dataclass(frozen=True)
class _Measured:
    """A metric before its intervals are drawn: the factors' values, their (P, F) chance values, the statistic."""

    values: npt.NDArray[np.float64]
    chance: npt.NDArray[np.float64]
    statistic: Statistic


def _metrics(evaluation: Evaluation, extras: Collection[Extra]) -> dict[str, Metric]:
    protocol, factors = evaluation.protocol, evaluation.targets.factors
    orders = permutations(len(evaluation.fitted), protocol.permutations, generator(protocol.seed, "metrics/chance"))
    measured = {"r2": _r2(evaluation, AffineMap.fit, orders), **_correlations(evaluation, orders)}
    if "nonlinear_r2" in extras:
        measured["nonlinear_r2"] = _r2(evaluation, NonlinearMap.fit, orders)
    statistics = [found.statistic for found in measured.values()]
    draws = bootstrap(statistics, protocol.draws, generator(protocol.seed, "metrics/bootstrap"))
    return {
        name: Metric(
            FactorScores.of(factors, found.values),
            *interval(factors, of_metric),
            FactorScores.of(factors, found.chance.mean(axis=0)),
        )
        for (name, found), of_metric in zip(measured.items(), draws, strict=True)
    }


def _r2(evaluation: Evaluation, fit: Regressor, orders: list[npt.NDArray[np.int64]]) -> _Measured:
    targets, scored = evaluation.targets, ~evaluation.fitted
    prediction, chance = r2_with_chance(fit, evaluation.embeddings, targets, evaluation.fitted, orders)
    values = determination(targets.columns[scored], prediction, targets)
    return _Measured(values, chance, r2_statistic(prediction, targets, scored))


def _correlations(evaluation: Evaluation, orders: list[npt.NDArray[np.int64]]) -> dict[str, _Measured]:
    embeddings, targets = evaluation.embeddings, evaluation.targets
    matching = match(correlations(embeddings, targets.columns, targets))
    pearson = _Measured(
        matching.values,
        chance_correlation(embeddings, targets.columns, targets, orders),
        correlation_statistic(matching, embeddings, targets),
    )
    ranked, target_ranks = ranks(embeddings), circular_ranks(targets)
    matching = match(correlations(ranked, target_ranks, targets))
    spearman = _Measured(
        matching.values,
        chance_correlation(ranked, target_ranks, targets, orders),
        rank_correlation_statistic(matching, ranked, target_ranks, targets),
    )
    return {"mcc_pearson": pearson, "mcc_spearman": spearman}


def _check_comparable(ceiling: Scores, evaluation: Evaluation, fingerprint: str | None) -> None:
    factors = [factor.name for factor in evaluation.targets.factors]
    ours = (evaluation.protocol.name, len(evaluation.embeddings), ", ".join(factors), fingerprint)
    theirs = (ceiling.protocol, ceiling.rows, ", ".join(ceiling.metrics["r2"].value.per_factor), ceiling.fingerprint)
    for what, own, other in zip(("protocol", "rows", "factors", "fingerprint"), ours, theirs, strict=True):
        if own != other and None not in (own, other):
            raise ValueError(f"the ceiling cannot stand beside these scores: {what} {other}, not {own}")


def _with_ceiling(metric: Metric, ceiling: Metric | None) -> Metric:
    return metric if ceiling is None else replace(metric, ceiling=ceiling.value)
