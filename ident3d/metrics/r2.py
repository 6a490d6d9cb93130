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
from ident3d.metrics.evaluation import (
    DEFAULT_PROTOCOL,
    AffineFit,
    Evaluation,
    EvaluationProtocol,
    Targets,
    diagnose,
    warn_of,
)
from ident3d.metrics.metric import FactorMetric, FactorScores, Measurement, Statistic

__all__ = [
    "AFFINE_R2",
    "AffineMap",
    "ExplainedVariance",
    "Regressor",
    "RidgeMap",
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


_RIDGES = np.logspace(-12, 1, 27)  # in units of the largest eigenvalue of the inputs' second moments


@dataclass(frozen=True)
class RidgeMap(AffineMap):
    """An affine map fitted by ridge regression, for inputs of any width, even more dimensions than rows.

    Each output has the ridge, of 27 from 1e-12 to 10 times the largest eigenvalue of the inputs' second moments, with
    the smallest error on rows that are left out one at a time. Only the rows that are given decide it.

    Reference:
        Hoerl and Kennard, Ridge regression: biased estimation for nonorthogonal problems (1970); Allen, The
        relationship between variable selection and data augmentation and a method for prediction (1974), for the error
        on rows that are left out.
    """

    @classmethod
    def fit(cls, inputs: Float64[Array, "n d"], outputs: Float64[Array, "n c"]) -> RidgeMap:
        """Fit the map from inputs to outputs."""
        centre, offset = inputs.mean(axis=0), outputs.mean(axis=0)
        left, scale, right = np.linalg.svd(inputs - centre, full_matrices=False)
        kept = scale > max(inputs.shape) * float(np.finfo(np.float64).eps) * scale.max(initial=0)
        left, scale, right = left[:, kept], scale[kept], right[kept]
        if not len(scale):  # constant inputs
            return cls(centre, np.zeros((inputs.shape[1], outputs.shape[1])), offset)
        rotated, squares = left.T @ (outputs - offset), left**2
        # What no ridge reaches: nothing where the rows span all that they can. Differences of near numbers would say
        # that with rounding, which the smallest ridges divide by.
        spans_all = len(scale) >= len(inputs) - 1
        beyond = 0.0 if spans_all else outputs - offset - left @ rotated
        free = 0.0 if spans_all else 1 - 1 / len(inputs) - squares.sum(axis=1)  # the centre is fitted, too
        errors, ridges = [], _RIDGES * scale[0] ** 2
        for ridge in ridges:
            rest = ridge / (scale**2 + ridge)
            residual, leverage_left = beyond + left @ (rest[:, None] * rotated), free + squares @ rest
            errors.append(((residual / leverage_left[:, None]) ** 2).mean(axis=0))
        best = ridges[np.argmin(errors, axis=0)]
        weight = right.T @ (scale[:, None] / (scale[:, None] ** 2 + best) * rotated)
        return cls(centre, weight, offset)


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
        ridge: the regressor for protocols that ask for a ridge; None: the same.
    """

    label: str
    fit: Regressor
    is_extra: bool = True
    ridge: Regressor | None = None

    def regressor(self, protocol: EvaluationProtocol) -> Regressor:
        """Return the regressor that a protocol asks for."""
        return self.ridge if self.ridge is not None and protocol.affine is AffineFit.RIDGE else self.fit

    def values(self, evaluation: Evaluation) -> Array:
        """Return R2 of each factor on the scored rows, (F,)."""
        (fitted, scored), targets, embeddings = evaluation.halves, evaluation.targets, evaluation.embeddings
        predict = self.regressor(evaluation.protocol)(_rows(embeddings, fitted), _rows(targets.columns, fitted))
        return determination(_rows(targets.columns, scored), predict(_rows(embeddings, scored)), targets)

    def measure(self, evaluation: Evaluation) -> Measurement:
        """Return R2 of the targets and of permuted targets, fitted at once, and its statistic for the fitted map."""
        targets, columns = evaluation.targets, evaluation.targets.columns
        fitted, scored = evaluation.halves
        orders = [np.arange(len(columns)), *evaluation.orders]
        outputs = np.hstack([_rows(columns, order[fitted]) for order in orders])
        predict = self.regressor(evaluation.protocol)(_rows(evaluation.embeddings, fitted), outputs)
        predicted = predict(_rows(evaluation.embeddings, scored))
        predictions = np.split(predicted, len(orders), axis=1)
        values, *chance = (
            determination(_rows(columns, order[scored]), prediction, targets)
            for order, prediction in zip(orders, predictions, strict=True)
        )
        return Measurement(values, np.stack(chance), r2_statistic(predictions[0], targets, ~evaluation.fitted))


def _rows(values: Array, chosen: npt.NDArray[np.int64]) -> Array:
    """Return some of the rows of an array in Fortran's order, in that order."""
    return np.asarray(np.take(values.T, chosen, axis=1).T)


AFFINE_R2 = ExplainedVariance("R2", AffineMap.fit, is_extra=False, ridge=RidgeMap.fit)


def affine_r2(
    latents: Any,
    embeddings: Any,
    ids: Any = None,
    *,
    latent_ids: Any = None,
    factors: Factors | None = None,
    protocol: str | EvaluationProtocol = DEFAULT_PROTOCOL,
) -> FactorScores:
    r"""Compute R2 up to affine maps: fitted on one half of the rows, scored on the other.

    For a factor z with the fitted map's prediction, over the scored rows n:

    $$R^2 = 1 - \frac{\sum_n (z_n - \hat{z}_n)^2}{\sum_n (z_n - \bar{z})^2}$$

    Example:
        >>> import ident3d
        >>> z = ident3d.sample_latents(500)
        >>> round(float(ident3d.metrics.affine_r2(z, 3 * z[:, ::-1] + 1)), 4)
        1.0

    Args:
        latents: (N, k) raw latents, or a dataset.
        embeddings: (N, d) embeddings of the same rows.
        ids: (N,) unique integers, the embeddings' ids, which decide the halves; the row numbers where None.
        latent_ids: (N,) the latents' ids, by which rows are matched; see :meth:`Evaluation.of`.
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
    evaluation = Evaluation.of(latents, embeddings, ids, latent_ids=latent_ids, factors=factors, protocol=protocol)
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
