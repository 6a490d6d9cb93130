"""Strict JSON: no NaN, no infinity, no key twice, bounded in size."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

__all__ = ["MAX_BYTES", "dumps", "loads"]

MAX_BYTES = 1 << 20
_SHOWN = 60  # characters of what is wrong


def loads(data: bytes, what: str) -> Any:
    """Parse JSON.

    Args:
        data: UTF-8 text of at most a megabyte.
        what: what it is, for the message.

    Raises:
        ValueError: if it is no JSON, holds NaN or an infinite number, or a key twice in one object.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"{what} has {len(data)} bytes; at most {MAX_BYTES} are read")
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:  # a decoding error is a ValueError
        raise ValueError(f"{what} is not strict JSON: {error}") from error


def dumps(data: Any) -> str:
    """Write JSON with a line for each value, keys in the order given; ValueError for NaN and infinity."""
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:_SHOWN]!r} stands twice in one object")
        found[key] = value
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:_SHOWN]} is too large")
    return value
