"""Widths of a conditional: one number for all factors, or one number for each."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ident3d.conditionals.columns import columns_by_name
from ident3d.factors import FACTORS, Factors

__all__ = ["Widths", "WidthsLike", "as_tensor", "per_factor", "positive"]

_SMALLEST, _LARGEST = 1e-30, 1e30

Widths = float | tuple[float, ...]
"""One positive number for all factors, or a tuple with one for each."""

WidthsLike = float | Sequence[float] | Mapping[str, float] | Tensor | np.ndarray[Any, Any]
"""What a conditional takes for its widths; see :func:`per_factor`."""


def per_factor(value: WidthsLike, what: str, factors: Factors = FACTORS) -> Widths:
    """Return widths as a float or as a tuple of floats.

    Args:
        value: a number for all factors; a sequence, array or tensor with one number a column; or a mapping from
            names of factors or groups ("rest" for all others) to numbers, as in ``{"hue": 0.5, "rest": 0.1}``.
        what: the widths' name, for messages.
        factors: the factors that the names of a mapping refer to.

    Returns:
        A float, or a tuple of floats in the order of the columns.

    Raises:
        TypeError: if a width is no number.
        ValueError: if a width is not in [1e-30, 1e30], there are none, or names and factors do not fit.
    """
    if isinstance(value, Tensor | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        columns = columns_by_name(value, factors)
        widths = [0.0] * len(factors)
        for name, owned in columns.items():
            width = positive(value[name], f"{what} of {name}")
            for column in owned:
                widths[column] = width
        return tuple(widths)
    if isinstance(value, Sequence):
        if not value:
            raise ValueError(f"{what} must be a number, or one number for each factor, not an empty list")
        return tuple(positive(width, f"{what} of column {column}") for column, width in enumerate(value))
    return positive(value, what)


def positive(value: Any, what: str, *, or_zero: bool = False) -> float:
    """Return ``value`` as a float, in [1e-30, 1e30], so that its powers are numbers too.

    Args:
        value: the number.
        what: its name, for messages.
        or_zero: whether 0 will do as well.

    Raises:
        TypeError: if it is no number.
        ValueError: if it is not positive, or out of that range.
    """
    if isinstance(value, bool | np.bool_ | str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} must be a number, not {value!r}")
    number = float(value)
    if or_zero and number == 0:
        return 0.0
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{what} must be {'0 or larger' if or_zero else 'positive'} and finite, not {number}")
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(f"{what} must lie between {_SMALLEST:.0e} and {_LARGEST:.0e}, not {number}")
    return number


def as_tensor(widths: Widths, device: torch.device) -> Tensor:
    """Return widths as a float64 tensor on ``device``: () for one number, (dim,) for one a factor."""
    return torch.tensor(widths, dtype=torch.float64, device=device)
