"""From a plan to a dataset, without Blender."""

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ident3d.errors import DatasetError
from ident3d.scene.world import World
from ident3d.storage.images import decode
from ident3d.storage.manifest import Manifest
from ident3d.storage.native import NativeSplit, ShardReader
from render.blender.protocol import Device, DeviceMissingError, WorkerInfo
from render.blender.quality import QUALITIES
from render.dataset.journal import Journal
from render.dataset.render import render_dataset, render_plan, render_shards
from render.dataset.spec import DatasetSpec, Part
from render.dataset.writer import DatasetWriter, begun_dataset
from tests.render.fake_renderer import RESOLUTION, Counter, FakeRenderer, Shifted, files_of, small_plan


class FakePool(FakeRenderer):
    """A pool that says what renders, or why nothing does."""

    def __init__(self, blender="4.5.15 LTS", missing=None, **others):
        super().__init__(**others)
        self.about = WorkerInfo(blender, "3.11.7", Device.CPU, "a processor")
        self.missing = missing
        self.entered = 0

    def pool(self, quality, resolution):
        assert (quality.name, resolution) == ("draft", RESOLUTION)
        return self

    def __enter__(self):
        self.entered += 1
        if self.missing:
            raise self.missing
        return self

    def __exit__(self, *_):
        return None


def _render(root, plan, part, pool):
    return render_plan(root, plan, part, pool, begun_dataset(root))


def test_a_spec_and_a_pool_are_all_that_it_takes(tmp_path):
    latents = np.linspace(-1, 1, 50).reshape(5, 10)
    world = World().with_hue_map("published")
    spec = DatasetSpec(test=2, resolution=RESOLUTION, quality=QUALITIES["draft"], world=world, latents=latents)
    report = render_dataset(tmp_path / "mine", spec, FakePool())
    assert (report.rendered, report.kept, report.elsewhere) == (7, 0, ())
    assert report.manifest == Manifest.read(tmp_path / "mine")
    assert report.manifest.splits == {"train": 5, "test": 2}
    assert report.manifest.render["hue_map"] == "published"
    np.testing.assert_array_equal(NativeSplit(tmp_path / "mine", "train").latents, latents.astype(np.float32))
    again = DatasetSpec(test=2, resolution=RESOLUTION, quality="draft", latents=latents)  # the folder knows its world
    assert render_dataset(str(tmp_path / "mine"), again, FakePool()).rendered == 0
    with pytest.raises(ValueError, match=r"render\.hue_map: 'published' against 'wrapped'"):
        render_dataset(tmp_path / "mine", replace(again, hue_map="wrapped"), FakePool())


def test_the_settings_stand_before_the_first_image_and_name_the_series(tmp_path):
    with pytest.raises(RuntimeError):
        _render(tmp_path / "new", small_plan(), Part(), FakePool(fail_after=0))
    manifest = Manifest.read(tmp_path / "new")
    assert manifest.render["blender"] == "4.5"
    assert manifest.shards == ()
    assert (tmp_path / "new" / "README.md").exists()


def test_a_run_says_what_it_did(tmp_path):
    with pytest.raises(RuntimeError):
        _render(tmp_path, small_plan(), Part(), FakePool(fail_after=11))
    report = _render(tmp_path, small_plan(), Part(), FakePool())
    assert (report.rendered, report.kept) == (19, 3)
    assert report.manifest.is_complete
    assert report.seconds > 0


def test_a_complete_dataset_needs_no_blender(tmp_path):
    _render(tmp_path, small_plan(), Part(), FakePool())
    pool = FakePool()
    report = _render(tmp_path, small_plan(), Part(), pool)
    assert pool.entered == 0
    assert report.rendered == 0
    assert report.manifest.is_complete


def test_a_run_over_a_complete_dataset_writes_nothing(tmp_path, read_only):
    _render(tmp_path, small_plan(), Part(), FakePool())
    read_only(tmp_path)
    assert _render(tmp_path, small_plan(), Part(), FakePool()).manifest.is_complete


