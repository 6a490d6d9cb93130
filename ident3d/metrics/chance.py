"""Chance: what embeddings score that know nothing of the latents, because the latents' rows were permuted.

The embeddings keep their width, their rows and their structure, so a metric that rises with the width has the chance
level that belongs to it. Rows are permuted whole: factors that depend on each other still do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ident3d.metrics.evaluation import Targets
from ident3d.metrics.mcc import correlations, match
from ident3d.metrics.r2 import determination

__all__ = ["chance_correlation", "permutations", "r2_with_chance"]

Array = npt.NDArray[np.float64]
Regressor = Callable[[Array, Array], Callable[[Array], Array]]
"""Fits (N, d) inputs to (N, C) outputs; returns the map."""


def permutations(rows: int, count: int, generator: np.random.Generator) -> list[npt.NDArray[np.int64]]:
    """Return ``count`` permutations of the rows."""
    return [generator.permutation(rows) for _ in range(count)]


def r2_with_chance(
    fit: Regressor,
    embeddings: Array,
    targets: Targets,
    fitted: npt.NDArray[np.bool_],
    orders: list[npt.NDArray[np.int64]],
) -> tuple[Array, Array]:
    """Fit a regressor to the targets and to permuted targets at once, and predict the scored rows.

    One factorisation of the embeddings serves all of them.

    Args:
        fit: the regressor; it treats each output column for itself.
        embeddings: (N, d) standardised embeddings.
        targets: the factors' target columns.
        fitted: (N,) bool: the rows to fit on.
        orders: permutations of the rows.

    Returns:
        (S, C) predictions of the targets on the S scored rows; (P, F) R2 of each factor under each permutation.
    """
    columns = targets.columns
    stacked = np.hstack([columns, *(columns[order] for order in orders)])
    predicted = fit(embeddings[fitted], stacked[fitted])(embeddings[~fitted])
    width = columns.shape[1]
    blocks = [slice(start, start + width) for start in range(width, stacked.shape[1], width)]
    truth = stacked[~fitted]
    chance = [determination(truth[:, block], predicted[:, block], targets) for block in blocks]
    return predicted[:, :width], np.stack(chance)


def chance_correlation(
    embeddings: Array, columns: Array, targets: Targets, orders: list[npt.NDArray[np.int64]]
) -> Array:
    """Return the (P, F) matched correlations of each factor under each permutation; see ``correlations``."""
    return np.stack([match(table).values for table in correlations(embeddings, columns, targets, orders)])
