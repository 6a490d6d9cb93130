"""The manifest of a dataset."""

import json
from dataclasses import replace

import pytest

from ident3d.errors import DatasetError
from ident3d.factors import Factor, Factors
from ident3d.storage.manifest import Manifest, ShardRecord, shard_name

MANIFEST = Manifest(
    splits={"train": 25, "test": 10},
    rows_per_shard=10,
    resolution=16,
    seed=0,
    render={"quality": {"name": "draft", "samples": 2}, "lights": [{"power": 0.1}, {"power": 3000.0}]},
)
RECORD = ShardRecord("train-00000-of-00003.parquet", "train", 0, 10, "ab" * 32, {"blender": "4.5.15"})


def test_the_planned_shards_cover_every_index_once():
    planned = MANIFEST.planned("train")
    assert [name for name, _ in planned] == [shard_name("train", k, 3) for k in range(3)]
    assert [list(rows) for _, rows in planned] == [list(range(10)), list(range(10, 20)), list(range(20, 25))]
    assert MANIFEST.shards_of("test") == 1


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    written = MANIFEST.with_shards((RECORD,))
    written.write(tmp_path)
    assert Manifest.read(tmp_path) == written
    assert Manifest.read(tmp_path).differences(written) == []


def test_a_manifest_is_complete_when_the_planned_shards_are_there():
    def record(name, split, rows):
        return replace(RECORD, name=name, split=split, start=rows.start, rows=len(rows))

    records = tuple(record(name, split, rows) for split in MANIFEST.splits for name, rows in MANIFEST.planned(split))
    assert MANIFEST.with_shards(records).is_complete
    assert not MANIFEST.with_shards(records[1:]).is_complete
    assert [r.name for r in MANIFEST.with_shards(records[::-1]).shards] == sorted(r.name for r in records)


def test_differences_name_the_setting_by_its_path():
    render = {"quality": {"name": "draft", "samples": 4}, "lights": [{"power": 0.1}, {"power": 1.0}], "more": None}
    other = replace(MANIFEST, seed=1, splits={"train": 25}, render=render).with_shards((RECORD,))
    assert MANIFEST.differences(other) == [
        "splits.test: 10 against None",
        "seed: 0 against 1",
        "render.quality.samples: 2 against 4",
        "render.lights[1].power: 3000.0 against 1.0",
    ]


def test_differences_between_lists_of_named_things_name_those_that_differ():
    factors = Factors((*MANIFEST.factors[1:], Factor("size", "size", 1.0, 2.0, "bu")))
    longer = replace(MANIFEST, factors=Factors((*factors, Factor("tint", "hue", 0.0, 1.0, "rad"))))
    [gone, size, tint] = MANIFEST.differences(longer)
    assert gone.startswith("factors.position_x: {'name': 'position_x'")
    assert gone.endswith("against None")
    assert size.startswith("factors.size: None against {'name': 'size'")
    assert tint.startswith("factors.tint: None against")


def test_the_fingerprint_is_that_of_what_a_split_shows():
    train = MANIFEST.fingerprint("train")
    same = replace(MANIFEST, rows_per_shard=5, splits={"train": 25, "test": 99}).with_shards((RECORD,))
    assert same.fingerprint("train") == train
    assert MANIFEST.fingerprint("test") != train
    assert replace(MANIFEST, seed=1).fingerprint("train") != train
    wider = Factors((Factor("position", "position", -3.0, 4.0, "bu"),))
    assert replace(MANIFEST, factors=wider).fingerprint("train") != train


LISTED = {"name": "train-00000-of-00001.parquet", "split": "train", "start": 0, "rows": 5, "sha256": "ab" * 32}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"manifest\.json is not strict JSON: it is empty; restore it"),
        ("{", r"manifest\.json is not strict JSON"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ("[]", "expected an object"),
        ("{}", "schema version None"),
        (json.dumps(MANIFEST.to_json() | {"schema_version": 99}), "schema version 99"),
        (json.dumps(MANIFEST.to_json() | {"colour": "red"}), "colour"),
        *(
            (json.dumps(MANIFEST.to_json() | {name: value}), rf"manifest\.{name}[.:]|{name} is ")
            for name, value in [
                ("splits", {"train": "many"}),
                ("splits", ["train"]),
                ("splits", {"../train": 4}),
                ("splits", {"/x": 4}),
                ("splits", {".": 4}),
                ("splits", {"a\x1b[2J": 4}),
                ("rows_per_shard", 0),
                ("resolution", "64"),
                ("seed", -1),
                ("latents", None),
                ("latents", {"train": "ab"}),
                ("pairs", 3),
                ("render", None),
            ]
        ),
        (json.dumps({k: v for k, v in MANIFEST.to_json().items() if k != "splits"}), "splits"),
        (json.dumps(MANIFEST.to_json() | {"splits": {"train": 10**15}, "rows_per_shard": 1}), "more than the 99,999"),
        (json.dumps(MANIFEST.to_json() | {"shards": [LISTED | {"name": "../../x.parquet"}]}), "not one of a shard"),
        (json.dumps(MANIFEST.to_json() | {"shards": [LISTED | {"rows": 1.5}]}), r"shards\[0\]\.rows: expected an int"),
        (json.dumps(MANIFEST.to_json() | {"splits": {"train": "x"}, "seed": "y"}), r"(?s)splits\.train.*seed"),
    ],
)
def test_a_damaged_or_foreign_manifest_is_refused(tmp_path, text, said):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DatasetError, match=said) as caught:
        Manifest.read(tmp_path)
    assert "manifest.json" in str(caught.value)
