"""Nonlinear R2: what a smooth function of the embeddings explains beyond an affine map.

The regressor is the affine map plus kernel ridge regression of its residuals, with a Gaussian kernel on at most 500
landmarks (Nystrom). The kernel's width and the ridge are chosen by generalised cross-validation on the fitted rows; no
nonlinear part at all is among the choices. One regressor for everybody, so that numbers can be compared; it is a lower
bound on what some function could explain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.factors import Factors
from ident3d.metrics.evaluation import DEFAULT_PROTOCOL, Evaluation, EvaluationProtocol, diagnose, warn_of
from ident3d.metrics.metric import FactorScores
from ident3d.metrics.r2 import AffineMap, ExplainedVariance, RidgeMap

__all__ = ["NONLINEAR_R2", "NonlinearMap", "nonlinear_r2"]

_LANDMARKS = 500
_WIDTHS = (0.5, 1.0, 2.0)  # of the kernel, in units of the median distance
_RIDGES = (*np.logspace(-6, -1, 6), np.inf)  # for each row; infinite: no nonlinear part
_FLOOR = 1e-8  # eigenvalues of the landmarks' kernel below this fraction of the largest are noise

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Features:
    """Nystrom features: inner products of features approximate the Gaussian kernel.

    Attributes:
        landmarks: (m, d) inputs.
        width: width of the kernel.
        root: (m, r) inverse root of the landmarks' kernel matrix.
    """

    landmarks: Array
    width: float
    root: Array

    @classmethod
    def of(cls, landmarks: Array, width: float) -> _Features:
        values, vectors = np.linalg.eigh(_gaussian(landmarks, landmarks, width))
        kept = values > _FLOOR * values[-1]
        return cls(landmarks, width, vectors[:, kept] / np.sqrt(values[kept]))

    def __call__(self, inputs: Array) -> Array:
        return _gaussian(inputs, self.landmarks, self.width) @ self.root


@dataclass(frozen=True)
class NonlinearMap:
    """An affine map plus kernel ridge regression of its residuals.

    Attributes:
        affine: the affine map.
        parts: features of each kernel width that some output uses, with their (r, C) weights; 0 for the others.
    """

    affine: AffineMap
    parts: tuple[tuple[_Features, Array], ...]

    @classmethod
    def fit(cls, inputs: Array, outputs: Array) -> NonlinearMap:
        """Fit the map from (N, d) inputs to (N, C) outputs. Each output has the width and the ridge that suit it."""
        return cls._beside(AffineMap.fit(inputs, outputs), inputs, outputs)

    @classmethod
    def fit_ridge(cls, inputs: Array, outputs: Array) -> NonlinearMap:
        """Fit the map likewise, with a ridge regression as its affine part."""
        return cls._beside(RidgeMap.fit(inputs, outputs), inputs, outputs)

    @classmethod
    def _beside(cls, affine: AffineMap, inputs: Array, outputs: Array) -> NonlinearMap:
        landmarks = inputs[np.linspace(0, len(inputs) - 1, min(_LANDMARKS, len(inputs))).astype(int)]
        unit = _median_distance(landmarks)
        residual = outputs - affine(inputs)
        kernels = [_Features.of(landmarks, width * unit) for width in _WIDTHS]
        fits = [_ridge(features(inputs), residual) for features in kernels]
        best = np.stack([error for error, _ in fits]).argmin(axis=0)
        parts = [
            (kernels[i], np.where(best == i, weight, 0)) for i, (_, weight) in enumerate(fits) if (best == i).any()
        ]
        return cls(affine, tuple(parts))

    def __call__(self, inputs: Array) -> Array:
        """Map (N, d) inputs to (N, C) outputs."""
        return sum((features(inputs) @ weight for features, weight in self.parts), self.affine(inputs))


NONLINEAR_R2 = ExplainedVariance("R2 nonlin", NonlinearMap.fit, ridge=NonlinearMap.fit_ridge)


def nonlinear_r2(
    latents: Any,
    embeddings: Any,
    ids: Any = None,
    *,
    latent_ids: Any = None,
    factors: Factors | None = None,
    protocol: str | EvaluationProtocol = DEFAULT_PROTOCOL,
) -> FactorScores:
    """Compute the nonlinear R2: fitted on one half of the rows, scored on the other.

    Example:
        >>> import ident3d
        >>> z = ident3d.sample_latents(500)[:, :2]
        >>> bool(float(ident3d.metrics.nonlinear_r2(z, z**3)) > float(ident3d.metrics.affine_r2(z, z**3)))
        True

    Args:
        latents: (N, k) raw latents, or a dataset.
        embeddings: (N, d) embeddings of the same rows.
        ids: (N,) unique integers, the embeddings' ids, which decide the halves; the row numbers where None.
        latent_ids: (N,) the latents' ids, by which rows are matched; see :meth:`Evaluation.of`.
        factors: the factors of the latents' columns; 3DIdent's where None and k is 10.
        protocol: the protocol, or its name.

    Returns:
        R2 of each factor, of each group, and mean over factors.

    Raises:
        ValueError, TypeError: see :meth:`Evaluation.of`.

    Warns:
        DegenerateEmbeddingWarning: as :func:`~ident3d.metrics.score` does.

    Reference:
        Williams and Seeger, Using the Nystrom method to speed up kernel machines (2001); Golub, Heath and Wahba,
        Generalized cross-validation as a method for choosing a good ridge parameter (1979).
    """
    evaluation = Evaluation.of(latents, embeddings, ids, latent_ids=latent_ids, factors=factors, protocol=protocol)
    warn_of(diagnose(evaluation)[1])
    return FactorScores.of(evaluation.targets.factors, NONLINEAR_R2.values(evaluation))


def _ridge(phi: Array, residual: Array) -> tuple[Array, Array]:
    """Return each column's smallest cross-validation error over the ridges, (C,), and the (r, C) weights that have it.

    With phi = U S V', the squared error and the degrees of freedom of every ridge follow from S and from V' phi'
    residual.
    """
    rows = len(phi)
    values, vectors = np.linalg.eigh(phi.T @ phi)
    values = values.clip(0)
    rotated = vectors.T @ (phi.T @ residual)
    total = (residual**2).sum(axis=0)
    errors = []
    for ridge in _RIDGES:
        shrunk = 1 / (values + ridge * rows)
        squared = total - (2 * shrunk - values * shrunk**2) @ rotated**2
        errors.append(squared / rows / (1 - (values * shrunk).sum() / rows) ** 2)
    best = np.array(_RIDGES)[np.argmin(errors, axis=0)]
    return np.min(errors, axis=0), vectors @ (rotated / (values[:, None] + best * rows))


def _gaussian(a: Array, b: Array, width: float) -> Array:
    kernel: Array = np.exp(-_squared_distances(a, b) / (2 * width**2))
    return kernel


def _squared_distances(a: Array, b: Array) -> Array:
    squared = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * (a @ b.T)
    return np.asarray(np.maximum(squared, 0))


def _median_distance(landmarks: Array) -> float:
    distance = float(np.sqrt(np.median(_squared_distances(landmarks, landmarks))))
    return distance if distance > 0 else 1.0
