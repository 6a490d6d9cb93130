from dataclasses import dataclass
from enum import StrEnum

import pytest

from ident3d.codec import from_plain, to_plain


class Kind(StrEnum):
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Part:
    size: float
    kind: Kind = Kind.LEFT


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    place: Part | tuple[float | str, float | str]
    lit: bool = False
    note: str | None = None


WHOLE = Whole((Part(1.0), Part(2.0, Kind.RIGHT)), ("x", 3.0), lit=True)
PLAIN = {
    "parts": [{"size": 1.0, "kind": "left"}, {"size": 2.0, "kind": "right"}],
    "place": ["x", 3.0],
    "lit": True,
    "note": None,
}


def test_plain_data_there_and_back():
    assert to_plain(WHOLE) == PLAIN
    assert from_plain(Whole, PLAIN) == WHOLE
    assert from_plain(Whole, {"parts": [], "place": {"size": 4}}) == Whole((), Part(4.0))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the fields of Whole"),
        ({"parts": []}, "expected the fields parts, place, lit, note, got parts"),
        ({"parts": [], "place": ["x", "y"], "colour": 1}, "got parts, place, colour"),
        ({"parts": [{"size": "big"}], "place": ["x", "y"]}, r"Whole\.parts\.size: expected .*float.*'big'"),
        ({"parts": [{"size": True}], "place": ["x", "y"]}, r"Whole\.parts\.size"),
        ({"parts": [{"size": 1, "kind": "up"}], "place": ["x", "y"]}, "up"),
        ({"parts": [], "place": ["x"]}, r"Whole\.place"),
        ({"parts": [], "place": ["x", "y"], "lit": 1}, r"Whole\.lit"),
    ],
)
def test_what_does_not_fit_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        from_plain(Whole, data)
