"""Latents: sampling them, checking them, and their physical values."""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.arguments import as_array
from ident3d.factors import FACTORS, Factors
from ident3d.randomness import uniform_rows

__all__ = ["check_finite", "check_latents", "from_physical", "latents_sha256", "sample_latents", "to_physical"]

_RANGE_TOLERANCE = 1e-6


def sample_latents(
    n: int, seed: int = 0, start: int = 0, *, split: str = "train", factors: Factors = FACTORS
) -> npt.NDArray[np.float32]:
    """Draw latents uniformly from the box [-1, 1]^d.

    Row i depends on (seed, split, start + i) only, so any range of a dataset can be drawn alone.

    Example:
        >>> import ident3d
        >>> bool((ident3d.sample_latents(2, seed=0, start=5) == ident3d.sample_latents(7, seed=0)[5:]).all())
        True

    Args:
        n: number of rows.
        seed: seed of the dataset, 0 or larger.
        start: index of the first row within the split.
        split: name of the split; splits are disjoint streams.
        factors: the factors, one per column.

    Returns:
        (n, len(factors)) float32 in (-1, 1).

    Raises:
        ValueError: if n, seed or start is negative.
        TypeError: if n, seed or start is not an integer.
    """
    return uniform_rows(n, len(factors), seed, f"latents/{split}", start)


def to_physical(latents: npt.ArrayLike, factors: Factors = FACTORS) -> npt.NDArray[np.float64]:
    """Map raw latents in [-1, 1] to physical values in the factors' units.

    Example:
        >>> import ident3d, numpy as np
        >>> ident3d.to_physical(np.ones(10))[:4].round(2).tolist()
        [3.0, 3.0, 3.0, 1.57]

    Args:
        latents: (..., len(factors)) raw latents.
        factors: the factors, one per column.

    Returns:
        (..., len(factors)) float64.

    Raises:
        ValueError: if the last axis is not one of len(factors).
    """
    raw = _with_columns(latents, factors)
    physical: npt.NDArray[np.float64] = factors.low + (raw + 1) * 0.5 * (factors.high - factors.low)
    return physical


def from_physical(physical: npt.ArrayLike, factors: Factors = FACTORS) -> npt.NDArray[np.float64]:
    """Map physical values to raw latents in [-1, 1]; the inverse of :func:`to_physical`.

    Example:
        >>> import ident3d, numpy as np
        >>> ident3d.from_physical(np.full(10, 1.5))[:3].tolist()
        [0.5, 0.5, 0.5]

    Args:
        physical: (..., len(factors)) values in the factors' units.
        factors: the factors, one per column.

    Returns:
        (..., len(factors)) float64.

    Raises:
        ValueError: if the last axis is not one of len(factors).
    """
    values = _with_columns(physical, factors)
    raw: npt.NDArray[np.float64] = np.subtract((values - factors.low) / (factors.high - factors.low) * 2, 1)
    return raw


def check_finite(array: npt.NDArray[Any], what: str, columns: tuple[str, ...] | None = None) -> None:
    """Raise ValueError that names the first row and column in which ``array`` is NaN or infinite.

    Args:
        array: (N, d) numbers.
        what: what the array is, for the message.
        columns: names of the columns; their numbers where None.
    """
    finite = np.isfinite(array)
    if not finite.all():
        bad = np.argwhere(~finite)
        row, column = bad[0]
        name = f"column {column}" if columns is None else columns[column]
        raise ValueError(
            f"{what} must be finite: row {row}, {name} is {array[row, column]} ({len(bad)} such values in all)"
        )


def check_latents(latents: npt.ArrayLike, factors: Factors = FACTORS) -> npt.NDArray[np.float32]:
    """Return raw latents as a C-ordered float32 array, or raise an error that says what is wrong with them.

    Args:
        latents: (N, len(factors)) raw latents in [-1, 1].
        factors: the factors, one per column.

    Returns:
        (N, len(factors)) float32.

    Raises:
        ValueError: if the shape is another, or a value is NaN, infinite or outside [-1, 1]; row and factor are named.
    """
    expected = (
        f"expected numeric latents of shape (N, {len(factors)}), one column for each of {', '.join(factors.names)}"
    )
    try:
        array = as_array(latents, "latents")
    except TypeError as error:
        raise ValueError(f"{expected}; {error}") from error
    if array.ndim != 2 or array.shape[1] != len(factors):
        raise ValueError(f"{expected}; got shape {array.shape}, dtype {array.dtype}")
    check_finite(array, "latents", factors.names)
    is_outside = np.abs(array) > 1 + _RANGE_TOLERANCE
    if is_outside.any():
        outside = np.argwhere(is_outside)
        row, column = outside[0]
        raise ValueError(
            f"raw latents lie in [-1, 1]: row {row}, {factors.names[column]} is {array[row, column]} "
            f"({len(outside)} such values in all); physical values go through ident3d.from_physical first"
        )
    return np.ascontiguousarray(np.clip(array, -1, 1), dtype=np.float32)


def latents_sha256(latents: npt.NDArray[np.float32]) -> str:
    """Return the hexadecimal SHA-256 of (N, d) float32 latents, the same on every machine."""
    return hashlib.sha256(np.ascontiguousarray(latents, dtype="<f4").tobytes()).hexdigest()


def _with_columns(values: npt.ArrayLike, factors: Factors) -> npt.NDArray[np.float64]:
    array = as_array(values, "latents").astype(np.float64, copy=False)
    if array.ndim == 0 or array.shape[-1] != len(factors):
        raise ValueError(f"expected {len(factors)} columns ({', '.join(factors.names)}), got shape {array.shape}")
    return array
