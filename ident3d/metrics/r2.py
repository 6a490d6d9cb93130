"""R2: how much of each factor a map of the embeddings explains on rows that it was not fitted on.

:func:`affine_r2` fits affine maps. :class:`ExplainedVariance` makes a metric of any other regressor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Float64

from ident3d.factors import Factors
from ident3d.metrics.evaluation import DEFAULT_PROTOCOL, Evaluation, EvaluationProtocol, Targets, diagnose, warn_of
from ident3d.metrics.metric import FactorMetric, FactorScores, Measurement, Statistic

__all__ = [
    "AFFINE_R2",
    "AffineMap",
    "ExplainedVariance",
    "Regressor",
    "affine_r2",
    "determination",
    "least_squares",
    "r2_statistic",
]

_WELL_CONDITIONED = 1e-4  # of eigenvalues, smallest to largest: the weights keep eleven digits

Array = npt.NDArray[np.float64]
Regressor = Callable[[Array, Array], Callable[[Array], Array]]
"""Fits a map from (N, d) inputs to (N, C) outputs, each output column for itself, and returns it."""


@dataclass(frozen=True)
class AffineMap:
    """A least-squares affine map, of least norm where the inputs are collinear.

    Attributes:
        centre: (d,) the inputs' mean.
        weight: (d, C) the linear part.
        offset: (C,) the outputs' mean.
    """

    centre: Array
    weight: Array
    offset: Array

    @classmethod
    def fit(cls, inputs: Float64[Array, "n d"], outputs: Float64[Array, "n c"]) -> AffineMap:
        """Fit the map from inputs to outputs."""
        centre, offset = inputs.mean(axis=0), outputs.mean(axis=0)
        return cls(centre, least_squares(inputs - centre, outputs, offset), offset)

    def __call__(self, inputs: Float64[Array, "n d"]) -> Float64[Array, "n c"]:
        """Map inputs to outputs."""
        found = (inputs - self.centre) @ self.weight
        found += self.offset  # in place: there can be columns for every permutation
        return np.asarray(found)


def least_squares(
    inputs: Float64[Array, "n d"], outputs: Float64[Array, "n c"], offset: Float64[Array, " c"]
) -> Float64[Array, "d c"]:
    """Return the weights of least squares, of least norm where the inputs are collinear.

    Second moments suffice where their rounding is far below their smallest eigenvalue, and are several times as fast;
    elsewhere the inputs are decomposed themselves.

    Args:
        inputs: (N, d) centred inputs.
        outputs: (N, C) outputs.
        offset: (C,) their mean.
    """
    values, vectors = np.linalg.eigh(inputs.T @ inputs)
    if values[0] > _WELL_CONDITIONED * values[-1]:
        # the inputs are centred, so the outputs need not be
        return np.asarray(vectors @ ((vectors.T @ (inputs.T @ outputs)) / values[:, None]))
    return np.asarray(np.linalg.lstsq(inputs, outputs - offset, rcond=None)[0])


@dataclass(frozen=True)
class ExplainedVariance(FactorMetric):
    """R2 of a regressor: fitted on one half of the rows, scored on the other.

    Attributes:
        label: what the table calls it.
        fit: the regressor.
        is_extra: whether it is computed only where it is asked for.
    """

    label: str
    fit: Regressor
    is_extra: bool = True

    def values(self, evaluation: Evaluation) -> Array:
        """Return R2 of each factor on the scored rows, (F,)."""
        (fitted, scored), targets, embeddings = evaluation.halves, evaluation.targets, evaluation.embeddings
        predict = self.fit(_rows(embeddings, fitted), _rows(targets.columns, fitted))
        return determination(_rows(targets.columns, scored), predict(_rows(embeddings, scored)), targets)

    def measure(self, evaluation: Evaluation) -> Measurement:
        """Return R2 of the targets and of permuted targets, fitted at once, and its statistic for the fitted map."""
        targets, columns = evaluation.targets, evaluation.targets.columns
        fitted, scored = evaluation.halves
        orders = [np.arange(len(columns)), *evaluation.orders]
        outputs = np.hstack([_rows(columns, order[fitted]) for order in orders])
        predicted = self.fit(_rows(evaluation.embeddings, fitted), outputs)(_rows(evaluation.embeddings, scored))
        predictions = np.split(predicted, len(orders), axis=1)
        values, *chance = (
            determination(_rows(columns, order[scored]), prediction, targets)
            for order, prediction in zip(orders, predictions, strict=True)
        )
        return Measurement(values, np.stack(chance), r2_statistic(predictions[0], targets, ~evaluation.fitted))


def _rows(values: Array, chosen: npt.NDArray[np.int64]) -> Array:
    """Return some of the rows of an array in Fortran's order, in that order."""
    return np.asarray(np.take(values.T, chosen, axis=1).T)


AFFINE_R2 = ExplainedVariance("R2", AffineMap.fit, is_extra=False)


def affine_r2(
    latents: Any,
    embeddings: Any,
    ids: Any = None,
    *,
    factors: Factors | None = None,
    protocol: str | EvaluationProtocol = DEFAULT_PROTOCOL,
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

    Warns:
        DegenerateEmbeddingWarning: as :func:`~ident3d.metrics.score` does.

    Reference:
        Zimmermann et al., Contrastive learning inverts the data generating process (2021), section 4.1.
    """
    evaluation = Evaluation.of(latents, embeddings, ids, factors=factors, protocol=protocol)
    warn_of(diagnose(evaluation)[1])
    return FactorScores.of(evaluation.targets.factors, AFFINE_R2.values(evaluation))


def determination(
    truth: Float64[Array, "n c"], prediction: Float64[Array, "n c"], targets: Targets
) -> Float64[Array, " f"]:
    """Return R2 of each factor: 1 - sum (truth - prediction)^2 / sum (truth - mean)^2, over a factor's columns.

    Args:
        truth: (N, C) target columns of the scored rows.
        prediction: (N, C) their predictions.
        targets: whose columns they are.

    Returns:
        (F,) float64. A factor that happens not to vary over the scored rows has 0.
    """
    unexplained = targets.pooled(_sum_of_squares(truth - prediction))
    total = targets.pooled(_sum_of_squares(truth - truth.mean(axis=0)))
    return np.subtract(1, np.divide(unexplained, total, out=np.ones_like(total), where=total > 0))


def _sum_of_squares(values: Array) -> Array:
    return np.asarray(np.einsum("nc,nc->c", values, values))


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
