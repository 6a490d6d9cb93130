"""Data classes and JSON, and files of JSON, JSON lines and TOML."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest

from ident3d.codec import INLINE, Rule, from_json, loads, parse, read_file, to_json


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
    assert to_json(WHOLE) == PLAIN
    assert from_json(Whole, PLAIN) == WHOLE
    assert from_json(Whole, {"parts": [], "place": {"size": 4}}) == Whole((), Part(4.0))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], r"Whole: expected an object, got \[\]"),
        ({"parts": []}, r"Whole\.place is missing: expected an object or a list of 2 items"),
        ({"parts": [], "place": ["x", "y"], "colour": 1}, r"Whole\.colour: no such field; the fields are parts, place"),
        ({"parts": [{"size": "big"}], "place": ["x", "y"]}, r"Whole\.parts\[0\]\.size: expected a finite.*'big'"),
        ({"parts": [{"size": True}], "place": ["x", "y"]}, r"Whole\.parts\[0\]\.size"),
        ({"parts": [{"size": 10**400}], "place": ["x", "y"]}, r"Whole\.parts\[0\]\.size"),
        ({"parts": [{"size": 1, "kind": "up"}], "place": ["x", "y"]}, "kind: expected one of left, right, got 'up'"),
        ({"parts": [], "place": ["x"]}, r"Whole\.place: expected a list of 2 items"),
        ({"parts": [], "place": 3}, r"Whole\.place: expected an object or a list of 2 items, got 3"),
        ({"parts": [], "place": ["x", "y"], "lit": 1}, r"Whole\.lit: expected true or false, got 1"),
        ({"parts": [], "place": ["x", None]}, r"Whole\.place\[1\]: expected a finite number or text, got None"),
        ({"parts": [], "place": ["x", "y"], "note": 3}, r"Whole\.note: expected text, got 3"),
    ],
)
def test_what_does_not_fit_is_named(data, message):
    with pytest.raises(ValueError, match=message):
        from_json(Whole, data)


def test_every_fault_is_told_at_once():
    data = {"parts": [{"size": "big", "kind": "up"}, {}], "place": ["x"], "colour": 1}
    found, faults = parse(Whole, data, "whole")
    assert found is None
    assert len(faults) == 5
    with pytest.raises(ValueError, match="Whole has several faults:") as caught:
        from_json(Whole, data)
    assert str(caught.value).splitlines()[1:] == [f"  - {fault.replace('whole', 'Whole', 1)}" for fault in faults]


@dataclass(frozen=True)
class Sun:
    angle: float
    kind: Literal["sun"] = "sun"


@dataclass(frozen=True)
class Spot:
    cone: float
    kind: Literal["spot"] = field(default="spot", init=False)

    def __post_init__(self) -> None:
        if self.cone <= 0:
            raise ValueError(f"a cone is larger than 0, not {self.cone}")


@dataclass(frozen=True)
class Lamps:
    items: tuple[Sun | Spot, ...] = field(metadata=INLINE)


@dataclass(frozen=True)
class Stage:
    lamps: Lamps
    folder: Path = Path()
    extra: Mapping[str, Any] = field(default_factory=dict)


class TestTagsAndOneField:
    STAGE = Stage(Lamps((Sun(0.5), Spot(1.0))), Path("a/b"), {"deep": [1, {"x": None}]})

    def test_there_and_back(self):
        data = json.loads(json.dumps(to_json(self.STAGE)))
        assert data["lamps"] == [{"angle": 0.5, "kind": "sun"}, {"cone": 1.0, "kind": "spot"}]
        assert data["folder"] == "a/b"
        assert from_json(Stage, data) == self.STAGE

    @pytest.mark.parametrize(
        ("lamp", "message"),
        [
            ({"kind": "moon"}, r"Stage\.lamps\[0\]\.kind: expected one of sun, spot, got 'moon'"),
            ({"kind": ["sun"]}, r"Stage\.lamps\[0\]\.kind: expected one of sun, spot"),
            ({"angle": 1}, r"Stage\.lamps\[0\]\.kind is missing: expected one of sun, spot"),
            ({"kind": "spot", "angle": 1, "cone": 1}, r"Stage\.lamps\[0\]\.angle: no such field; the fields are cone"),
            ({"kind": "spot", "cone": -1}, r"Stage\.lamps\[0\]: a cone is larger than 0, not -1"),
            (3, r"Stage\.lamps\[0\]: expected an object"),
        ],
    )
    def test_the_tag_tells_whose_faults_are_told(self, lamp, message):
        with pytest.raises(ValueError, match=message):
            from_json(Stage, {"lamps": [lamp]})


@dataclass(frozen=True)
class Ruled:
    name: str = field(metadata=Rule(max_length=3).metadata, default="a")
    count: int | None = field(metadata=Rule(low=1, high=9).metadata, default=None)
    scores: dict[str, float] = field(metadata=Rule(high=1).metadata, default_factory=dict)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"name": "abcd"}, "r.name: expected a line of text of 1 to 3 printable characters, got 'abcd'"),
        ({"name": "a\x1b"}, r"r.name: expected a line of text of 1 to 3 printable characters, got 'a\x1b'"),
        ({"count": 0}, "r.count: expected an integer from 1 to 9, got 0"),
        ({"count": 2.0}, "r.count: expected an integer from 1 to 9, got 2.0"),
        ({"scores": {"r2": 2}}, "r.scores.r2: expected a finite number to 1, got 2"),
        ({"scores": {"": 1}}, "r.scores: expected an object with at most 100 short names, got {'': 1}"),
    ],
)
def test_a_rule_narrows_a_field(data, message):
    assert parse(Ruled, data, "r") == (None, [message])
    assert parse(Ruled, {"count": None}, "r") == (Ruled(), [])


def test_a_type_that_json_does_not_hold_is_the_programmers_fault():
    @dataclass(frozen=True)
    class Odd:
        numbers: set[int]

    with pytest.raises(TypeError, match=r"JSON cannot be read as set\[int\]"):
        from_json(Odd, {"numbers": [1]})


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("options.json", b"", "options.json is not strict JSON: it is empty; delete it"),
            ("options.json", b"[", "options.json is not strict JSON: .*; delete it"),
            ("options.json", b'{"a": 1, "a": 2}', "options.json is not strict JSON: the key 'a' occurs twice"),
            ("options.json", b"[NaN]", "options.json is not strict JSON: NaN is not a JSON number; delete it"),
            ("options.json", b"[" * 100_000, "options.json is not strict JSON: .*; delete it"),
            ("options.json", b'"\xff"', "options.json is not strict JSON: .*; delete it"),
            ("lines.jsonl", b"[1]\n[\n[2]\n", "line 2 of .*lines.jsonl is not strict JSON: .*; delete it"),
            ("world.toml", b"a = ", "world.toml is not TOML: .*; delete it"),
            ("world.yaml", b"a: 1", "world.yaml is not a file that is read: its name ends in none of .json, .jsonl"),
        ],
    )
    def test_an_error_names_the_file_and_what_to_do(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_file(tmp_path / name, "delete it")

    def test_what_they_hold(self, tmp_path):
        (tmp_path / "a.json").write_text('{"a": [1, "ü"]}', encoding="utf-8")
        (tmp_path / "a.jsonl").write_text('{"step": 1}\n\n{"step": 2}\n{"step": 3, "lo', encoding="utf-8")
        (tmp_path / "a.toml").write_text("[a]\nb = 1", encoding="utf-8")
        assert read_file(tmp_path / "a.json", "") == {"a": [1, "ü"]}
        assert read_file(tmp_path / "a.jsonl", "") == [{"step": 1}, {"step": 2}]  # the last was cut short
        assert read_file(tmp_path / "a.toml", "") == {"a": {"b": 1}}

    def test_only_regular_files_within_bounds(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            read_file(tmp_path / "a.json", "delete it")
        os.mkfifo(tmp_path / "pipe.json")
        with pytest.raises(ValueError, match="is not a regular file; delete it"):
            read_file(tmp_path / "pipe.json", "delete it")
        (tmp_path / "b.json").write_text("[1, 2, 3]")
        with pytest.raises(ValueError, match="holds more than 5 bytes, which is the most that is read; delete it"):
            read_file(tmp_path / "b.json", "delete it", max_bytes=5)

    def test_strangers_documents_are_bounded(self):
        with pytest.raises(ValueError, match="x has 9 bytes; at most 5 are read"):
            loads(b"[1, 2, 3]", "x", max_bytes=5)


def test_the_standard_library_is_enough():
    program = "import sys, ident3d.codec; print({'numpy', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