def test_a_shard_of_another_dataset_is_left_alone_and_the_message_says_what_to_do(tmp_path):
    other = _rendered(tmp_path / "other", small_plan(seed=4))
    root = tmp_path / "mine"
    with pytest.raises(RuntimeError):
        _render(root, small_plan(), Part(), FakePool(fail_after=0))
    (root / "data").mkdir()
    foreign = shutil.copy(other / "data" / "train-00001-of-00003.parquet", root / "data")
    before = Path(foreign).read_bytes()
    with pytest.raises(DatasetError, match=rf"Move {foreign} away if .*, or delete"):
        _render(root, small_plan(), Part(), FakePool())
    assert Path(foreign).read_bytes() == before
    Path(foreign).unlink()
    assert _render(root, small_plan(), Part(), FakePool()).manifest.is_complete


def _rendered(root, plan):
    _render(root, plan, Part(), FakePool())
    return root


def test_another_series_of_blender_is_refused(tmp_path):
    with pytest.raises(RuntimeError):
        _render(tmp_path, small_plan(), Part(), FakePool(fail_after=11))
    before = files_of(tmp_path), Manifest.read(tmp_path)
    pool = FakePool(blender="5.2.3")
    with pytest.raises(ValueError, match=r"begun with Blender 4\.5, but these workers run Blender 5\.2\.3.*bpy 4\.5"):
        _render(tmp_path, small_plan(), Part(), pool)
    assert pool.rendered == []
    assert (files_of(tmp_path), Manifest.read(tmp_path)) == before
    _render(tmp_path, small_plan(), Part(), FakePool(blender="4.5.16"))
    assert {record.made_by["blender"] for record in Manifest.read(tmp_path).shards} == {"4.5.15 LTS", "4.5.16"}


def test_other_settings_are_refused_line_by_line(tmp_path):
    _render(tmp_path, small_plan(), Part(), FakePool())
    other = small_plan(seed=4, splits={"train": 20, "test": 11})
    with pytest.raises(ValueError, match=r"other settings.*\n  splits\.test: 10 against 11\n  seed: 3 against 4"):
        _render(tmp_path, other, Part(), FakePool())


@pytest.mark.parametrize("damage", ["", '{"splits"'])
def test_a_damaged_manifest_is_written_again_over_the_shards_that_are_there(tmp_path, damage):
    with pytest.raises(RuntimeError):
        _render(tmp_path, small_plan(), Part(), FakePool(fail_after=11))
    before = Manifest.read(tmp_path).shards
    assert before
    (tmp_path / "manifest.json").write_text(damage)
    with pytest.raises(DatasetError, match=r"not strict JSON(.|\n)*Delete that file and run the command"):
        _render(tmp_path, small_plan(), Part(), FakePool())
    (tmp_path / "manifest.json").unlink()
    report = _render(tmp_path, small_plan(), Part(), FakePool())
    assert (report.rendered, report.kept) == (19, 3)
    assert report.manifest.is_complete
    assert all(record in report.manifest.shards for record in before)


def test_a_manifest_of_another_version_is_not_to_be_deleted(tmp_path):
    _render(tmp_path, small_plan(), Part(), FakePool())
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    with pytest.raises(DatasetError, match=r"schema version 2; this ident3d reads 1$"):
        _render(tmp_path, small_plan(), Part(), FakePool())


def test_shards_of_other_settings_are_refused_where_the_manifest_is_gone(tmp_path):
    _render(tmp_path, small_plan(), Part(), FakePool())
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(DatasetError, match="rendered with other settings"):
        _render(tmp_path, small_plan(seed=1), Part(), FakePool())
    assert not (tmp_path / "manifest.json").exists()


def test_a_machine_that_cannot_render_leaves_no_folder(tmp_path):
    with pytest.raises(DeviceMissingError):
        _render(tmp_path / "new", small_plan(), Part(), FakePool(missing=DeviceMissingError("no device cuda")))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_called_so(tmp_path, monkeypatch, code):
    def full(*_):
        raise OSError(code, "full")

    monkeypatch.setattr(Journal, "append", full)
    with pytest.raises(DatasetError, match="is full; finished images are kept"):
        _render(tmp_path, small_plan(), Part(), FakePool())


