"""The conditional of a run's positives, and what it says of the factors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from baselines.pairs import find_source
from baselines.recipes import Recipe
from ident3d.conditionals import AnisotropicNormal, Normal, parse
from ident3d.errors import NotLoadedError
from ident3d.factors import Factors

if TYPE_CHECKING:
    from ident3d.conditionals.conditional import Conditional

__all__ = ["content_and_style", "pair_conditional", "true_precision"]

_LOG = logging.getLogger("ident3d.baselines")


def pair_conditional(recipe: Recipe, factors: Factors, exact_pairs: str | None = None) -> Conditional | None:
    """Return the conditional of the positives: the recipe's, or the one that exact pairs were rendered with.

    Args:
        recipe: the recipe.
        factors: the factors that a conditional may name.
        exact_pairs: text of the conditional that a dataset's exact pairs were rendered with; None without.

    Returns:
        The conditional; None if there are no pairs, they are augmented, or their conditional is unknown. None, too, for
        rendered pairs whose manifest names a class that is not loaded, because a manifest imports no module.

    Raises:
        ValueError: if the conditional cannot be read.
    """
    if not find_source(recipe.pairs).is_of_dataset:
        return None if recipe.conditional is None else parse(recipe.conditional, factors)
    try:
        return None if exact_pairs is None else parse(exact_pairs, factors, may_import=False)
    except NotLoadedError as error:
        _LOG.warning("nothing is made of the conditional of the rendered pairs: %s", error)
        return None


def true_precision(conditional: Conditional | None, dim: int) -> npt.NDArray[np.float64] | None:
    """Return the (dim,) diagonal of Lambda of a normal conditional; None for other conditionals."""
    if isinstance(conditional, Normal):
        return 1 / (2 * np.broadcast_to(np.asarray(conditional.sigma, dtype=np.float64), dim) ** 2)
    if isinstance(conditional, AnisotropicNormal):
        return np.broadcast_to(np.asarray(conditional.precision, dtype=np.float64), dim).copy()
    return None


def content_and_style(conditional: Conditional | None, dim: int) -> dict[str, list[int]]:
    """Return the columns that vary little within a pair, "content", and those that vary much, "style".

    Returns:
        The columns by these names; empty unless the conditional is normal with exactly two scales.
    """
    precision = true_precision(conditional, dim)
    kinds = [] if precision is None else sorted(set(precision.tolist()), reverse=True)
    if precision is None or len(kinds) != 2:
        return {}
    return {name: np.flatnonzero(precision == k).tolist() for name, k in zip(("content", "style"), kinds, strict=True)}
