"""Metrics: how well embeddings identify the latents, up to the indeterminacies that the theory allows.

:func:`score` computes them all, :func:`point_scores` some without intervals. A metric is one entry of :data:`METRICS`,
and one of your own becomes part of the table, of the JSON, of ``ident3d score --extras`` and of leaderboard entries in
the same way: see :class:`FactorMetric`. Estimates of mutual information with trained critics are in
:mod:`ident3d.metrics.mutual_information`, which loads torch.
"""

from ident3d.factors import plain_factors
from ident3d.metrics.dci import Disentanglement
from ident3d.metrics.evaluation import (
    DEFAULT_PROTOCOL,
    PROTOCOLS,
    WIDE_PROTOCOL,
    AffineFit,
    DegenerateEmbeddingWarning,
    Dimension,
    Evaluation,
    EvaluationProtocol,
    Halves,
    protocol_for,
)
from ident3d.metrics.information import Information, information
from ident3d.metrics.mcc import mcc
from ident3d.metrics.metric import FactorMetric, FactorScores, Measurement, Metric, MetricScores, Statistic, Summary
from ident3d.metrics.nonlinear import nonlinear_r2
from ident3d.metrics.r2 import ExplainedVariance, affine_r2
from ident3d.metrics.scores import METRICS, Scores, point_scores, score

__all__ = [
    "DEFAULT_PROTOCOL",
    "METRICS",
    "PROTOCOLS",
    "WIDE_PROTOCOL",
    "AffineFit",
    "DegenerateEmbeddingWarning",
    "Dimension",
    "Disentanglement",
    "Evaluation",
    "EvaluationProtocol",
    "ExplainedVariance",
    "FactorMetric",
    "FactorScores",
    "Halves",
    "Information",
    "Measurement",
    "Metric",
    "MetricScores",
    "Scores",
    "Statistic",
    "Summary",
    "affine_r2",
    "information",
    "mcc",
    "nonlinear_r2",
    "plain_factors",
    "point_scores",
    "protocol_for",
    "score",
]