def test_another_error_of_the_disk_stays_itself(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(Journal, "append", broken)
    with pytest.raises(OSError, match="broken"):
        _render(tmp_path, small_plan(), Part(), FakePool())


def test_ctrl_c_says_how_to_go_on(tmp_path, caplog):
    with pytest.raises(KeyboardInterrupt):
        _render(tmp_path, small_plan(), Part(), FakePool(fail_after=5, error=KeyboardInterrupt))
    assert "finished images are kept, and the same command resumes the run" in caplog.text
    assert _render(tmp_path, small_plan(), Part(), FakePool()).kept == 5


def test_the_division_into_shards_is_a_setting(tmp_path):
    _render(tmp_path, small_plan(), Part(0, 2), FakePool())
    with pytest.raises(ValueError, match="rows_per_shard: 8 against 5"):
        _render(tmp_path, small_plan(rows_per_shard=5), Part(), FakePool())


MADE_BY = {"blender": "4.5.15", "device": "cpu"}


def _run(root, plan, renderer=None, part=None):
    writer = DatasetWriter(root, plan.manifest)
    shards = writer.unfinished((part or Part()).take(plan.shards))
    writer.write_manifest()
    renderer = renderer or FakeRenderer()
    counter = Counter()
    outcome = render_shards(writer, plan, shards, renderer, made_by=MADE_BY, progress=counter)
    assert counter.count == outcome.rendered + outcome.kept
    assert outcome.rendered == len(renderer.rendered)
    return outcome


@pytest.fixture
def whole(tmp_path):
    _run(tmp_path / "whole", small_plan())
    return files_of(tmp_path / "whole")


def test_a_dataset_holds_what_was_planned(tmp_path):
    plan = small_plan(conditional=Shifted())
    _run(tmp_path, plan)
    manifest = Manifest.read(tmp_path)
    assert manifest.is_complete
    assert manifest.shards[0].made_by == MADE_BY
    for split in ("train", "test"):
        stored = NativeSplit(tmp_path, split)
        np.testing.assert_array_equal(stored.ids, np.arange(plan.manifest.splits[split]))
    job = list(plan.jobs(plan.shards[1], plan.latents(plan.shards[1])))[5]  # the positive of the third row
    image = ShardReader(tmp_path / "data" / plan.shards[1].name).image(2, "image_pos")
    fresh = FakeRenderer().image(job.scene, job.seed)
    np.testing.assert_array_equal(decode(image, "stored"), decode(fresh, "fresh"))
    assert not list((tmp_path / ".render" / "journal").iterdir())


@pytest.mark.parametrize("after", [0, 1, 7, 8, 11, 24, 29])
def test_a_run_that_ended_anywhere_is_gone_on_with(tmp_path, whole, after):
    root = tmp_path / "dataset"
    with pytest.raises(RuntimeError):
        _run(root, small_plan(), FakeRenderer(fail_after=after))
    finished = {path.name for path in (root / "data").glob("*")}
    assert finished == {record.name for record in Manifest.read(root).shards}
    renderer = FakeRenderer()
    _run(root, small_plan(), renderer)
    assert len(renderer.rendered) == 30 - after
    assert files_of(root) == whole
    assert Manifest.read(root).is_complete


def test_a_run_that_ended_between_shard_and_record_renders_nothing_again(tmp_path, whole, monkeypatch):
    root = tmp_path / "dataset"
    with monkeypatch.context() as patch:
        patch.setattr(DatasetWriter, "write_record", _killed)
        with pytest.raises(RuntimeError):
            _run(root, small_plan())
    renderer = FakeRenderer()
    outcome = _run(root, small_plan(), renderer)
    assert outcome.kept >= 8
    assert files_of(root) == whole


def test_a_journal_that_outlived_its_shard_is_removed(tmp_path, whole, monkeypatch):
    root = tmp_path / "dataset"
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "delete", _killed)
        with pytest.raises(RuntimeError):
            _run(root, small_plan())
    assert list((root / ".render" / "journal").iterdir())
    _run(root, small_plan())
    assert not list((root / ".render" / "journal").iterdir())
    assert files_of(root) == whole


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-100], lambda data: b"", lambda data: data[:99] + b"!" + data[100:]]
)
def test_a_damaged_shard_is_found_and_rendered_again(tmp_path, whole, damage, caplog):
    root = tmp_path / "whole"
    path = root / "data" / "train-00001-of-00003.parquet"
    path.write_bytes(damage(path.read_bytes()))
    renderer = FakeRenderer()
    _run(root, small_plan(), renderer)
    assert len(renderer.rendered) == 8
    assert files_of(root) == whole
    assert "train-00001-of-00003.parquet is damaged" in caplog.text
    assert Manifest.read(root).is_complete


