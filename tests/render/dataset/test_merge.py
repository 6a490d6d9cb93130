"""Parts that several machines rendered, as one dataset."""

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
    assert sum("made with other settings" in fault for fault in faults) == 2
    assert Manifest.read(root) == before


def test_a_part_of_other_settings_is_found_without_its_record(tmp_path, halves):
    other = render_plan_into(tmp_path / "other", small_plan(seed=4), Part(1, 2))
    root = _copy([other, halves[0]], tmp_path / "mixed", leave=(".render",))
    before = Manifest.read(root)
    faults = merge_parts(root).faults
    assert sum("was rendered with other settings" in fault for fault in faults) == 2
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


def test_merging_nothing_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no dataset"):
        merge_parts(tmp_path)
    replace(small_plan().manifest, render={}).write(tmp_path)
    with pytest.raises(DatasetError, match="does not say how"):
        merge_parts(tmp_path)
