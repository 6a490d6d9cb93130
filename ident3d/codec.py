"""Data classes and JSON: strict reading that names every error at once, and plain data for manifests and pipes."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["MAX_BYTES", "Rule", "dumps", "from_plain", "loads", "parse", "to_data", "to_plain"]

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


_KEY = "rule"


@dataclass(frozen=True)
class Rule:
    """What a field accepts beyond its type. For a tuple, length and range speak of each item.

    Attributes:
        what: what is expected, for the message.
        pattern: regular expression that the whole text matches.
        max_length: largest number of characters of a text.
        empty: whether a text may be empty.
        low: smallest number.
        high: largest number.
        min_items: smallest number of items of a tuple.
        max_items: largest number of items of a tuple or a mapping.
        choices: the only accepted values.
    """

    what: str = ""
    pattern: str | None = None
    max_length: int = 200
    empty: bool = False
    low: float | None = None
    high: float | None = None
    min_items: int = 0
    max_items: int = 100
    choices: tuple[Any, ...] | None = None

    @property
    def metadata(self) -> dict[str, Rule]:
        """The rule as the ``metadata`` of a data class's field."""
        return {_KEY: self}


def parse(kind: type[T], data: Any, where: str) -> tuple[T | None, list[str]]:
    """Read a data class from plain data.

    Args:
        kind: a data class; fields may be text, numbers, booleans, data classes, tuples and mappings of those, or None.
        data: what JSON gave.
        where: how messages call it.

    Returns:
        The instance, or None where something is wrong; and one message for each fault, saying what was expected.
    """
    faults: list[str] = []
    found = _data_class(kind, data, where, faults)
    return (None, faults) if faults else (found, [])


def to_data(value: Any) -> Any:
    """Return an instance as plain data for JSON; tuples become lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_data(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_data(item) for key, item in value.items()}
    return value


def _data_class(kind: Any, data: Any, where: str, faults: list[str]) -> Any:
    if not isinstance(data, Mapping):
        faults.append(f"{where}: expected an object, got {_shown(data)}")
        return None
    fields = {field.name: field for field in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    faults += [
        f"{where}.{_name(key)}: no such field; the fields are {', '.join(fields)}" for key in data if key not in fields
    ]
    values = {}
    before = len(faults)
    for name, field in fields.items():
        if name in data:
            values[name] = _value(hints[name], data[name], f"{where}.{name}", _rule(field), faults)
        elif field.default is MISSING and field.default_factory is MISSING:
            faults.append(f"{where}.{name} is missing: expected {_expected(hints[name], _rule(field))}")
    if len(faults) > before:
        return None
    try:
        return kind(**values)
    except (ValueError, TypeError) as error:
        faults.append(f"{where}: {error}")
        return None


def _value(hint: Any, data: Any, where: str, rule: Rule, faults: list[str]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (kind,) = (argument for argument in arguments if argument is not type(None))
        return None if data is None else _value(kind, data, where, rule, faults)
    if dataclasses.is_dataclass(hint):
        return _data_class(hint, data, where, faults)
    if origin is tuple:
        return _items(arguments[0], data, where, rule, faults)
    if origin is dict:
        return _mapping(arguments[1], data, where, rule, faults)
    check = _CHECKS[hint]
    if not check(data, rule):
        faults.append(f"{where}: expected {_expected(hint, rule)}, got {_shown(data)}")
        return None
    return float(data) if hint is float else data


def _items(kind: Any, data: Any, where: str, rule: Rule, faults: list[str]) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple) or not rule.min_items <= len(data) <= rule.max_items:
        faults.append(f"{where}: expected a list of {rule.min_items} to {rule.max_items} items, got {_shown(data)}")
        return ()
    return tuple(_value(kind, item, f"{where}[{i}]", rule, faults) for i, item in enumerate(data))


def _mapping(kind: Any, data: Any, where: str, rule: Rule, faults: list[str]) -> dict[str, Any]:
    if not isinstance(data, Mapping) or len(data) > rule.max_items or not all(_is_text(key, Rule()) for key in data):
        faults.append(f"{where}: expected an object with at most {rule.max_items} short names, got {_shown(data)}")
        return {}
    return {key: _value(kind, item, f"{where}.{_name(key)}", rule, faults) for key, item in data.items()}


def _is_text(data: Any, rule: Rule) -> bool:
    # str.isprintable leaves out control characters, line breaks and those that turn the direction of writing
    if not isinstance(data, str) or not data.isprintable() or data != data.strip():
        return False
    if rule.choices is not None:
        return data in rule.choices
    if len(data) > rule.max_length or (not data and not rule.empty):
        return False
    return rule.pattern is None or re.fullmatch(rule.pattern, data) is not None


def _is_number(data: Any) -> bool:
    return isinstance(data, int | float) and not isinstance(data, bool)


def _in_range(data: Any, rule: Rule) -> bool:
    low = -float("inf") if rule.low is None else rule.low
    high = float("inf") if rule.high is None else rule.high
    return bool(low <= data <= high) and (rule.choices is None or data in rule.choices)


_CHECKS: dict[Any, Callable[[Any, Rule], bool]] = {
    str: _is_text,
    bool: lambda data, _: isinstance(data, bool),
    int: lambda data, rule: isinstance(data, int) and not isinstance(data, bool) and _in_range(data, rule),
    # an integer of JSON may be larger than any float
    float: lambda data, rule: _is_number(data) and abs(data) <= sys.float_info.max and _in_range(data, rule),
}


def _rule(field: Field[Any]) -> Rule:
    rule: Rule = field.metadata.get(_KEY, Rule())
    return rule


def _expected(hint: Any, rule: Rule) -> str:
    if rule.what:
        return rule.what
    if rule.choices is not None:
        return f"one of {', '.join(map(str, rule.choices))}"
    if hint is str:
        return f"a line of text of {'0' if rule.empty else '1'} to {rule.max_length} printable characters"
    if hint in (int, float):
        noun = "an integer" if hint is int else "a finite number"
        return (
            noun
            + (f" from {rule.low}" if rule.low is not None else "")
            + (f" to {rule.high}" if rule.high is not None else "")
        )
    return {bool: "true or false"}.get(hint, "an object" if dataclasses.is_dataclass(hint) else "a list or an object")


def _shown(data: Any) -> str:
    text = ascii(data)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def _name(key: Any) -> str:
    return key if isinstance(key, str) and re.fullmatch(r"\w{1,60}", key) else _shown(key)
