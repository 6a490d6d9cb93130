"""Counts and numbers of items: integers from some least one on."""

import operator
from typing import Any, SupportsIndex

__all__ = ["check_count"]


def check_count(number: Any, what: str, least: int) -> None:
    """Raise TypeError unless ``number`` is an integer, ValueError if it is below ``least``."""
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise TypeError(f"{what} is an integer, not {number!r}")
    try:
        count = operator.index(number)
    except TypeError:  # a tensor or an array of something else
        raise TypeError(f"{what} is an integer, not {number!r}") from None
    if count < least:
        raise ValueError(f"{what} is {least} or larger, not {number}")
