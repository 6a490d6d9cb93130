"""Widths of a conditional: one number for all factors, or one number for each."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ident3d.factors import FACTORS, Factors

__all__ = ["REST", "Widths", "WidthsLike", "as_tensor", "columns_by_name", "per_factor", "positive"]

REST = "rest"
"""The name that stands for every column that no other name covers."""


def columns_by_name(names: Iterable[str], factors: Factors) -> dict[str, tuple[int, ...]]:
    """Give every column of the factors to one name.

    A factor's own name goes before its group's, and its group's before :data:`REST`. So with the names "rotation",
    "rotation_x" and "rest", column rotation_x belongs to "rotation_x", the other rotations to "rotation", and
    everything else to "rest".

    Args:
        names: names of factors, names of groups, or "rest".
        factors: the factors, one a column.

    Returns:
        The columns of each name, in the order of ``names``.

    Raises:
        ValueError: if a name is unknown or stands for no column, or a column has no name.
    """
    columns: dict[str, list[int]] = {name: [] for name in names}
    known = (*factors.names, *factors.groups, REST)
    unknown = [str(name) for name in columns if name not in known]
    if unknown:
        raise ValueError(
            f"no factor or group is called {', '.join(unknown)}; the factors are {', '.join(factors.names)}, "
            f"the groups {', '.join(factors.groups)}, and {REST} stands for all others"
        )
    left_out = []
    for column, factor in enumerate(factors):
        owner = next((name for name in (factor.name, factor.group, REST) if name in columns), None)
        if owner is None:
            left_out.append(factor.name)
        else:
            columns[owner].append(column)
    if left_out:
        raise ValueError(f"nothing is given for {', '.join(left_out)}; name them, their group, or {REST}")
    idle = [name for name, owned in columns.items() if not owned]
    if idle:
        raise ValueError(f"no column is left for {', '.join(idle)}: other names cover them all")
    return {name: tuple(owned) for name, owned in columns.items()}


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
