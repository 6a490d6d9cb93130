"""Frozen dataclasses as plain data and back, for manifests and for the pipe to a worker.

Only the standard library is used, since this runs inside Blender's Python too.
"""

import types
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["from_plain", "to_plain"]

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return ``value`` as dicts, lists, numbers and strings that JSON can hold.

    Args:
        value: a dataclass, tuple, enum, string, number or None, nested in any way.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def from_plain(kind: type[T], data: Any) -> T:
    """Return the ``kind`` that :func:`to_plain` wrote as ``data``.

    Args:
        kind: a dataclass whose fields are dataclasses, tuples, enums, strings, numbers, or unions of these.
        data: plain data, as JSON reads it.

    Raises:
        ValueError: if a field is missing or unknown, or a value is not of its field's type.
    """
    value: T = _read(kind, data, kind.__name__)
    return value


def _read(kind: Any, data: Any, where: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _read_union(kind, data, where)
    if is_dataclass(kind) and isinstance(kind, type):
        return _read_dataclass(kind, data, where)
    if origin is tuple and isinstance(data, list | tuple):
        return _read_tuple(get_args(kind), data, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
        return float(data)
    if isinstance(kind, type) and isinstance(data, kind) and (kind is bool or not isinstance(data, bool)):
        return data
    raise ValueError(f"{where}: expected {kind}, got {data!r}")


def _read_union(kind: Any, data: Any, where: str) -> Any:
    for member in get_args(kind):
        try:
            return _read(member, data, where)
        except ValueError:
            continue
    raise ValueError(f"{where}: expected {kind}, got {data!r}")


# Data of a wrong type are wrong values to whoever reads a file, so everything here is a ValueError.
def _read_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{where}: expected the fields of {kind.__name__}, got {data!r}")  # noqa: TRY004 - see above
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    hints = get_type_hints(kind)
    if not required <= set(data) <= set(hints):
        raise ValueError(f"{where}: expected the fields {', '.join(hints)}, got {', '.join(map(str, data))}")
    return kind(**{name: _read(hints[name], item, f"{where}.{name}") for name, item in data.items()})


def _read_tuple(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(data)
    if len(kinds) != len(data):
        raise ValueError(f"{where}: expected {len(kinds)} values, got {len(data)}")
    return tuple(_read(kind, item, where) for kind, item in zip(kinds, data, strict=True))
