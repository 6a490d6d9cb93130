"""R2 up to affine maps: how much of each factor an affine map of the embeddings explains on rows it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.factors import Factors
from ident3d.metrics.evaluation import DEFAULT_PROTOCOL, Evaluation, Protocol, Targets
from ident3d.metrics.scores import FactorScores

__all__ = ["AffineMap", "affine_r2", "determination"]


@dataclass(frozen=True)
class AffineMap:
    """A least-squares affine map, of least norm where the inputs are collinear.

    Attributes:
        centre: (d,) the inputs' mean.
        weight: (d, C) the linear part.
        offset: (C,) the outputs' mean.
    """

    centre: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    offset: npt.NDArray[np.float64]

    @classmethod
    def fit(cls, inputs: npt.NDArray[np.float64], outputs: npt.NDArray[np.float64]) -> AffineMap:
        """Fit the map from (N, d) inputs to (N, C) outputs."""
        centre, offset = inputs.mean(axis=0), outputs.mean(axis=0)
        weight = np.linalg.lstsq(inputs - centre, outputs - offset, rcond=None)[0]
        return cls(centre, weight, offset)

    def __call__(self, inputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Map (N, d) inputs to (N, C) outputs."""
        return (inputs - self.centre) @ self.weight + self.offset


def affine_r2(
    latents: Any,
    embeddings: Any,
    ids: Any = None,
    *,
    factors: Factors | None = None,
    protocol: str | Protocol = DEFAULT_PROTOCOL,
) -> FactorScores:
    r"""Compute R2 up to affine maps: fitted on one half of the rows, scored on the other.

    For a factor z with the fitted map's prediction, over the scored rows n:

    $$R^2 = 1 - \frac{\sum_n (z_n - \hat{z}_n)^2}{\sum_n (z_n - \bar{z})^2}$$

    Args:
        latents: (N, k) raw latents.
        embeddings: (N, d) embeddings of the same rows.
        ids: (N,) unique integers that decide the halves; the row numbers where None.
        factors: the factors of the latents' columns; 3DIdent's where None and k is 10.
        protocol: the protocol, or its name.

    Returns:
        R2 of each factor, of each group, and mean over factors: 1 at best, 0 for the mean of the scored rows, and
        below for a map that does not carry over.

    Raises:
        ValueError, TypeError: see :meth:`Evaluation.of`.

    Reference:
        Zimmermann et al., Contrastive learning inverts the data generating process (2021), section 4.1.
    """
    evaluation = Evaluation.of(latents, embeddings, ids, factors=factors, protocol=protocol)
    fitted, targets = evaluation.fitted, evaluation.targets
    fit = AffineMap.fit(evaluation.embeddings[fitted], targets.columns[fitted])
    truth = targets.columns[~fitted]
    return FactorScores.of(targets.factors, determination(truth, fit(evaluation.embeddings[~fitted]), targets))


def determination(
    truth: npt.NDArray[np.float64], prediction: npt.NDArray[np.float64], targets: Targets
) -> npt.NDArray[np.float64]:
    """Return R2 of each factor: 1 - sum (truth - prediction)^2 / sum (truth - mean)^2, over a factor's columns.

    Args:
        truth: (N, C) target columns of the scored rows.
        prediction: (N, C) their predictions.
        targets: whose columns they are.

    Returns:
        (F,) float64. A factor that happens not to vary over the scored rows has 0.
    """
    unexplained = targets.pooled(((truth - prediction) ** 2).sum(axis=0))
    total = targets.pooled(((truth - truth.mean(axis=0)) ** 2).sum(axis=0))
    return np.subtract(1, np.divide(unexplained, total, out=np.ones_like(total), where=total > 0))
