"""The one way between frozen data classes and JSON, and the one way to read a file of JSON, JSON lines or TOML.

:func:`to_json` writes an instance as plain data, :func:`from_json` reads it back, and :func:`parse` does so with a list
of all faults instead of an exception. What a field accepts follows from its type, which may be

* ``str``, ``int``, ``float`` (finite; integers are taken too), ``bool``, ``None``, ``pathlib.Path``, ``Any``;
* an enum, by the values of its members, or a ``Literal``;
* another data class, ``tuple[X, ...]``, ``tuple[X, Y]``, or a mapping from text to anything of these;
* a union of these. Data classes in a union are told apart by a field that is a ``Literal`` in each of them,
  for example ``kind: Literal["sun"] = "sun"``, and otherwise by what fits.

A :class:`Rule` in a field's metadata narrows that down. A data class of one field with the metadata :data:`INLINE` is
written as the field alone. Whatever a class checks itself when it is made is one more fault.

Everything here needs the standard library alone: Blender's Python reads scenes with it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import sys
import tomllib
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, cast

from ident3d.files import read_bytes

__all__ = [
    "INLINE",
    "MAX_BYTES",
    "SEAL",
    "Rule",
    "digest",
    "dumps",
    "from_json",
    "loads",
    "parse",
    "read_file",
    "sealed",
    "to_json",
    "unsealed",
]

T = TypeVar("T")

MAX_BYTES = 1 << 20
"""The most that is read of a document which strangers hand in."""
MAX_FILE_BYTES = 1 << 28
"""The most that is read of a file."""
SEAL = "sha256"
"""The field of an object that holds the checksum of the others."""
_SHOWN = 60  # characters of what is wrong
_KEY = "rule"
_INLINE_KEY = "inline"
INLINE: Mapping[str, Any] = types.MappingProxyType({_INLINE_KEY: True})
"""Metadata of the only field of a data class that is written as that field alone."""


@dataclass(frozen=True)
class Rule:
    """What a field accepts beyond its type. For a tuple or a mapping, length and range apply to each item.

    Attributes:
        what: what is expected, for the message.
        pattern: regular expression that the whole text matches.
        max_length: largest number of characters of a text, which are printable, without spaces at its ends.
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

    def accepts(self, data: Any) -> bool:
        """Return whether a text or a number satisfies the rule; anything else does."""
        if data is None or isinstance(data, bool):
            return True
        if self.choices is not None:
            return data in self.choices
        if isinstance(data, str):
            return self._accepts_text(data)
        low = -math.inf if self.low is None else self.low
        return bool(low <= data <= (math.inf if self.high is None else self.high))

    def _accepts_text(self, text: str) -> bool:
        # str.isprintable leaves out control characters, line breaks and those that turn the direction of writing
        if not text.isprintable() or text != text.strip() or len(text) > self.max_length:
            return False
        if not text:
            return self.empty
        return self.pattern is None or re.fullmatch(self.pattern, text) is not None

    def expected(self, noun: str) -> str:
        """Return what is expected, for the message; ``noun`` is what the type alone would say."""
        if self.what:
            return self.what
        if self.choices is not None:
            return f"one of {', '.join(map(str, self.choices))}"
        if noun == "text":
            return f"a line of text of {'0' if self.empty else '1'} to {self.max_length} printable characters"
        low = "" if self.low is None else f" from {self.low}"
        return noun + low + ("" if self.high is None else f" to {self.high}")


