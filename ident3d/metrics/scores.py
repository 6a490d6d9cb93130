"""Scores: every metric of one encoder's embeddings, as numbers, as a table and as JSON."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ident3d import __version__
from ident3d.display import bar
from ident3d.errors import MissingDependencyError
from ident3d.factors import Factors
from ident3d.metrics.dci import DCI
from ident3d.metrics.evaluation import (
    DEFAULT_PROTOCOL,
    Dimension,
    Evaluation,
    EvaluationProtocol,
    diagnose,
    warn_of,
)
from ident3d.metrics.mcc import Pearson, Spearman
from ident3d.metrics.metric import (
    FactorMetric,
    FactorScores,
    Measurement,
    Metric,
    MetricScores,
    Summary,
    bootstrap,
    interval,
)
from ident3d.metrics.nonlinear import NONLINEAR_R2
from ident3d.metrics.r2 import AFFINE_R2
from ident3d.randomness import generator
from ident3d.registry import Registry

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["METRICS", "Scores", "point_scores", "score"]

METRICS: Registry[Metric] = Registry(
    "metric",
    {
        "r2": AFFINE_R2,
        "mcc_pearson": Pearson(),
        "mcc_spearman": Spearman(),
        "nonlinear_r2": NONLINEAR_R2,
        "dci": DCI(),
    },
)
"""The metrics by name. Those that are not extras are in all scores."""


@dataclass(frozen=True)
class Scores:
    """Everything that one evaluation found.

    Example:
        >>> import ident3d
        >>> test = ident3d.ThreeDIdent("sample", split="test")
        >>> scores = ident3d.metrics.score(test, test.latents[:, :5])  # an encoder that knows five of ten factors
        >>> round(scores.mcc, 2), scores.protocol
        (0.5, 'ident3d-1')
        >>> [name for name, value in scores.metrics["r2"].value.per_factor.items() if value > 0.99]
        ['position_x', 'position_y', 'position_z', 'rotation_x', 'rotation_y']

    Attributes:
        protocol: name of the protocol, which carries its version.
        rows: number of rows that were used.
        width: number of embedding dimensions.
        metrics: the metrics with a number per factor by name: "r2", "mcc_pearson", "mcc_spearman", and the extras that
            were asked for.
        dimension: how many dimensions the embeddings use.
        summaries: the extras with numbers of the embeddings as a whole, by name: "dci" where asked for.
        constant_factors: factors that do not vary over the rows, and are in no score.
        warnings: what is wrong with the embeddings without making them unusable.
        fingerprint: fingerprint of the dataset; None where none was given.
        version: version of ident3d.
    """

    protocol: str
    rows: int
    width: int
    metrics: Mapping[str, MetricScores]
    dimension: Dimension
    summaries: Mapping[str, Summary]
    constant_factors: tuple[str, ...]
    warnings: tuple[str, ...]
    fingerprint: str | None
    version: str

    @property
    def r2(self) -> float:
        """R2 up to affine maps, mean over factors."""
        return self.metrics["r2"].value.mean

    @property
    def mcc(self) -> float:
        """Mean correlation coefficient (Pearson)."""
        return self.metrics["mcc_pearson"].value.mean

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        metrics = list(self.metrics.values())
        first = metrics[0].value
        heads = "".join(f"<th>{html.escape(metric.label)}</th>" for metric in metrics)
        lines = [(name, [m.value.per_factor[name] for m in metrics]) for name in first.per_factor]
        lines += [(f"[{name}]", [m.value.per_group[name] for m in metrics]) for name in first.per_group]
        lines += [("mean", [m.value.mean for m in metrics]), ("chance", [m.chance.mean for m in metrics])]
        body = "".join(
            f"<tr><th>{html.escape(name)}</th>{''.join(bar(value, f'{value:.3f}') for value in values)}</tr>"
            for name, values in lines
        )
        intervals = "".join(f'<td style="text-align:right">{m.low.mean:.3f} to {m.high.mean:.3f}</td>' for m in metrics)
        body += f"<tr><th>95%</th>{intervals}</tr>"
        return f"<table><tr><th></th>{heads}</tr>{body}</table><p>{'<br>'.join(map(html.escape, self._notes()))}</p>"

    def to_frame(self) -> pd.DataFrame:
        """Return the scores as a data frame of pandas, a line for each metric and factor, group or mean.

        Returns:
            The columns metric, kind ("factor", "group" or "mean"), name, value, low and high (the ends of the 95%
            interval), chance, and ceiling, which is NaN where none was given.

        Raises:
            MissingDependencyError: if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingDependencyError("pandas", "make a data frame of scores", "leaderboard") from error
        lines = []
        for key, metric in self.metrics.items():
            parts = {"value": metric.value, "low": metric.low, "high": metric.high, "chance": metric.chance}
            if metric.ceiling is not None:
                parts["ceiling"] = metric.ceiling
            named = {part: scores.named() for part, scores in parts.items()}
            lines += [
                {"metric": key, "kind": kind, "name": name} | {part: named[part][kind, name] for part in parts}
                for kind, name in metric.value.named()
            ]
        columns = ["metric", "kind", "name", "value", "low", "high", "chance", "ceiling"]
        return pd.DataFrame(lines, columns=columns)

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain data that strict JSON can hold: no NaN, no infinity."""
        return {
            "protocol": self.protocol,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "width": self.width,
            "metrics": {name: metric.to_json() for name, metric in self.metrics.items()},
            "dimension": self.dimension.to_json(),
            "constant_factors": list(self.constant_factors),
            "warnings": list(self.warnings),
            **{summary.key: summary.to_json() for summary in self.summaries.values()},
        }

    def table(self) -> str:
        """Return the scores as a table of plain text: factors, groups and the mean by metric."""
        metrics = list(self.metrics.values())
        first = metrics[0].value
        lines = [["", *(metric.label for metric in metrics)]]
        lines += [[name, *(f"{m.value.per_factor[name]:.4f}" for m in metrics)] for name in first.per_factor]
        lines += [[f"[{name}]", *(f"{m.value.per_group[name]:.4f}" for m in metrics)] for name in first.per_group]
        lines.append(["mean", *(f"{m.value.mean:.4f}" for m in metrics)])
        lines.append(["95% from", *(f"{m.low.mean:.4f}" for m in metrics)])
        lines.append(["95% to", *(f"{m.high.mean:.4f}" for m in metrics)])
        lines.append(["chance", *(f"{m.chance.mean:.4f}" for m in metrics)])
        if all(m.ceiling for m in metrics):
            lines.append(["ceiling", *(f"{m.ceiling.mean:.4f}" if m.ceiling else "" for m in metrics)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(
                [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
            )
            for line in lines
        ]
        return "\n".join([*text, *self._notes()])

    def _notes(self) -> list[str]:
        """Return what is said below the table."""
        return [
            f"{self.rows} rows, {self.width} dimensions, protocol {self.protocol}; {self.dimension}",
            *map(str, self.summaries.values()),
            *(f"warning: {warning}" for warning in self.warnings),
        ]


def score(
    latents: Any,
    embeddings: Any,
    ids: Any = None,
    *,
    latent_ids: Any = None,
    factors: Factors | None = None,
    protocol: str | EvaluationProtocol = DEFAULT_PROTOCOL,
    extras: Collection[str] = (),
    ceiling: Scores | None = None,
    fingerprint: str | None = None,
) -> Scores:
    """Score embeddings against the latents of the same rows.

    ``score(data, embeddings)`` takes latents, ids, factors and fingerprint from a dataset. With ids on both sides,
    ``ids`` of the embeddings and ``latent_ids`` or a dataset's own, rows are matched by id.

    The scores depend on the set of (id, latents, embedding) alone, not on the order of the rows. Dimensions that are
    constant or duplicated count what they are worth, are named in ``Scores.warnings``, and raise one
    :class:`~ident3d.metrics.DegenerateEmbeddingWarning`.

    Example:
        >>> import ident3d
        >>> test = ident3d.ThreeDIdent("sample", split="test")
        >>> scores = ident3d.metrics.score(test, test.latents @ test.latents[:10])  # an invertible map of the latents
        >>> round(scores.r2, 4)
        1.0

    Args:
        latents: (N, k) raw latents, numpy, a torch tensor on any device, or nested lists; or a dataset, such as
            ``ident3d.ThreeDIdent(root, split="test")``.
        embeddings: (M, d) embeddings, of the same N rows unless both sides have ids.
        ids: (M,) unique integers, the embeddings' ids in their split, which decide the halves; the row numbers where
            None. With ids on one side alone the rows of both are in the same order, and these ids ascending.
        latent_ids: (N,) unique integers, the latents' ids; a dataset's own where None.
        factors: the factors of the latents' columns; where None, a dataset's own, 3DIdent's for ten columns, and
            nameless ones on lines for any other number (see :func:`~ident3d.factors.plain_factors`).
        protocol: "ident3d-1" (halves by a hash of the id), "ident3d-2" (the same with a ridge behind R2, for embeddings
            with about as many dimensions as half the rows, or more), "paper" (the first 4,096 rows, fitted on their
            first half and scored on their second; fewer rows where there are fewer), or a protocol of your own.
        extras: names of further metrics: "nonlinear_r2" and "dci", which are slower; one that was registered in
            :data:`METRICS`; or ``package.module:attribute``, where an instance of a :class:`Metric` is.
        ceiling: the scores of a supervised encoder on the same rows, to be shown beside these.
        fingerprint: fingerprint of the dataset, carried along; a dataset's own where None.

    Returns:
        The scores: R2 up to affine maps, MCC (Pearson and Spearman), each by factor, by group and in the mean, with
        95% bootstrap intervals and the chance level; rank and participation ratio.

    Raises:
        ValueError: if shapes disagree, a value is NaN or infinite (the row is named), ids are duplicated, of no
            latents, or on one side alone and not ascending, no latent varies, there are too few rows for the width, a
            protocol or a metric is unknown, or the ceiling was scored in another way.
        TypeError: if an array is not numeric, or what ``package.module:attribute`` names is not a metric.
    """
    chosen = _chosen(extras)
    fingerprint = getattr(latents, "fingerprint", None) if fingerprint is None else fingerprint
    evaluation = Evaluation.of(latents, embeddings, ids, latent_ids=latent_ids, factors=factors, protocol=protocol)
    if ceiling is not None:
        _check_comparable(ceiling, evaluation, fingerprint)
    found, faults = diagnose(evaluation)
    metrics, summaries = _measure(evaluation, chosen)
    if ceiling is not None:
        metrics = {name: _with_ceiling(metric, ceiling.metrics.get(name)) for name, metric in metrics.items()}
    warn_of(faults)
    return Scores(
        protocol=evaluation.protocol.name,
        rows=len(evaluation.embeddings),
        width=evaluation.embeddings.shape[1],
        metrics=metrics,
        dimension=found,
        summaries=summaries,
        constant_factors=evaluation.targets.constant,
        warnings=faults,
        fingerprint=fingerprint,
        version=__version__,
    )


def point_scores(
    latents: Any,
    embeddings: Any,
    ids: Any = None,
    *,
    metrics: Collection[str] = ("r2", "mcc_pearson"),
    latent_ids: Any = None,
    factors: Factors | None = None,
    protocol: str | EvaluationProtocol = DEFAULT_PROTOCOL,
) -> tuple[dict[str, FactorScores], tuple[str, ...]]:
    """Compute metrics alone, without intervals and chance levels, as a training does that is watched.

    Nothing is warned of: what :func:`score` would warn of is returned.

    Args:
        latents: (N, k) raw latents, or a dataset.
        embeddings: (N, d) embeddings of the same rows.
        ids: (N,) unique integers, the embeddings' ids, which decide the halves; the row numbers where None.
        latent_ids: (N,) the latents' ids, by which rows are matched; see :meth:`Evaluation.of`.
        metrics: names of metrics with a number per factor.
        factors: the factors of the latents' columns; see :func:`score`.
        protocol: the protocol, or its name.

    Returns:
        The scores by the metric's name, and a sentence for each thing that is wrong with the embeddings.

    Raises:
        ValueError: if a metric is unknown; otherwise see :meth:`Evaluation.of`.
        TypeError: if a metric has no number per factor, or an array is not numeric.
    """
    evaluation = Evaluation.of(latents, embeddings, ids, latent_ids=latent_ids, factors=factors, protocol=protocol)
    found = dict[str, FactorScores]()
    for name in metrics:
        metric = METRICS.find(name)
        if not isinstance(metric, FactorMetric):
            raise TypeError(f"the metric {name!r} has no number per factor: {metric!r}")
        found[name] = FactorScores.of(evaluation.targets.factors, metric.values(evaluation))
    return found, diagnose(evaluation)[1]


def _chosen(extras: Collection[str]) -> dict[str, Metric]:
    """Return the metrics that are always computed, and those that are asked for, in the order of the registry."""
    chosen = {name: metric for name, metric in METRICS.items() if not metric.is_extra or name in extras}
    chosen |= {name: METRICS.find(name) for name in extras if name not in chosen}
    for name, metric in chosen.items():
        if not isinstance(metric, Metric):
            raise TypeError(f"the metric {name!r} is {metric!r}: name an instance of a subclass of Metric")
    return chosen


def _measure(
    evaluation: Evaluation, chosen: Mapping[str, Metric]
) -> tuple[dict[str, MetricScores], dict[str, Summary]]:
    """Return the metrics that have a number per factor with their intervals, on the same draws, and the summaries."""
    protocol, factors = evaluation.protocol, evaluation.targets.factors
    measured, summaries = dict[str, Measurement](), dict[str, Summary]()
    for name, metric in chosen.items():
        found = metric.measure(evaluation)
        if isinstance(found, Measurement):
            measured[name] = found
        else:
            summaries[name] = found
    statistics = [found.statistic for found in measured.values()]
    draws = bootstrap(statistics, protocol.draws, generator(protocol.seed, "metrics/bootstrap"))
    scores = {
        name: MetricScores(
            chosen[name].label,
            FactorScores.of(factors, found.values),
            *interval(factors, of_metric),
            FactorScores.of(factors, found.chance.mean(axis=0)),
        )
        for (name, found), of_metric in zip(measured.items(), draws, strict=True)
    }
    return scores, summaries


def _check_comparable(ceiling: Scores, evaluation: Evaluation, fingerprint: str | None) -> None:
    factors = [factor.name for factor in evaluation.targets.factors]
    ours = (evaluation.protocol.name, len(evaluation.embeddings), ", ".join(factors), fingerprint)
    theirs = (ceiling.protocol, ceiling.rows, ", ".join(ceiling.metrics["r2"].value.per_factor), ceiling.fingerprint)
    for what, own, other in zip(("protocol", "rows", "factors", "fingerprint"), ours, theirs, strict=True):
        if own != other and None not in (own, other):
            raise ValueError(f"the ceiling is not comparable with these scores: {what} {other}, not {own}")


def _with_ceiling(metric: MetricScores, ceiling: MetricScores | None) -> MetricScores:
    return metric if ceiling is None else replace(metric, ceiling=ceiling.value)
