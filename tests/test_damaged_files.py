"""Whatever is read of JSON: a file that is empty, cut short, garbled or of another kind is named, with what to do."""

import json

import pytest

from baselines.synthetic.results import read_results
from baselines.training.progress import read_metrics
from baselines.training.run import Run
from ident3d.errors import Ident3DError
from ident3d.scene.world import World
from ident3d.storage.decoded import CacheRecord
from ident3d.storage.manifest import Manifest
from leaderboard.commands.report import Report
from leaderboard.tracks import read_tracks

READERS = {
    "manifest.json": Manifest.read,
    "cache.json": CacheRecord.read,
    "world.json": lambda folder: World.read(folder / "world.json"),
    "options.json": lambda folder: Run(folder).recipe(),
    "metrics.jsonl": read_metrics,
    "table.json": lambda folder: read_results(folder / "table.json", "table", {}),
    "tracks.json": read_tracks,
    "entry.json": lambda folder: Report(folder / "entry.json").run(),
}
CONTENTS = {
    "empty": b"",
    "cut short": b'{"splits": {"train"\n',
    "garbled": b"\xff\xfe\x00\x01{}\n",
    "a list": b"[1, 2]\n",
    "a number": b"5\n",
    "text": b'"splits"\n',
    "null": b"null\n",
    "an empty object": b"{}\n",
    "nested without end": b"[" * 100_000 + b"\n",
    "NaN": b'{"step": NaN, "splits": NaN}\n',
    "a key that comes twice": b'{"step": 1, "step": 2}\n',
}


# Empty metrics are no fault: those of a run that has written nothing yet.
CASES = [(name, content) for name in READERS for content in CONTENTS if (name, content) != ("metrics.jsonl", "empty")]


@pytest.mark.parametrize(("name", "content"), CASES)
def test_it_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(CONTENTS[content])
    with pytest.raises((ValueError, Ident3DError)) as error:
        READERS[name](tmp_path)
    first = str(error.value).splitlines()[0]
    assert name in first
    assert len(first) < 1000


@pytest.mark.parametrize("value", [None, 5.5, "x", []])
@pytest.mark.parametrize("key", ["options", "dataset", "resolution", "dim", "recipe", "seed", "images"])
def test_a_field_of_a_run_that_is_of_another_kind(tmp_path, key, value):
    options = {"recipe": {"name": 5}, "seed": 0}
    record = {"options": options, "dataset": {"fingerprint": "ab"}, "resolution": 8, "dim": 10}
    (record if key in record else options)[key] = value
    (tmp_path / "options.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"options\.json.*; put back a copy of it"):
        Run(tmp_path).options()
