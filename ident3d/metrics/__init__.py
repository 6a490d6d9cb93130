"""Metrics: how well embeddings identify the latents, up to the indeterminacies that the theory allows."""

from ident3d.factors import plain_factors
from ident3d.metrics.dci import Disentanglement
from ident3d.metrics.dimension import DegenerateEmbeddingWarning, Dimension
from ident3d.metrics.evaluation import DEFAULT_PROTOCOL, PROTOCOLS, Halves, Protocol
from ident3d.metrics.information import Information, information
from ident3d.metrics.mcc import mcc
from ident3d.metrics.nonlinear import nonlinear_r2
from ident3d.metrics.r2 import affine_r2
from ident3d.metrics.scores import FactorScores, Metric, Scores
from ident3d.metrics.scoring import score

__all__ = [
    "DEFAULT_PROTOCOL",
    "PROTOCOLS",
    "DegenerateEmbeddingWarning",
    "Dimension",
    "Disentanglement",
    "FactorScores",
    "Halves",
    "Information",
    "Metric",
    "Protocol",
    "Scores",
    "affine_r2",
    "information",
    "mcc",
    "nonlinear_r2",
    "plain_factors",
    "score",
]