def test_a_missing_shard_is_rendered_again(tmp_path, whole):
    root = tmp_path / "whole"
    (root / "data" / "test-00001-of-00002.parquet").unlink()
    renderer = FakeRenderer()
    _run(root, small_plan(), renderer)
    assert len(renderer.rendered) == 2
    assert files_of(root) == whole


def test_a_dataset_without_its_records_is_known_by_its_manifest(tmp_path, whole):
    shutil.rmtree(tmp_path / "whole" / ".render")
    renderer = FakeRenderer()
    _run(tmp_path / "whole", small_plan(), renderer)
    assert renderer.rendered == []
    assert Manifest.read(tmp_path / "whole").is_complete


def test_parts_make_the_whole_in_any_order(tmp_path, whole):
    root = tmp_path / "parts"
    counts = []
    for number in (2, 0, 1):
        assert not root.exists() or not Manifest.read(root).is_complete
        counts.append(_run(root, small_plan(), part=Part(number, 3)).rendered)
    assert sum(counts) == 30
    assert files_of(root) == whole
    assert Manifest.read(root).is_complete


def test_a_shard_that_another_process_renders_is_left_to_it(tmp_path, whole):
    root = tmp_path / "shared"
    plan = small_plan()
    other = DatasetWriter(root, plan.manifest).journal(plan.shards[1])
    outcome = _run(root, plan)
    other.close()
    assert outcome.elsewhere == (plan.shards[1].name,)
    assert files_of(root).keys() == whole.keys() - {plan.shards[1].name}


def test_a_shard_that_another_process_finished_meanwhile_is_not_rendered_again(tmp_path, whole):
    plan = small_plan()
    renderer = FakeRenderer()
    counter = Counter()
    writer = DatasetWriter(tmp_path / "whole", plan.manifest)
    outcome = render_shards(writer, plan, plan.shards, renderer, made_by=MADE_BY, progress=counter)
    assert outcome.rendered == 0
    assert counter.count == 30
    assert files_of(tmp_path / "whole") == whole


def test_a_disk_that_fills_up_loses_nothing(tmp_path, whole, monkeypatch):
    root, plan = tmp_path / "dataset", small_plan()
    append = Journal.append
    written = []

    def filling(self, entry, image):
        if len(written) == 13:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(entry)
        append(self, entry, image)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", filling)
        writer = DatasetWriter(root, plan.manifest)
        with pytest.raises(OSError, match="No space left"):
            render_shards(writer, plan, plan.shards, FakeRenderer(), made_by=MADE_BY, progress=Counter())
    renderer = FakeRenderer()
    _run(root, small_plan(), renderer)
    assert len(renderer.rendered) == 17
    assert files_of(root) == whole


def _killed(*_):
    raise RuntimeError


def test_parts_that_finish_at_the_same_time_all_get_into_the_manifest(tmp_path):
    plan = small_plan(rows_per_shard=2)
    parts = [Part(number, 4) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:  # locks and files are shared by threads as by processes
        list(pool.map(lambda part: _run(tmp_path, plan, part=part), parts))
    assert Manifest.read(tmp_path).is_complete
    card = (tmp_path / "README.md").read_text()
    assert "not complete" not in card
    assert "10 test" in card


def test_processes_without_parts_share_the_work(tmp_path):
    plan = small_plan(rows_per_shard=2)
    writer = DatasetWriter(tmp_path, plan.manifest)
    writer.write_manifest()
    renderers = [FakeRenderer() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        run = partial(render_shards, writer, plan, plan.shards)
        list(pool.map(lambda renderer: run(renderer, made_by=MADE_BY, progress=Counter()), renderers))
    assert sorted(image for renderer in renderers for image in renderer.rendered) == sorted(
        image for shard in plan.shards for image in shard.images
    )
    assert Manifest.read(tmp_path).is_complete
