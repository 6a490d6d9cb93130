"""One run of the render command, without Blender."""

import errno
from dataclasses import replace

import pytest

from ident3d.errors import DatasetError
from ident3d.storage.manifest import Manifest
from render.blender.errors import DeviceMissingError
from render.blender.quality import About, Device
from render.dataset.journal import Journal
from render.dataset.plan import Part
from render.dataset.render import _Bar, produce
from tests.render.fake_renderer import FakeRenderer, files_of, small_plan


class FakePool(FakeRenderer):
    """A pool that says what renders, or why nothing does."""

    def __init__(self, blender="4.5.15 LTS", missing=None, **others):
        super().__init__(**others)
        self.about = About(blender, "3.11.7", Device.CPU, "a processor")
        self.missing = missing
        self.entered = 0

    def __enter__(self):
        self.entered += 1
        if self.missing:
            raise self.missing
        return self

    def __exit__(self, *_):
        return None


def test_the_settings_stand_before_the_first_image_and_name_the_series(tmp_path):
    with pytest.raises(RuntimeError):
        produce(tmp_path / "new", small_plan(), Part(), FakePool(fail_after=0))
    manifest = Manifest.read(tmp_path / "new")
    assert manifest.render["blender"] == "4.5"
    assert manifest.shards == ()
    assert (tmp_path / "new" / "README.md").exists()


def test_a_run_says_what_it_did(tmp_path):
    with pytest.raises(RuntimeError):
        produce(tmp_path, small_plan(), Part(), FakePool(fail_after=11))
    production = produce(tmp_path, small_plan(), Part(), FakePool())
    assert (production.outcome.rendered, production.outcome.kept) == (19, 3)
    assert production.manifest.is_complete
    assert production.seconds > 0


def test_a_complete_dataset_needs_no_blender(tmp_path):
    produce(tmp_path, small_plan(), Part(), FakePool())
    pool = FakePool()
    production = produce(tmp_path, small_plan(), Part(), pool)
    assert pool.entered == 0
    assert production.outcome.rendered == 0
    assert production.manifest.is_complete


def test_another_series_of_blender_is_refused(tmp_path):
    with pytest.raises(RuntimeError):
        produce(tmp_path, small_plan(), Part(), FakePool(fail_after=11))
    before = files_of(tmp_path), Manifest.read(tmp_path)
    pool = FakePool(blender="5.2.3")
    with pytest.raises(ValueError, match=r"begun with Blender 4\.5, and these workers run 5\.2\.3.*bpy 4\.5"):
        produce(tmp_path, small_plan(), Part(), pool)
    assert pool.rendered == []
    assert (files_of(tmp_path), Manifest.read(tmp_path)) == before
    produce(tmp_path, small_plan(), Part(), FakePool(blender="4.5.16"))
    assert {record.made_by["blender"] for record in Manifest.read(tmp_path).shards} == {"4.5.15 LTS", "4.5.16"}


def test_other_settings_are_refused_line_by_line(tmp_path):
    produce(tmp_path, small_plan(), Part(), FakePool())
    other = small_plan(seed=4, splits={"train": 20, "test": 11})
    with pytest.raises(ValueError, match=r"other settings.*\n  splits\.test: 10 against 11\n  seed: 3 against 4"):
        produce(tmp_path, other, Part(), FakePool())


@pytest.mark.parametrize("damage", ["", '{"splits"'])
def test_a_damaged_manifest_is_written_again_over_the_shards_that_are_there(tmp_path, damage):
    with pytest.raises(RuntimeError):
        produce(tmp_path, small_plan(), Part(), FakePool(fail_after=11))
    before = Manifest.read(tmp_path).shards
    assert before
    (tmp_path / "manifest.json").write_text(damage)
    with pytest.raises(DatasetError, match=r"not strict JSON(.|\n)*Delete that file and run the command"):
        produce(tmp_path, small_plan(), Part(), FakePool())
    (tmp_path / "manifest.json").unlink()
    production = produce(tmp_path, small_plan(), Part(), FakePool())
    assert (production.outcome.rendered, production.outcome.kept) == (19, 3)
    assert production.manifest.is_complete
    assert all(record in production.manifest.shards for record in before)


def test_a_manifest_of_another_version_is_not_to_be_deleted(tmp_path):
    produce(tmp_path, small_plan(), Part(), FakePool())
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(DatasetError, match=r"schema version 2; this ident3d reads 1$"):
        produce(tmp_path, small_plan(), Part(), FakePool())


def test_shards_of_other_settings_are_refused_where_the_manifest_is_gone(tmp_path):
    produce(tmp_path, small_plan(), Part(), FakePool())
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(DatasetError, match="made with other settings"):
        produce(tmp_path, small_plan(seed=1), Part(), FakePool())
    assert not (tmp_path / "manifest.json").exists()


def test_a_machine_that_cannot_render_leaves_no_folder(tmp_path):
    with pytest.raises(DeviceMissingError):
        produce(tmp_path / "new", small_plan(), Part(), FakePool(missing=DeviceMissingError("no device cuda")))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_called_so(tmp_path, monkeypatch, code):
    def full(*_):
        raise OSError(code, "full")

    monkeypatch.setattr(Journal, "append", full)
    with pytest.raises(DatasetError, match="is full; the images that are done are kept"):
        produce(tmp_path, small_plan(), Part(), FakePool())


def test_another_error_of_the_disk_stays_itself(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(Journal, "append", broken)
    with pytest.raises(OSError, match="broken"):
        produce(tmp_path, small_plan(), Part(), FakePool())


def test_ctrl_c_says_how_to_go_on(tmp_path, caplog):
    with pytest.raises(KeyboardInterrupt):
        produce(tmp_path, small_plan(), Part(), FakePool(fail_after=5, error=KeyboardInterrupt))
    assert "the same command goes on from there" in caplog.text
    assert produce(tmp_path, small_plan(), Part(), FakePool()).outcome.kept == 5


def test_the_division_into_shards_is_a_setting(tmp_path):
    produce(tmp_path, small_plan(), Part(0, 2), FakePool())
    with pytest.raises(ValueError, match="rows_per_shard: 8 against 5"):
        produce(tmp_path, replace(small_plan(), manifest=small_plan(rows_per_shard=5).manifest), Part(), FakePool())


def test_the_pace_of_the_bar_is_that_of_the_rendered_images(capsys):
    with _Bar(total=1000, unit="image", disable=False, miniters=1, mininterval=0, smoothing=0) as bar:
        bar.skip(900)
        bar.update(50)
        assert bar.n == 950
        assert bar.format_dict["initial"] == 900
        assert bar.format_meter(**(bar.format_dict | {"elapsed": 10.0})).endswith("5.00image/s]")
    with _Bar(total=1000, disable=True) as bar:
        bar.skip(900)