def to_json(value: Any) -> Any:
    """Return ``value`` as objects, lists, text and numbers that JSON can hold.

    Args:
        value: a data class, tuple, list, mapping, enum, path, text, number, boolean or None, nested in any way.
    """
    if is_dataclass(value) and not isinstance(value, type):
        inline = _inline_field(type(value))
        if inline is not None:
            return to_json(getattr(value, inline))
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {to_json(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def from_json(kind: type[T], data: Any, where: str = "") -> T:
    """Return the ``kind`` that :func:`to_json` wrote as ``data``.

    Args:
        kind: a data class.
        data: plain data, as JSON reads it.
        where: how messages call it; the name of the class by default.

    Raises:
        ValueError: everything that is wrong with the data, and what was expected.
    """
    where = where or kind.__name__
    found, faults = parse(kind, data, where)
    if found is None:
        raise ValueError(faults[0] if len(faults) == 1 else "\n  - ".join([f"{where} has several faults:", *faults]))
    return found


def parse(kind: type[T], data: Any, where: str) -> tuple[T | None, list[str]]:
    """Read a data class from plain data, and list what is wrong.

    Args:
        kind: a data class.
        data: plain data, as JSON reads it.
        where: how messages call it.

    Returns:
        The instance, or None where something is wrong; and one message for each fault, saying what was expected.
    """
    faults: list[str] = []
    found: T = _reader(cast(Any, kind)).read(data, _Place(where, None, faults))
    return (None, faults) if faults else (found, [])


def loads(data: bytes, what: str, max_bytes: int = MAX_BYTES) -> Any:
    """Parse strict JSON.

    Args:
        data: UTF-8 text.
        what: what it is, for the message.
        max_bytes: the most that it may hold.

    Raises:
        ValueError: if it is not JSON, holds NaN or an infinite number, or a key twice in one object.
    """
    if len(data) > max_bytes:
        raise ValueError(f"{what} has {len(data)} bytes; at most {max_bytes} are read")
    if not data.strip():
        raise ValueError(f"{what} is not strict JSON: it is empty")
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


def digest(data: Any) -> str:
    """Return the SHA-256 of plain data, whatever the order of its keys and its layout in a file; in hexadecimal."""
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a checksum of everything else in it, under :data:`SEAL`."""
    return {**data, SEAL: digest(data)}


def unsealed(data: Any) -> tuple[Any, bool | None]:
    """Return an object without its checksum, and whether that is right; None where there is none."""
    if not isinstance(data, Mapping) or SEAL not in data:
        return data, None
    content = {key: value for key, value in data.items() if key != SEAL}
    return content, data[SEAL] == digest(content)


def read_file(path: Path, advice: str, max_bytes: int = MAX_FILE_BYTES) -> Any:
    """Read a file of JSON (``.json``), of JSON lines (``.jsonl``) or of TOML (``.toml``).

    The last line of JSON lines is left out where it was cut short: whoever wrote it was interrupted.

    Args:
        path: the file; how it is read follows from the end of its name.
        advice: what to do where it cannot be used, for the message.
        max_bytes: the most that it may hold.

    Returns:
        What it holds: of JSON lines the list of them, of TOML a dict.

    Raises:
        OSError: if it cannot be read; FileNotFoundError if it is not there.
        ValueError: if it is not what its name says; the message names the file and holds the advice.
    """
    try:
        reader = _READERS[path.suffix.lower()]
    except KeyError:
        raise ValueError(f"{path} is not a file that is read: its name ends in none of {', '.join(_READERS)}") from None
    try:
        return reader(read_bytes(path, max_bytes), str(path), max_bytes)
    except ValueError as error:
        raise ValueError(f"{error}; {advice}") from error


def _json_lines(data: bytes, what: str, max_bytes: int) -> list[Any]:
    lines = data.split(b"\n")
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(loads(line, f"line {number} of {what}", max_bytes))
        except ValueError:
            if number < len(lines):
                raise
    return found


def _toml(data: bytes, what: str, _: int) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not TOML: {error}") from error


_READERS: dict[str, Callable[[bytes, str, int], Any]] = {".json": loads, ".jsonl": _json_lines, ".toml": _toml}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:_SHOWN]!r} occurs twice in one object")
        found[key] = value
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:_SHOWN]} is too large")
    return value


@dataclass(frozen=True)
class _Place:
    """The path of a value, the rule that it has to satisfy, and the list that collects its faults."""

    name: str
    rule: Rule | None
    faults: list[str]

    def below(self, name: str) -> _Place:
        """Return the place of a part, under the same rule."""
        return dataclasses.replace(self, name=f"{self.name}{name}")

    def refuse(self, expected: str, data: Any) -> None:
        """Add a fault; what is returned in place of the value is never used."""
        self.faults.append(f"{self.name}: expected {expected}, got {_shown(data)}")


class _Reader(ABC):
    """How values of one type are read."""

    @abstractmethod
    def has_form(self, data: Any) -> bool:
        """Return whether data have the form of the type, whatever they hold: an object, a list, text, a number."""

    @abstractmethod
    def expected(self, rule: Rule | None) -> str:
        """Return what the type takes, for the message."""

    @abstractmethod
    def read(self, data: Any, place: _Place) -> Any:
        """Return the value; where something is wrong, the place collects the faults, and the result is never used."""


@dataclass(frozen=True)
class _Simple(_Reader):
    """Text, a number, true or false, null, or anything."""

    what: str
    is_one: Callable[[Any], bool]
    make: Callable[[Any], Any] | None = None

    def has_form(self, data: Any) -> bool:
        return self.is_one(data)

    def expected(self, rule: Rule | None) -> str:
        return self.what if rule is None else rule.expected(self.what)

    def read(self, data: Any, place: _Place) -> Any:
        if not self.is_one(data) or not (place.rule is None or place.rule.accepts(data)):
            return place.refuse(self.expected(place.rule), data)
        return data if self.make is None else self.make(data)


@dataclass(frozen=True)
class _Choice(_Reader):
    """The values of an enum, or those of a Literal."""

    choices: tuple[Any, ...]
    make: Callable[[Any], Any] | None = None

    def has_form(self, data: Any) -> bool:
        return not isinstance(data, Mapping | list | tuple)

    def expected(self, rule: Rule | None) -> str:  # noqa: ARG002 - the choices say it all
        return f"one of {', '.join(map(str, self.choices))}"

    def read(self, data: Any, place: _Place) -> Any:
        if not any(data == choice and type(data) is type(choice) for choice in self.choices):
            return place.refuse(self.expected(None), data)
        return data if self.make is None else self.make(data)


@dataclass(frozen=True)
class _Tuple(_Reader):
    """A tuple of fixed length, or of any length where all items are of one type."""

    items: tuple[Any, ...]

    @property
    def is_open(self) -> bool:
        return len(self.items) == 2 and self.items[1] is Ellipsis

    def has_form(self, data: Any) -> bool:
        return isinstance(data, list | tuple)

    def expected(self, rule: Rule | None) -> str:
        if not self.is_open:
            return f"a list of {len(self.items)} items"
        return "a list" if rule is None else f"a list of {rule.min_items} to {rule.max_items} items"

    def read(self, data: Any, place: _Place) -> Any:
        low, high = (0, math.inf) if place.rule is None else (place.rule.min_items, place.rule.max_items)
        if not self.is_open:
            low = high = len(self.items)
        if not self.has_form(data) or not low <= len(data) <= high:
            return place.refuse(self.expected(place.rule), data)
        kinds = self.items[:1] * len(data) if self.is_open else self.items
        each = enumerate(zip(kinds, data, strict=True))
        return tuple(_reader(kind).read(item, place.below(f"[{i}]")) for i, (kind, item) in each)


@dataclass(frozen=True)
class _Mapping(_Reader):
    """A mapping from text."""

    value: Any

    def has_form(self, data: Any) -> bool:
        return isinstance(data, Mapping)

    def expected(self, rule: Rule | None) -> str:
        return "an object" if rule is None else f"an object with at most {rule.max_items} short names"

    def read(self, data: Any, place: _Place) -> Any:
        if not self.has_form(data) or not all(isinstance(key, str) for key in data):
            return place.refuse(self.expected(place.rule), data)
        if place.rule is not None and not (len(data) <= place.rule.max_items and all(map(Rule().accepts, data))):
            return place.refuse(self.expected(place.rule), data)
        reader = _reader(self.value)
        return {key: reader.read(item, place.below(f".{_name(key)}")) for key, item in data.items()}


class _DataClass(_Reader):
    """The fields of a data class, or its only field alone."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.fields = {field.name: field for field in fields(kind)}
        self.hints = typing.get_type_hints(kind)
        self.inline = _inline_field(kind)

    def has_form(self, data: Any) -> bool:
        return isinstance(data, Mapping) if self.inline is None else _reader(self.hints[self.inline]).has_form(data)

    def expected(self, rule: Rule | None) -> str:
        return "an object" if self.inline is None else _reader(self.hints[self.inline]).expected(rule)

    def read(self, data: Any, place: _Place) -> Any:
        before = len(place.faults)
        values = self._values(data, place) if self.inline is None else self._inline_value(self.inline, data, place)
        if len(place.faults) > before:
            return None
        try:
            return self.kind(**values)
        except (ValueError, TypeError) as error:
            place.faults.append(f"{place.name}: {error}")
            return None

    def _inline_value(self, name: str, data: Any, place: _Place) -> dict[str, Any]:
        own = dataclasses.replace(place, rule=_rule(self.fields[name]))
        return {name: _reader(self.hints[name]).read(data, own)}

    def _values(self, data: Any, place: _Place) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            place.refuse("an object", data)
            return {}
        unknown = [_name(key) for key in data if key not in self.fields]
        known = ", ".join(self.fields)
        place.faults.extend(f"{place.name}.{name}: no such field; the fields are {known}" for name in unknown)
        values = {}
        for name, field in self.fields.items():
            reader, own = _reader(self.hints[name]), _Place(f"{place.name}.{name}", _rule(field), place.faults)
            if name in data:
                value = reader.read(data[name], own)
                if field.init:
                    values[name] = value
            elif field.init and field.default is MISSING and field.default_factory is MISSING:
                place.faults.append(f"{own.name} is missing: expected {reader.expected(own.rule)}")
        return values


class _Union(_Reader):
    """The member that the data's form points to; of several the one with the right tag, or the first that fits."""

    def __init__(self, members: tuple[Any, ...]) -> None:
        self.members = [_reader(member) for member in members]

    def has_form(self, data: Any) -> bool:
        return any(member.has_form(data) for member in self.members)

    def expected(self, rule: Rule | None) -> str:
        return " or ".join(member.expected(rule) for member in self.members if member is not _TYPES[type(None)])

    def read(self, data: Any, place: _Place) -> Any:
        members = [member for member in self.members if member.has_form(data)]
        tag = _tag(members)
        if tag is not None:
            members = self._tagged(members, tag, data, place)
            if not members:
                return None
        if not members:
            return place.refuse(self.expected(place.rule), data)
        attempts: list[list[str]] = []
        for member in members:
            faults: list[str] = []
            found = member.read(data, dataclasses.replace(place, faults=faults))
            if not faults:
                return found
            attempts.append(faults)
        attempts.sort(key=len)
        place.faults.extend(attempts[0])
        return None

    def _tagged(self, members: list[_Reader], tag: str, data: Any, place: _Place) -> list[_Reader]:
        """Return the member that the tag names; none, and a fault, where it names none."""
        kinds = {choice: member for member in members for choice in _tag_values(member, tag)}
        expected = f"one of {', '.join(map(str, kinds))}"
        if tag not in data:
            place.faults.append(f"{place.name}.{tag} is missing: expected {expected}")
        elif not isinstance(data[tag], str | int) or data[tag] not in kinds:
            place.below(f".{tag}").refuse(expected, data[tag])
        else:
            return [kinds[data[tag]]]
        return []


def _tag(members: list[_Reader]) -> str | None:
    """Return the name of the field that tells several data classes apart; None where there is none."""
    if len(members) < 2 or not isinstance(members[0], _DataClass):
        return None
    return next((name for name in members[0].hints if all(_tag_values(member, name) for member in members)), None)


def _tag_values(member: _Reader, name: str) -> tuple[Any, ...]:
    hint = member.hints.get(name) if isinstance(member, _DataClass) else None
    return typing.get_args(hint) if typing.get_origin(hint) is Literal else ()


def _is_number(data: Any) -> bool:
    # an integer of JSON may be larger than any float
    return isinstance(data, int | float) and not isinstance(data, bool) and abs(data) <= sys.float_info.max


_TYPES: dict[Any, _Reader] = {
    Any: _Simple("anything", lambda _: True),
    str: _Simple("text", lambda data: isinstance(data, str)),
    Path: _Simple("text", lambda data: isinstance(data, str), Path),
    bool: _Simple("true or false", lambda data: isinstance(data, bool)),
    int: _Simple("an integer", lambda data: isinstance(data, int) and not isinstance(data, bool)),
    float: _Simple("a finite number", _is_number, float),
    type(None): _Simple("null", lambda data: data is None),
}


@cache
def _reader(hint: Any) -> _Reader:
    """Return how values of a type are read."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _TYPES:
        return _TYPES[hint]
    if origin in (types.UnionType, typing.Union):
        return _Union(arguments)
    if origin is Literal:
        return _Choice(arguments)
    if origin is tuple:
        return _Tuple(arguments)
    return _class_reader(hint, origin, arguments)


def _class_reader(hint: Any, origin: Any, arguments: tuple[Any, ...]) -> _Reader:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _Choice(tuple(member.value for member in hint), hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _DataClass(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _Mapping(arguments[1])
    raise TypeError(f"JSON cannot be read as {hint}; the docstring of ident3d.codec lists the types that it can")


@cache
def _inline_field(kind: type) -> str | None:
    own = fields(kind)
    return own[0].name if len(own) == 1 and own[0].metadata.get(_INLINE_KEY) else None


def _rule(field: Field[Any]) -> Rule | None:
    rule: Rule | None = field.metadata.get(_KEY)
    return rule


def _shown(data: Any) -> str:
    text = ascii(data)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def _name(key: Any) -> str:
    return key if isinstance(key, str) and re.fullmatch(r"\w{1,60}", key) else _shown(key)
