"""Anisotropy: what a conditional says about factors that vary little within a pair, and those that vary much."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ident3d.conditionals import AnisotropicNormal, Normal
from ident3d.conditionals.conditional import Conditional

__all__ = ["content_and_style", "true_precision"]


def true_precision(conditional: Conditional | None, dim: int) -> npt.NDArray[np.float64] | None:
    """Return the (dim,) diagonal of Lambda that a normal conditional stands for; None for others."""
    if isinstance(conditional, Normal):
        return 1 / (2 * np.broadcast_to(np.asarray(conditional.sigma, dtype=np.float64), dim) ** 2)
    if isinstance(conditional, AnisotropicNormal):
        return np.broadcast_to(np.asarray(conditional.precision, dtype=np.float64), dim).copy()
    return None


def content_and_style(conditional: Conditional | None, dim: int) -> dict[str, list[int]]:
    """Return the columns that vary little within a pair ("content") and much ("style").

    Returns:
        Nothing where the conditional has not exactly two widths.
    """
    precision = true_precision(conditional, dim)
    kinds = [] if precision is None else sorted(set(precision.tolist()), reverse=True)
    if precision is None or len(kinds) != 2:
        return {}
    return {name: np.flatnonzero(precision == k).tolist() for name, k in zip(("content", "style"), kinds, strict=True)}
