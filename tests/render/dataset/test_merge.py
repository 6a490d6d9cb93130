"""Parts that several machines rendered, as one dataset."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

from ident3d.conditionals import parse
from ident3d.errors import DatasetError
from ident3d.storage.manifest import Manifest
from render.dataset.merge import merge_parts
from render.dataset.spec import Part
from tests.render.fake_renderer import files_of, render_plan_into, small_plan


def _copy(sources, root, leave=()):
    for source in sources:
        shutil.copytree(source, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*leave))
    return root


@pytest.fixture
def halves(tmp_path):
    return [render_plan_into(tmp_path / f"half{k}", small_plan(), Part(k, 2)) for k in (0, 1)]


@pytest.mark.parametrize("leave", [(), (".render",)])
def test_parts_from_two_folders_are_one_dataset(tmp_path, halves, leave):
    root = _copy(halves, tmp_path / "both", leave)
    assert not Manifest.read(root).is_complete
    report = merge_parts(root)
    manifest = report.manifest
    assert report.faults == ()
    assert manifest.is_complete
    assert Manifest.read(root) == manifest
    assert files_of(root) == files_of(render_plan_into(tmp_path / "whole", small_plan()))


def test_what_is_missing_is_named(tmp_path, halves):
    faults = merge_parts(halves[0]).faults
    names = "test-00000-of-00002.parquet, train-00001-of-00003.parquet"
    assert faults == (f"{halves[0] / 'data'}: {names}: planned and not there yet: render them",)


def test_what_belongs_to_another_division_is_named(tmp_path, halves):
    other = render_plan_into(tmp_path / "other", small_plan(rows_per_shard=10))
    root = _copy([halves[0], other / "data"], tmp_path / "mixed")
    (root / "train-00000-of-00002.parquet").rename(root / "data" / "train-00000-of-00002.parquet")
    faults = merge_parts(root).faults
    assert any("train-00000-of-00002.parquet: there and not planned" in fault for fault in faults)


def test_parts_of_different_settings_are_not_mixed(tmp_path, halves):
    other = render_plan_into(tmp_path / "other", small_plan(seed=4), Part(1, 2))
    root = _copy([other, halves[0]], tmp_path / "mixed")
    before = Manifest.read(root)
    faults = merge_parts(root).faults
    assert sum("rendered with other settings" in fault for fault in faults) == 2
    assert Manifest.read(root) == before


def test_a_part_of_other_settings_is_found_without_its_record(tmp_path, halves):
    other = render_plan_into(tmp_path / "other", small_plan(seed=4), Part(1, 2))
    root = _copy([other, halves[0]], tmp_path / "mixed", leave=(".render",))
    before = Manifest.read(root)
    faults = merge_parts(root).faults
    assert sum("rendered with other settings" in fault for fault in faults) == 2
    path = root / "data" / "train-00001-of-00003.parquet"
    assert any(f"Move {path} away" in fault and "delete" in fault for fault in faults)
    assert Manifest.read(root) == before


def test_a_shard_whose_rows_are_there_already_is_found(tmp_path, halves):
    root = _copy(halves, tmp_path / "both", leave=(".render",))
    first, second = (root / "data" / f"train-0000{k}-of-00003.parquet" for k in (0, 1))
    shutil.copy(second, first)
    faults = merge_parts(root).faults
    assert any("its ids are not 0 to 7" in fault for fault in faults)


def test_a_damaged_shard_is_named(tmp_path, halves):
    root = _copy(halves, tmp_path / "both")
    path = root / "data" / "train-00002-of-00003.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    faults = merge_parts(root).faults
    assert any(f"{path} is damaged" in fault for fault in faults)


def test_merging_given_latents_takes_them_as_they_are(tmp_path):
    given = np.linspace(-1, 1, 200, dtype=np.float32).reshape(20, 10)
    plan = small_plan(given=given)
    root = _copy([render_plan_into(tmp_path / "given", plan)], tmp_path / "copy", leave=(".render",))
    manifest = Manifest.read(root)
    replace(manifest, shards=()).write(root)
    report = merge_parts(root)
    manifest = report.manifest
    assert report.faults == ()
    assert manifest.is_complete


def test_positives_of_ones_own_conditional_are_checked_where_it_may_be_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "merged_tails.py").write_text("import ident3d\n\nclass Tails(ident3d.Normal):\n    pass\n")
    text = "merged_tails:Tails(sigma=0.1)"
    plan = small_plan(conditional=parse(text))
    whole = render_plan_into(tmp_path / "whole", plan)
    root = _copy([whole], tmp_path / "copy", leave=(".render",))
    replace(Manifest.read(root), shards=()).write(root)
    monkeypatch.delitem(sys.modules, "merged_tails")  # as in another process
    faults = "\n".join(merge_parts(root).faults)
    assert "import merged_tails first" in faults
    assert "or give the conditional with --pairs" in faults
    assert "merged_tails" not in sys.modules
    assert merge_parts(whole).faults == ()  # its records say what it holds
    assert merge_parts(root, pairs=text).faults == ()
    assert Manifest.read(root).is_complete


def test_a_complete_dataset_is_merged_without_writing(tmp_path, read_only):
    root = render_plan_into(tmp_path / "whole", small_plan())
    read_only(root)
    assert merge_parts(root).faults == ()


def test_a_complete_dataset_of_an_earlier_release_is_merged_without_writing(tmp_path, read_only, caplog):
    root = render_plan_into(tmp_path / "whole", small_plan())
    path = root / "manifest.json"
    path.write_text(json.dumps(Manifest.read(root).to_json()))  # without a checksum of its own
    read_only(root)
    assert merge_parts(root).faults == ()
    assert "stays as it is" in caplog.text


def test_an_incomplete_manifest_is_not_passed_over_where_nothing_can_be_written(tmp_path, halves, read_only):
    root = _copy(halves, tmp_path / "both")
    read_only(root)
    with pytest.raises(OSError, match="Read-only"):
        merge_parts(root)


@pytest.mark.parametrize("name", ["../../escape", "/escape", "..", "a/b", "a\\b", ".hidden", "a\x1b[2J", ""])
def test_no_name_in_a_manifest_or_a_record_leads_outside(tmp_path, name):
    root = render_plan_into(tmp_path / "deep" / "whole", small_plan())
    before = sorted(tmp_path.rglob("*"))
    manifest, record = root / "manifest.json", root / ".render" / "shards" / "train-00000-of-00003.parquet.json"
    good = manifest.read_text(), record.read_text()
    manifest.write_text(json.dumps(json.loads(good[0]) | {"splits": {name: 20, "test": 10}}))
    with pytest.raises(DatasetError, match="the splits named like folders"):
        merge_parts(root)
    shard = json.loads(good[0])["shards"][0] | {"name": f"{name}-00000-of-00003.parquet"}
    manifest.write_text(json.dumps(json.loads(good[0]) | {"shards": [shard]}))
    if name:
        with pytest.raises(DatasetError, match="is not one of a shard"):
            merge_parts(root)
    manifest.write_text(good[0])
    record.write_text(good[1].replace("train-00000", f"{json.dumps(name)[1:-1]}-00000"))
    assert merge_parts(root).faults == ()  # what the manifest says of the shard is enough
    assert sorted(tmp_path.rglob("*")) == before


def test_a_record_of_another_shard_is_not_taken_for_this_one(tmp_path, caplog):
    root = render_plan_into(tmp_path / "whole", small_plan())
    records = root / ".render" / "shards"
    shutil.copy(records / "train-00001-of-00003.parquet.json", records / "train-00000-of-00003.parquet.json")
    assert merge_parts(root).faults == ()
    assert "it is the record of train-00001-of-00003.parquet" in caplog.text


def test_merging_nothing_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no dataset"):
        merge_parts(tmp_path)
    replace(small_plan().manifest, render={}).write(tmp_path)
    with pytest.raises(DatasetError, match="does not say how"):
        merge_parts(tmp_path)
