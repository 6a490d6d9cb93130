"""DCI: disentanglement, completeness and informativeness of an embedding's dimensions, from lasso regressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from jaxtyping import Float64

from ident3d.metrics.evaluation import Evaluation
from ident3d.metrics.metric import Metric
from ident3d.metrics.r2 import determination

__all__ = ["DCI", "Disentanglement", "completeness", "disentanglement", "disentanglement_of", "lasso"]

_PENALTIES = np.logspace(-1, -4, 7)  # as fractions of the penalty that leaves nothing
_TOLERANCE = 1e-3
_MAX_SWEEPS = 100

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Disentanglement:
    """DCI.

    Attributes:
        disentanglement: 1 when each dimension serves a single factor; dimensions weigh by their importance.
        completeness: 1 when each factor is served by a single dimension; mean over factors.
        informativeness: R2 of the lasso regressions on the scored rows, mean over factors.
    """

    key: ClassVar[str] = "disentanglement"

    disentanglement: float
    completeness: float
    informativeness: float

    def __str__(self) -> str:
        return (
            f"DCI: disentanglement {self.disentanglement:.4f}, completeness {self.completeness:.4f}, "
            f"informativeness {self.informativeness:.4f}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "disentanglement": self.disentanglement,
            "completeness": self.completeness,
            "informativeness": self.informativeness,
        }


class DCI(Metric):
    """Disentanglement, completeness and informativeness: numbers of the embeddings as a whole."""

    label = "DCI"

    def measure(self, evaluation: Evaluation) -> Disentanglement:
        """Return the three numbers; see :func:`disentanglement`."""
        return disentanglement(evaluation)


def disentanglement(evaluation: Evaluation) -> Disentanglement:
    """Compute DCI of an evaluation's embeddings.

    Standardised targets are regressed on the standardised dimensions of the fitted rows by lasso, the penalty of each
    target chosen on a fifth of them. The importance of a dimension for a factor is its absolute weight, summed over
    the factor's columns.

    Reference:
        Eastwood and Williams, A framework for the quantitative evaluation of disentangled representations (2018).
        Informativeness is given as R2, not as an error.
    """
    targets, fitted = evaluation.targets, evaluation.fitted
    centre, deviation = targets.columns[fitted].mean(axis=0), targets.columns[fitted].std(axis=0)
    columns = (targets.columns - centre) / np.where(deviation > 0, deviation, 1)
    x, y = evaluation.embeddings[fitted], columns[fitted]
    held_out = np.arange(len(x)) % 5 == 0
    paths = _path(x[~held_out], y[~held_out])
    errors = np.stack(
        [((y[held_out] - _predict(x[~held_out], y[~held_out], w, x[held_out])) ** 2).mean(axis=0) for w in paths]
    )
    best = errors.argmin(axis=0)
    weight = np.stack([path[:, column] for column, path in enumerate(np.stack(_path(x, y))[best])], axis=1)
    prediction = _predict(x, y, weight, evaluation.embeddings[~fitted])
    importance = targets.pooled(np.abs(weight))
    return Disentanglement(
        disentanglement_of(importance),
        completeness(importance),
        float(determination(columns[~fitted], prediction, targets).mean()),
    )


def disentanglement_of(importance: Float64[Array, "d f"]) -> float:
    """Return the disentanglement of (d, F) importances; 0 where nothing is important."""
    total = importance.sum()
    return float(importance.sum(axis=1) / total @ _concentration(importance)) if total > 0 else 0.0


def completeness(importance: Float64[Array, "d f"]) -> float:
    """Return the completeness of (d, F) importances, mean over factors; a factor without importance counts 0."""
    return float(_concentration(importance.T).mean())


def lasso(
    gram: Float64[Array, "d d"],
    moment: Float64[Array, "d c"],
    penalty: Float64[Array, " c"],
    start: Float64[Array, "d c"],
) -> Float64[Array, "d c"]:
    """Minimise w' gram w / 2 - moment' w + penalty |w|_1 for each column, by coordinate descent.

    Args:
        gram: (d, d) second moments of the inputs.
        moment: (d, C) moments of inputs and outputs.
        penalty: (C,) penalties.
        start: (d, C) weights to start from.

    Returns:
        (d, C) weights.
    """
    weight = start.copy()
    alive = np.flatnonzero(np.diag(gram) > 0)
    for _ in range(_MAX_SWEEPS):
        moved = 0.0
        for i in alive:
            free = moment[i] - gram[i] @ weight + gram[i, i] * weight[i]
            new = np.sign(free) * np.maximum(np.abs(free) - penalty, 0) / gram[i, i]
            moved = max(moved, float(np.abs(new - weight[i]).max()))
            weight[i] = new
        if moved < _TOLERANCE:
            break
    return weight


def _path(x: Array, y: Array) -> list[Array]:
    """Return the (d, C) lasso weights for each of the penalties, the largest first."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    gram, moment = x.T @ x / len(x), x.T @ y / len(x)
    largest = np.abs(moment).max(axis=0)
    weight, path = np.zeros_like(moment), []
    for fraction in _PENALTIES:
        weight = lasso(gram, moment, fraction * largest, weight)
        path.append(weight)
    return path


def _predict(x: Array, y: Array, weight: Array, inputs: Array) -> Array:
    """Apply weights that were fitted on centred x and y."""
    prediction: Array = (inputs - x.mean(axis=0)) @ weight + y.mean(axis=0)
    return prediction


def _concentration(importance: Array) -> Array:
    """Return 1 - entropy of each row's shares, in units of the largest possible entropy; 0 for a row of zeros."""
    total = importance.sum(axis=1, keepdims=True)
    shares = importance / np.where(total > 0, total, 1)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy = -(shares * logs).sum(axis=1)
    if importance.shape[1] > 1:
        entropy /= np.log(importance.shape[1])
    return np.where(total[:, 0] > 0, np.clip(1 - entropy, 0, 1), 0)
