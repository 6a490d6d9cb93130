"""Evaluations: latents and embeddings, checked, joined by id and put into the order of the ids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.factors import Factor, Factors, resolve_factors
from ident3d.latents import check_finite

__all__ = [
    "DEFAULT_PROTOCOL",
    "PROTOCOLS",
    "Evaluation",
    "Halves",
    "Protocol",
    "Targets",
    "as_array",
    "as_ids",
    "as_matrix",
    "get_protocol",
    "hashed_half",
]

# splitmix64: every bit of the result depends on every bit of the id
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


class Halves(Enum):
    """How the rows of a split are divided into a fitted and a scored half."""

    HASHED = "hashed"
    """By a hash of the sample id: a sample stays in its half whatever the other rows are."""
    FIRST_SECOND = "first-second"
    """The first half, in the order of the ids, is fitted; the second is scored."""


@dataclass(frozen=True)
class Protocol:
    """How scores are computed. A protocol never changes once scores were reported under its name.

    Attributes:
        name: the name under which scores are reported.
        halves: how rows are divided for the regressions; correlations use all rows.
        max_rows: only the first rows, in the order of the ids, are used; all of them where None.
        draws: bootstrap draws behind an interval.
        permutations: row permutations behind a chance level.
        seed: seed of the bootstrap draws and the permutations.
    """

    name: str
    halves: Halves
    max_rows: int | None = None
    draws: int = 1000
    permutations: int = 20
    seed: int = 0

    def fitted(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which rows are fitted on; the others are scored.

        Args:
            ids: (N,) sample ids, ascending.

        Returns:
            (N,) bool.
        """
        if self.halves is Halves.HASHED:
            return hashed_half(ids)
        return np.arange(len(ids)) < len(ids) // 2


def hashed_half(ids: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
    """Return which samples belong to the fitted half: the top bit of splitmix64 of the id is 0.

    Args:
        ids: (N,) integers.

    Returns:
        (N,) bool; entry i depends on ids[i] only.
    """
    word = ids.astype(np.int64).view(np.uint64) + _GOLDEN
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    word ^= word >> np.uint64(31)
    lower: npt.NDArray[np.bool_] = (word >> np.uint64(63)) == 0
    return lower


DEFAULT_PROTOCOL = "ident3d-1"

PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(DEFAULT_PROTOCOL, Halves.HASHED),
        Protocol("paper", Halves.FIRST_SECOND, max_rows=4096),
    )
}
"""The protocols by name: ``ident3d-1``, ours, and ``paper``, that of Zimmermann et al. (2021)."""


def get_protocol(protocol: str | Protocol) -> Protocol:
    """Return the protocol of that name; ValueError with the known names if there is none."""
    if isinstance(protocol, Protocol):
        return protocol
    if protocol not in PROTOCOLS:
        raise ValueError(f"no protocol {protocol!r}; the protocols are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[protocol]


_CONSTANT = 1e-12


@dataclass(frozen=True)
class Targets:
    """The target columns of the factors that vary.

    A circular factor with phase t has the columns (cos t, sin t): values on both sides of the wrap are neighbours, so
    a wrap costs nothing.

    Attributes:
        factors: the factors that are scored.
        constant: names of the factors that do not vary, which nothing can be said about.
        columns: (N, C) float64 target columns.
        owner: (C,) the position in ``factors`` of each column's factor.
    """

    factors: tuple[Factor, ...]
    constant: tuple[str, ...]
    columns: npt.NDArray[np.float64]
    owner: npt.NDArray[np.int64]

    @classmethod
    def of(cls, latents: npt.NDArray[np.float64], factors: Factors) -> Targets:
        """Return the targets of raw latents.

        Args:
            latents: (N, len(factors)) finite raw latents.
            factors: the factors, one a column.

        Raises:
            ValueError: if no factor varies, or a circular factor leaves [-1, 1].
        """
        spread = np.ptp(latents, axis=0)
        varies = spread > _CONSTANT * np.maximum(1, np.abs(latents).max(axis=0))
        if not varies.any():
            raise ValueError(
                f"none of the {len(factors)} latents varies over the {len(latents)} rows: nothing to score"
            )
        kept = tuple(factor for factor, keep in zip(factors, varies, strict=True) if keep)
        constant = tuple(factor.name for factor, keep in zip(factors, varies, strict=True) if not keep)
        columns: list[npt.NDArray[np.float64]] = []
        owner: list[int] = []
        for position, (factor, values) in enumerate(zip(kept, latents[:, varies].T, strict=True)):
            if factor.is_circular:
                if np.abs(values).max() > 1 + 1e-6:
                    raise ValueError(
                        f"{factor.name} lies on a circle, so its raw latents lie in [-1, 1]; "
                        f"got values from {values.min()} to {values.max()}"
                    )
                columns += [np.cos(np.pi * values), np.sin(np.pi * values)]
                owner += [position, position]
            else:
                columns.append(values)
                owner.append(position)
        return cls(kept, constant, np.stack(columns, axis=1), np.array(owner))

    def pooled(self, by_column: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum values of the columns into values of their factors: (..., C) to (..., F)."""
        belongs = (self.owner[:, None] == np.arange(len(self.factors))).astype(np.float64)
        return np.asarray(by_column @ belongs)


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
