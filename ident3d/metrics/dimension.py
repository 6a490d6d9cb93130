"""Dimension: how many dimensions embeddings use, and which of theirs are dead, constant or doubled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.metrics.evaluation import Evaluation

__all__ = ["DegenerateEmbeddingWarning", "Dimension", "diagnose"]

_NAMED = 8  # so many offenders are named; the others are counted


class DegenerateEmbeddingWarning(UserWarning):
    """Embeddings have dimensions that carry nothing of their own. They were scored for what they are worth."""


@dataclass(frozen=True)
class Dimension:
    """How many dimensions the embeddings use.

    Attributes:
        rank: numerical rank of the standardised dimensions.
        participation_ratio: (sum of eigenvalues)^2 / sum of their squares, of the covariance: d when all directions
            vary alike, 1 when a single one does, 0 when nothing varies.

    Reference:
        Gao et al., A theory of multineuronal dimensionality, dynamics and measurement (2017), for the ratio.
    """

    rank: int
    participation_ratio: float

    def __str__(self) -> str:
        return f"rank {self.rank}, participation ratio {self.participation_ratio:.2f}"

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {"rank": self.rank, "participation_ratio": self.participation_ratio}


def diagnose(evaluation: Evaluation) -> tuple[Dimension, tuple[str, ...]]:
    """Return the dimension, and one sentence for each thing that is wrong with the embeddings.

    Named are constant dimensions, dimensions that are an affine copy of an earlier one, and embeddings that span
    fewer directions than their other dimensions would let one expect.
    """
    correlations = _correlations(evaluation)
    found = _dimension(correlations, evaluation)
    constant = np.flatnonzero(evaluation.scale == 0)
    copies = np.abs(np.tril(correlations, -1)) > 1 - max(1e-9, 8 * evaluation.resolution)
    doubled = np.flatnonzero(copies.any(axis=1))
    warnings = []
    if len(constant):
        warnings.append(f"{_dimensions(constant)} constant over all rows and score nothing: {_names(constant)}")
    if len(doubled):
        pairs = [f"{row} of {int(np.argmax(copies[row]))}" for row in doubled[:_NAMED]]
        warnings.append(
            f"{_dimensions(doubled)} a copy of another, up to shift and scale: {_listed(pairs, len(doubled))}"
        )
    distinct = evaluation.embeddings.shape[1] - len(constant) - len(doubled)
    if found.rank < distinct:
        warnings.append(f"the {distinct} distinct dimensions are collinear: they span {found.rank}")
    return found, tuple(warnings)


def _correlations(evaluation: Evaluation) -> npt.NDArray[np.float64]:
    x = evaluation.embeddings
    return x.T @ x / len(x)


def _dimension(correlations: npt.NDArray[np.float64], evaluation: Evaluation) -> Dimension:
    width = len(correlations)
    eigenvalues = np.linalg.eigvalsh(correlations)
    # singular values count from width * resolution up; float64 sums are no better than width * eps
    threshold = max((width * evaluation.resolution) ** 2, width * float(np.finfo(np.float64).eps))
    rank = int((eigenvalues > threshold * max(eigenvalues[-1], 0)).sum())
    relative = evaluation.scale / max(evaluation.scale.max(), np.finfo(np.float64).tiny)
    covariance = correlations * relative * relative[:, None]
    squares = float((covariance**2).sum())
    return Dimension(rank, float(np.trace(covariance)) ** 2 / squares if squares > 0 else 0.0)


def _dimensions(which: npt.NDArray[np.int64]) -> str:
    return f"{len(which)} dimension{'s are' if len(which) > 1 else ' is'}"


def _names(which: npt.NDArray[np.int64]) -> str:
    return _listed([str(i) for i in which[:_NAMED]], len(which))


def _listed(names: list[str], count: int) -> str:
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return ", ".join(names) + more
