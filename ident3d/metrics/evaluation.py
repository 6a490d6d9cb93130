"""Evaluations: what every metric starts from.

Latents and embeddings are checked, joined by id, put into the order of the ids and divided into a fitted and a scored
half, as an :class:`EvaluationProtocol` says. Embeddings with dimensions that carry nothing of their own are scored for
what they are worth; :func:`diagnose` names those dimensions.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.arguments import as_array
from ident3d.factors import Factor, Factors, resolve_factors
from ident3d.latents import check_finite
from ident3d.randomness import generator
from ident3d.registry import Registry

__all__ = [
    "DEFAULT_PROTOCOL",
    "PROTOCOLS",
    "WIDE_PROTOCOL",
    "AffineFit",
    "DegenerateEmbeddingWarning",
    "Dimension",
    "Evaluation",
    "EvaluationProtocol",
    "Halves",
    "Targets",
    "as_ids",
    "as_matrix",
    "diagnose",
    "hashed_half",
    "protocol_for",
    "warn_of",
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


class AffineFit(Enum):
    """How the affine map behind R2 is fitted on the fitted half."""

    LEAST_SQUARES = "least-squares"
    """Ordinary least squares, which takes more fitted rows than the embeddings have dimensions."""
    RIDGE = "ridge"
    """Ridge regression, for embeddings of any width: see :class:`~ident3d.metrics.r2.RidgeMap`."""


@dataclass(frozen=True)
class EvaluationProtocol:
    """How scores are computed. A protocol never changes once scores were reported under its name.

    Example:
        >>> import ident3d
        >>> list(ident3d.metrics.PROTOCOLS)
        ['ident3d-1', 'ident3d-2', 'paper']
        >>> ident3d.metrics.PROTOCOLS["paper"].max_rows
        4096

    Attributes:
        name: the name under which scores are reported.
        halves: how rows are divided for the regressions; correlations use all rows.
        max_rows: only the first rows, in the order of the ids, are used; all of them where None.
        draws: bootstrap draws behind an interval.
        permutations: row permutations behind a chance level.
        seed: seed of the bootstrap draws and the permutations.
        affine: how the affine map behind R2 is fitted.
    """

    name: str
    halves: Halves
    max_rows: int | None = None
    draws: int = 1000
    permutations: int = 20
    seed: int = 0
    affine: AffineFit = AffineFit.LEAST_SQUARES

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
WIDE_PROTOCOL = "ident3d-2"

PROTOCOLS = Registry(
    "protocol",
    {
        protocol.name: protocol
        for protocol in (
            EvaluationProtocol(DEFAULT_PROTOCOL, Halves.HASHED),
            EvaluationProtocol(WIDE_PROTOCOL, Halves.HASHED, affine=AffineFit.RIDGE),
            EvaluationProtocol("paper", Halves.FIRST_SECOND, max_rows=4096),
        )
    },
)
"""The protocols by name: ``ident3d-1``, ours; ``ident3d-2``, the same with a ridge behind R2, for encoders as wide as
rows are many; and ``paper``, that of Zimmermann et al. (2021)."""


def protocol_for(width: int, ids: npt.NDArray[np.integer[Any]]) -> str:
    """Return the protocol for embeddings of that width: ``ident3d-1``, or ``ident3d-2`` where rows are too few for it.

    Args:
        width: number of embedding dimensions.
        ids: (N,) the ids of the rows.
    """
    return DEFAULT_PROTOCOL if hashed_half(ids).sum() >= width + 2 else WIDE_PROTOCOL


_CONSTANT = 1e-12


@dataclass(frozen=True)
class Targets:
    """The target columns of the factors that vary.

    A circular factor with phase t has the columns (cos t, sin t): values on both sides of the wrap are neighbours, so
    a wrap costs nothing.

    Attributes:
        factors: the factors that are scored.
        constant: names of the factors that do not vary, which nothing can be said about.
        columns: (N, C) float64 target columns, in Fortran's order: sums over the rows are what metrics are made of.
        owner: (C,) the position in ``factors`` of each column's factor.
    """

    factors: tuple[Factor, ...]
    constant: tuple[str, ...]
    columns: npt.NDArray[np.float64]
    owner: npt.NDArray[np.int64]

    @classmethod
    def of(cls, latents: npt.NDArray[Any], factors: Factors) -> Targets:
        """Return the targets of raw latents.

        Args:
            latents: (N, len(factors)) finite raw latents of any dtype.
            factors: the factors, one per column.

        Raises:
            ValueError: if no factor varies, or a circular factor leaves [-1, 1].
        """
        by_factor = np.ascontiguousarray(latents.T, np.float64)  # whole rows are what NumPy reduces fast
        low, high = by_factor.min(axis=1), by_factor.max(axis=1)
        varies = high - low > _CONSTANT * np.maximum(1, np.maximum(-low, high))
        if not varies.any():
            raise ValueError(
                f"none of the {len(factors)} latents varies over the {len(latents)} rows: nothing to score"
            )
        kept = tuple(factor for factor, keep in zip(factors, varies, strict=True) if keep)
        constant = tuple(factor.name for factor, keep in zip(factors, varies, strict=True) if not keep)
        if not any(factor.is_circular for factor in kept):
            by_column = by_factor if len(kept) == len(by_factor) else by_factor[varies]
            return cls(kept, constant, by_column.T, np.arange(len(kept)))
        columns: list[npt.NDArray[np.float64]] = []
        owner: list[int] = []
        for position, (factor, values) in enumerate(zip(kept, by_factor[varies], strict=True)):
            if factor.is_circular:
                if np.abs(values).max() > 1 + 1e-6:
                    raise ValueError(
                        f"{factor.name} is circular, so its raw latents lie in [-1, 1]; "
                        f"got values from {values.min()} to {values.max()}"
                    )
                columns += [np.cos(np.pi * values), np.sin(np.pi * values)]
                owner += [position, position]
            else:
                columns.append(values)
                owner.append(position)
        return cls(kept, constant, np.stack(columns).T, np.array(owner))

    def pooled(self, by_column: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum values of the columns into values of their factors: (..., C) to (..., F)."""
        belongs = (self.owner[:, None] == np.arange(len(self.factors))).astype(np.float64)
        return np.asarray(by_column @ belongs)


