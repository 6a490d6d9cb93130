"""Evaluations: latents and embeddings, checked, joined by id and put into the order of the ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.factors import Factors, resolve_factors
from ident3d.latents import check_finite
from ident3d.metrics.protocols import Protocol, get_protocol
from ident3d.metrics.targets import Targets

__all__ = ["Evaluation", "as_array", "as_ids", "as_matrix"]


@dataclass(frozen=True)
class Evaluation:
    """What every metric starts from. Rows are in the order of their ids, so the order they came in changes nothing.

    Attributes:
        protocol: the protocol.
        targets: the factors' target columns.
        embeddings: (N, d) float64, each dimension with mean 0 and variance 1; a constant one is 0.
        scale: (d,) the standard deviation that each dimension had; 0 for a constant one.
        resolution: relative rounding error of the numbers that came in.
        fitted: (N,) bool: the rows that regressions are fitted on.
    """

    protocol: Protocol
    targets: Targets
    embeddings: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    resolution: float
    fitted: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        latents: Any,
        embeddings: Any,
        ids: Any = None,
        *,
        factors: Factors | None = None,
        protocol: str | Protocol,
    ) -> Evaluation:
        """Check the arrays and prepare them.

        Args:
            latents: (N, k) raw latents; numpy, torch, or nested lists.
            embeddings: (N, d) embeddings of the same rows.
            ids: (N,) unique integers; the row numbers where None.
            factors: the factors, one a column of the latents; see :func:`~ident3d.factors.resolve_factors`.
            protocol: the protocol, or its name.

        Raises:
            ValueError: if shapes disagree, a value is NaN or infinite, ids are doubled, no latent varies, or there are
                too few rows for the width.
            TypeError: if an array is not numeric.
        """
        protocol = get_protocol(protocol)
        z = as_matrix(latents, "latents")
        x = as_matrix(embeddings, "embeddings")
        factors = resolve_factors(factors, z.shape[1])
        if len(z) != len(x):
            raise ValueError(f"expected as many embeddings as latents, got {len(x)} embeddings and {len(z)} latents")
        check_finite(z, "latents", factors.names)
        check_finite(x, "embeddings")
        order, sorted_ids = _order(ids, len(z))
        order, sorted_ids = order[: protocol.max_rows], sorted_ids[: protocol.max_rows]
        fitted = protocol.fitted(sorted_ids)
        _check_enough_rows(fitted, x.shape[1])
        targets = Targets.of(z[order].astype(np.float64), factors)
        return cls(protocol, targets, *_standardised(x, order), fitted)


def as_array(values: Any) -> npt.NDArray[Any]:
    """Return numbers as a numpy array; a torch tensor is detached and brought to the CPU."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # numpy has no bfloat16
        values = values.float() if values.dtype.is_floating_point and values.dtype.itemsize < 4 else values
        return np.asarray(values.numpy())
    return np.asarray(values)


def as_matrix(values: Any, what: str) -> npt.NDArray[Any]:
    """Return real numbers as an array with at least one row and one column; TypeError or ValueError for others."""
    array = as_array(values)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{what} must be real numbers, got dtype {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"expected {what} of shape (rows, columns) with at least one of each, got shape {array.shape}")
    return array


def as_ids(ids: Any, rows: int) -> npt.NDArray[np.integer[Any]]:
    """Return the ids of so many rows, their numbers where None; TypeError or ValueError for others."""
    if ids is None:
        return np.arange(rows)
    array = as_array(ids)
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, got dtype {array.dtype}")
    if array.shape != (rows,):
        raise ValueError(f"expected one id for each of the {rows} rows, got shape {array.shape}")
    return array


def _order(ids: Any, rows: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    array = as_ids(ids, rows)
    order = np.argsort(array, kind="stable")
    sorted_ids = array[order].astype(np.int64)
    doubled = sorted_ids[1:][sorted_ids[1:] == sorted_ids[:-1]]
    if len(doubled):
        raise ValueError(f"ids must be unique: {doubled[0]} occurs more than once ({len(doubled)} repetitions in all)")
    return order, sorted_ids


def _check_enough_rows(fitted: npt.NDArray[np.bool_], width: int) -> None:
    # an affine map to one column has width + 1 parameters, which as many rows always satisfy exactly
    rows, scored = int(fitted.sum()), int((~fitted).sum())
    if rows < width + 2 or scored < 2:
        raise ValueError(
            f"too few rows for embeddings of {width} dimensions: of {len(fitted)} rows {rows} are fitted and {scored} "
            f"are scored; at least {width + 2} and 2 are needed, so give about {2 * (width + 2) + 10} rows or more"
        )


def _standardised(
    embeddings: npt.NDArray[Any], order: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float]:
    kind = embeddings.dtype
    resolution = float(np.finfo(kind).eps) if kind.kind == "f" else float(np.finfo(np.float64).eps)
    x = embeddings[order].astype(np.float64)
    largest = np.abs(x).max(axis=0)
    x /= np.where(largest > 0, largest, 1)  # before any square, which may overflow
    x -= x.mean(axis=0)
    deviation = np.sqrt(np.einsum("nd,nd->d", x, x) / len(x))
    constant = deviation <= 4 * resolution
    x /= np.where(constant, 1, deviation)
    x[:, constant] = 0
    return x, np.where(constant, 0, deviation * largest), resolution
