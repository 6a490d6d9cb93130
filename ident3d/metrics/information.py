"""Information: an InfoNCE estimate of the mutual information between the embeddings of the two views of a pair."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import logsumexp

from ident3d.latents import check_finite
from ident3d.metrics.evaluation import as_ids, as_matrix, hashed_half

__all__ = ["Information", "information"]

_FIT_ITEMS = 512
_FIT_BLOCKS = 8
_RIDGE = 1e-9

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Information:
    """An estimate of mutual information, in nats.

    Attributes:
        estimate: the InfoNCE estimate, a lower bound in expectation.
        items: number of items that a positive was told apart from, itself included.
        true: the mutual information of the latents; None where none was given.
    """

    estimate: float
    items: int
    true: float | None = None

    @property
    def cap(self) -> float:
        """The logarithm of ``items``: no estimate of this kind is larger."""
        return math.log(self.items)

    @property
    def share(self) -> float | None:
        """The share of the true mutual information that the estimate accounts for; None where that is not known."""
        return None if self.true is None else self.estimate / self.true

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "estimate": self.estimate,
            "cap": self.cap,
            "items": self.items,
            "true": self.true,
            "share": self.share,
        }


def information(
    embeddings: Any, embeddings_pos: Any, ids: Any = None, *, items: int = 4096, true: float | None = None
) -> Information:
    """Estimate the mutual information between the embeddings of two views, from pairs.

    The critic is a weighted sum of u v, v and v^2 over the canonical coordinates (u, v) of the two views: exact for
    jointly normal embeddings and for von Mises-Fisher pairs, and never an overestimate in expectation. It is fitted on
    half of the pairs, a concave problem, and the estimate is made on the other half.

    Example:
        >>> import ident3d
        >>> u = ident3d.sample_latents(2000)[:, :2]
        >>> unrelated = ident3d.sample_latents(2000, seed=1)[:, :2]
        >>> abs(ident3d.metrics.information(u, unrelated).estimate) < 0.05
        True

    Args:
        embeddings: (N, d) embeddings of the anchors.
        embeddings_pos: (N, d) embeddings of the positives; the width may differ.
        ids: (N,) integers, one per pair, that decide the halves; the row numbers where None.
        items: number of items K that a positive is told apart from, itself included; fewer where the scored half has
            fewer. The estimate cannot exceed ln K.
        true: the true mutual information of the latents in nats, for the share kept.

    Returns:
        The estimate in nats, with its cap.

    Raises:
        ValueError: if shapes disagree, a value is NaN or infinite, items is below 2, true is not positive and finite,
            or there are fewer than 4 pairs in a half or too few for the width.
        TypeError: if an array is not numeric, or ids are not integers.

    Reference:
        van den Oord et al., Representation learning with contrastive predictive coding (2018); Poole et al., On
        variational bounds of mutual information (2019), eq. 10.
    """
    u, v = as_matrix(embeddings, "embeddings"), as_matrix(embeddings_pos, "embeddings_pos")
    if len(u) != len(v):
        raise ValueError(f"expected two arrays (N, d) of as many rows, got shapes {u.shape} and {v.shape}")
    if items < 2 or (true is not None and not 0 < true < math.inf):
        raise ValueError(f"expected at least 2 items and a positive true information, got {items} and {true}")
    check_finite(u, "embeddings")
    check_finite(v, "embeddings_pos")
    keys = as_ids(ids, len(u))
    order = np.argsort(keys, kind="stable")
    u, v, fitted = u[order].astype(np.float64), v[order].astype(np.float64), hashed_half(keys[order])
    least = max(u.shape[1], v.shape[1]) + 2
    if fitted.sum() < max(4, least) or (~fitted).sum() < 4:
        raise ValueError(f"too few pairs: {len(u)}, for embeddings of {u.shape[1]} and {v.shape[1]} dimensions")
    u, v = _canonical(u, v, fitted)
    weight = _fit(u[fitted], v[fitted])
    u, v = u[~fitted], v[~fitted]
    items = min(items, len(u))
    blocks = [slice(start, start + items) for start in range(0, len(u) - items + 1, items)]
    losses = [_loss(weight, u[block], v[block])[0] for block in blocks]
    return Information(math.log(items) - float(np.mean(losses)), items, true)


def _canonical(u: Array, v: Array, fitted: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the canonical coordinates of both views, from the fitted rows, with unit variance there."""
    u, v = _whitened(u, fitted), _whitened(v, fitted)
    left, _, right = np.linalg.svd(u[fitted].T @ v[fitted] / fitted.sum(), full_matrices=False)
    return u @ left, v @ right.T


def _whitened(x: Array, fitted: npt.NDArray[np.bool_]) -> Array:
    scale = np.abs(x - x[fitted].mean(axis=0)).max(axis=0)
    x = (x - x[fitted].mean(axis=0)) / np.where(scale > 0, scale, 1)
    values, vectors = np.linalg.eigh(x[fitted].T @ x[fitted] / fitted.sum())
    kept = values > len(values) * 1e-12 * max(values[-1], np.finfo(np.float64).tiny)
    white: Array = x @ (vectors[:, kept] / np.sqrt(values[kept]))
    return white


def _fit(u: Array, v: Array) -> Array:
    """Return the (3, m) weights of u v, v and v^2 that maximise the bound."""
    size = min(_FIT_ITEMS, len(u))
    blocks = [slice(start, start + size) for start in range(0, len(u) - size + 1, size)][:_FIT_BLOCKS]

    def objective(flat: Array) -> tuple[float, Array]:
        weight = flat.reshape(3, -1)
        terms = [_loss(weight, u[block], v[block]) for block in blocks]
        loss = float(np.mean([loss for loss, _ in terms])) + _RIDGE * float(flat @ flat)
        gradient = np.mean([gradient for _, gradient in terms], axis=0).ravel() + 2 * _RIDGE * flat
        return loss, gradient

    start = np.zeros(3 * u.shape[1])
    return np.asarray(
        minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x.reshape(3, -1)
    )


def _loss(weight: Array, u: Array, v: Array) -> tuple[float, Array]:
    """Return the InfoNCE loss of a block, and its gradient by the weights."""
    logits = (u * weight[0]) @ v.T + (v @ weight[1] + v**2 @ weight[2])
    normaliser = logsumexp(logits, axis=1)
    error = np.exp(logits - normaliser[:, None])
    error[np.diag_indices(len(u))] -= 1
    error /= len(u)
    by_positive = error.sum(axis=0)
    gradient = np.stack([np.einsum("am,am->m", u, error @ v), by_positive @ v, by_positive @ v**2])
    return float((normaliser - np.diag(logits)).mean()), gradient