@dataclass(frozen=True)
class Evaluation:
    """What every metric starts from. Rows are in the order of their ids, so the order they came in changes nothing.

    Example:
        >>> import ident3d
        >>> test = ident3d.ThreeDIdent("sample", split="test")
        >>> evaluation = ident3d.metrics.Evaluation.of(test, test.latents, protocol="ident3d-1")
        >>> evaluation.embeddings.shape, int(evaluation.fitted.sum())
        ((256, 10), 117)

    Attributes:
        protocol: the protocol.
        targets: the factors' target columns.
        embeddings: (N, d) float64 in Fortran's order, each dimension with mean 0 and variance 1; a constant one is 0.
        scale: (d,) the standard deviation that each dimension had; 0 for a constant one.
        resolution: relative rounding error of the numbers that came in.
        rounding: (d,) the same in units of each dimension's standard deviation, which a large mean makes worse; 0 for
            a constant one.
        fitted: (N,) bool: the rows that regressions are fitted on.
    """

    protocol: EvaluationProtocol
    targets: Targets
    embeddings: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    resolution: float
    rounding: npt.NDArray[np.float64]
    fitted: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        latents: Any,
        embeddings: Any,
        ids: Any = None,
        *,
        latent_ids: Any = None,
        factors: Factors | None = None,
        protocol: str | EvaluationProtocol,
    ) -> Evaluation:
        """Check the arrays, join them and prepare them.

        With ids on both sides, each row of the embeddings gets the latents with its id, and latents without embeddings
        are left out. With ids on one side the rows are taken to be in the same order on both, and the ids have to be
        ascending: those of rows that were shuffled do not say whether the other side was shuffled, too.

        Args:
            latents: (N, k) raw latents, numpy, torch, or nested lists; or a dataset, with its ids and factors.
            embeddings: (M, d) embeddings; of the same N rows unless both sides have ids.
            ids: (M,) unique integers, the samples' ids of the embeddings; the row numbers where None.
            latent_ids: (N,) likewise of the latents; a dataset's own where None.
            factors: the factors, one per column of the latents; see :func:`~ident3d.factors.resolve_factors`.
            protocol: the protocol, or its name.

        Raises:
            ValueError: if shapes disagree, a value is NaN or infinite, ids are duplicated, not ascending on one side
                alone, or of no latents, no latent varies, or there are too few rows for the width.
            TypeError: if an array is not numeric.
        """
        if hasattr(latents, "latents"):  # a dataset
            factors = getattr(latents, "factors", None) if factors is None else factors
            latent_ids = getattr(latents, "ids", np.arange(len(latents))) if latent_ids is None else latent_ids
            latents = latents.latents
            if ids is None and len(embeddings) == len(latents):
                ids = latent_ids  # embeddings without ids are in the dataset's order
        protocol = PROTOCOLS.find(protocol) if isinstance(protocol, str) else protocol
        z = as_matrix(latents, "latents")
        x = as_matrix(embeddings, "embeddings")
        factors = resolve_factors(factors, z.shape[1])
        check_finite(z, "latents", factors.names)
        check_finite(x, "embeddings")
        of_latents, of_embeddings, sorted_ids = _joined(z, x, ids, latent_ids, protocol.max_rows)
        fitted = protocol.fitted(sorted_ids)
        _check_enough_rows(fitted, x.shape[1], protocol)
        return cls(protocol, Targets.of(z[of_latents], factors), *_standardised(x[of_embeddings]), fitted)

    @cached_property
    def halves(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The numbers of the fitted rows, and of the scored ones."""
        return np.flatnonzero(self.fitted), np.flatnonzero(~self.fitted)

    @cached_property
    def orders(self) -> list[npt.NDArray[np.int64]]:
        """The permutations of the rows behind every chance level."""
        random = generator(self.protocol.seed, "metrics/chance")
        return [random.permutation(len(self.fitted)) for _ in range(self.protocol.permutations)]

    def permuted(self, order: npt.NDArray[np.int64]) -> Evaluation:
        """Return the evaluation of embeddings that know nothing of the latents: the latents' rows in another order.

        The embeddings keep their width, their rows and their structure, so a metric that rises with the width has the
        chance level that belongs to it. Rows are permuted whole: factors that depend on each other still do.
        """
        return replace(self, targets=replace(self.targets, columns=self.targets.columns[order]))

    def of_rows(self, rows: npt.NDArray[np.bool_]) -> Evaluation:
        """Return the evaluation of some of the rows, their dimensions standardised again."""
        embeddings, scale, _, _ = _standardised(self.embeddings[rows])
        targets = replace(self.targets, columns=self.targets.columns[rows])
        return replace(self, targets=targets, embeddings=embeddings, scale=scale * self.scale, fitted=self.fitted[rows])


def as_matrix(values: Any, what: str) -> npt.NDArray[Any]:
    """Return real numbers as an array with at least one row and one column; TypeError or ValueError for others."""
    array = as_array(values, what)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"expected {what} of shape (rows, columns) with at least one of each, got shape {array.shape}")
    return array


def as_ids(ids: Any, rows: int, what: str = "ids") -> npt.NDArray[np.integer[Any]]:
    """Return the ids of so many rows, their numbers where None; TypeError or ValueError for others."""
    if ids is None:
        return np.arange(rows)
    array = as_array(ids, what)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{what} must be integers, got dtype {array.dtype}")
    if array.shape != (rows,):
        raise ValueError(f"expected one id for each of the {rows} rows, got {what} of shape {array.shape}")
    return array


Rows = npt.NDArray[np.int64]


def _joined(
    latents: npt.NDArray[Any], embeddings: npt.NDArray[Any], ids: Any, latent_ids: Any, most: int | None
) -> tuple[slice | Rows, slice | Rows, Rows]:
    """Return which rows of the latents, and of the embeddings, are scored, in the order of their ids, and these ids."""
    is_one_sided = (ids is None) != (latent_ids is None)
    if (ids is None or latent_ids is None) and len(latents) != len(embeddings):
        raise ValueError(
            f"expected as many embeddings as latents, got {len(embeddings)} embeddings and {len(latents)} latents; "
            "with ids on both sides, ids=... and latent_ids=..., rows are matched by id"
        )
    ours, own = _order(latent_ids if ids is None else ids, len(embeddings))
    if is_one_sided and ours is not None:
        known, other = ("ids", "latent_ids") if latent_ids is None else ("latent_ids", "ids")
        raise ValueError(
            f"{known} are not ascending, and do not say whether the rows of the other side are in the same order: give "
            f"{other}=... as well, the same where they are, and rows are matched by id"
        )
    own = own[:most]
    mine = slice(most) if ours is None else ours[:most]
    if latent_ids is None or ids is None:
        return mine, mine, own
    theirs, known_ids = _order(latent_ids, len(latents), "latent_ids")
    if theirs is None and ours is None and np.array_equal(known_ids[:most], own):
        return mine, mine, own
    places = np.searchsorted(known_ids, own).clip(max=len(known_ids) - 1)
    unknown = own[known_ids[places] != own]
    if len(unknown):
        raise ValueError(f"{len(unknown)} of {len(own)} ids of embeddings are of no latents, such as {unknown[0]}")
    return places if theirs is None else theirs[places], mine, own


def _order(ids: Any, rows: int, what: str = "ids") -> tuple[Rows | None, Rows]:
    """Return the order of the rows by id, None where they are in it already, and the ids in order."""
    array = as_ids(ids, rows, what)
    if bool((array[1:] > array[:-1]).all()):
        return None, array.astype(np.int64)
    order = np.argsort(array, kind="stable")
    sorted_ids = array[order].astype(np.int64)
    duplicated = sorted_ids[1:][sorted_ids[1:] == sorted_ids[:-1]]
    if len(duplicated):
        raise ValueError(
            f"{what} must be unique: {duplicated[0]} occurs more than once ({len(duplicated)} repetitions in all)"
        )
    return order, sorted_ids


_LEAST_FITTED = 10  # rows, for a ridge to be chosen by leaving out one of them at a time


def _check_enough_rows(fitted: npt.NDArray[np.bool_], width: int, protocol: EvaluationProtocol) -> None:
    rows, scored = int(fitted.sum()), int((~fitted).sum())
    # an affine map to one column has width + 1 parameters, which as many rows always satisfy exactly
    is_ridge = protocol.affine is AffineFit.RIDGE
    least = _LEAST_FITTED if is_ridge else width + 2
    if rows < least or scored < 2:
        advice = "" if is_ridge else f", or the protocol {WIDE_PROTOCOL!r}, whose ridge takes embeddings of any width"
        raise ValueError(
            f"too few rows for embeddings of {width} dimensions: of {len(fitted)} rows {rows} are fitted and {scored} "
            f"are scored; at least {least} and 2 are needed, so give about {2 * least + 10} rows or more{advice}"
        )


def _standardised(
    embeddings: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float, npt.NDArray[np.float64]]:
    """Return standardised dimensions, their scale, the resolution and the rounding; see :class:`Evaluation`."""
    kind = embeddings.dtype
    resolution = float(np.finfo(kind).eps) if kind.kind == "f" else float(np.finfo(np.float64).eps)
    x = np.ascontiguousarray(embeddings.T, dtype=np.float64)  # whole rows are what NumPy reduces fast
    largest = np.maximum(-x.min(axis=1), x.max(axis=1))
    x /= np.where(largest > 0, largest, 1)[:, None]  # before any square, which may overflow
    x -= x.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.einsum("dn,dn->d", x, x) / x.shape[1])
    constant = deviation <= 4 * resolution
    x /= np.where(constant, 1, deviation)[:, None]
    x[constant] = 0
    rounding = np.where(constant, 0, resolution / np.where(constant, 1, deviation))
    return x.T, np.where(constant, 0, deviation * largest), resolution, rounding


_NEARLY_COPIES = 0.999  # the correlation from which on a dimension may be a copy of another
_NAMED = 8  # dimensions that a warning names; it counts the others


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
    """Return the dimension, and one sentence for each thing that makes the scores other than one would expect.

    Named are constant dimensions, dimensions that are an affine copy of an earlier one, embeddings that span fewer
    directions than their other dimensions would let one expect, and factors that do not vary.
    """
    correlations = _correlations(evaluation)
    found = _dimension(correlations, evaluation)
    constant = np.flatnonzero(evaluation.scale == 0)
    copies = _copies(correlations, evaluation)
    duplicated = np.flatnonzero(copies.any(axis=1))
    faults = []
    if len(constant):
        scores = "scores" if len(constant) == 1 else "score"
        faults.append(f"{_dimensions(constant)} constant over all rows and {scores} nothing: {_names(constant)}")
    if len(duplicated):
        pairs = [f"{row} of {int(np.argmax(copies[row]))}" for row in duplicated[:_NAMED]]
        faults.append(
            f"{_dimensions(duplicated)} a copy of another, up to shift and scale: {_listed(pairs, len(duplicated))}"
        )
    distinct = evaluation.embeddings.shape[1] - len(constant) - len(duplicated)
    if found.rank < distinct < len(evaluation.embeddings):  # fewer rows span no more, whatever they hold
        faults.append(f"the {distinct} distinct dimensions are collinear: they span {found.rank}")
    if evaluation.targets.constant:
        faults.append(f"factors that do not vary are in no score: {', '.join(evaluation.targets.constant)}")
    return found, tuple(faults)


def warn_of(faults: Sequence[str]) -> None:
    """Warn of what :func:`diagnose` found, in one warning at the line that called the caller."""
    if faults:
        warnings.warn("; ".join(faults), DegenerateEmbeddingWarning, stacklevel=3)


def _copies(correlations: npt.NDArray[np.float64], evaluation: Evaluation) -> npt.NDArray[np.bool_]:
    """Return the (d, d) table of which dimension is a copy of which earlier one: no affine map tells them apart.

    What is left of a dimension without the other is measured itself, because 1 minus their correlation, which is half
    its square, drowns in rounding. A fit can use whatever is larger than the rounding of the numbers that came in, and
    than the smallest singular value that least squares keeps.
    """
    x, rounding = evaluation.embeddings, evaluation.rounding
    least = len(x) * float(np.finfo(np.float64).eps)
    copies = np.zeros(correlations.shape, dtype=bool)
    for row, other in np.argwhere(np.abs(np.tril(correlations, -1)) > _NEARLY_COPIES):
        rest = x[:, row] - correlations[row, other] * x[:, other]
        copies[row, other] = np.sqrt((rest**2).mean()) <= max(least, 4 * (rounding[row] + rounding[other]))
    return copies


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
