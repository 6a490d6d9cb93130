"""From planned shards to finished ones, without Blender."""

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from ident3d.storage.images import decode
from ident3d.storage.manifest import Manifest
from ident3d.storage.native import NativeSplit, ShardReader
from render.dataset.folder import Assembly
from render.dataset.journal import Journal
from render.dataset.plan import Part
from render.dataset.render import render_shards
from tests.render.fake_renderer import Counter, FakeRenderer, files_of, small_plan
from tests.render.test_plan import Shifted

MADE_BY = {"blender": "4.5.15", "device": "cpu"}


def _run(root, plan, renderer=None, part=None):
    assembly = Assembly(root, plan)
    shards = assembly.unfinished((part or Part()).take(plan.shards))
    assembly.compose()
    renderer = renderer or FakeRenderer()
    counter = Counter()
    outcome = render_shards(assembly, shards, renderer, MADE_BY, counter)
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
    job = list(plan.jobs(plan.shards[1]))[5]  # the positive of the third row
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
        patch.setattr(Assembly, "write_record", _killed)
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
    other = Assembly(root, plan).journal(plan.shards[1])
    outcome = _run(root, plan)
    other.close()
    assert [shard.name for shard in outcome.elsewhere] == [plan.shards[1].name]
    assert files_of(root).keys() == whole.keys() - {plan.shards[1].name}


def test_a_shard_that_another_process_finished_meanwhile_is_not_rendered_again(tmp_path, whole):
    plan = small_plan()
    renderer = FakeRenderer()
    counter = Counter()
    outcome = render_shards(Assembly(tmp_path / "whole", plan), plan.shards, renderer, MADE_BY, counter)
    assert outcome.rendered == 0
    assert counter.count == 30
    assert files_of(tmp_path / "whole") == whole


def test_a_disk_that_fills_up_loses_nothing(tmp_path, whole, monkeypatch):
    root = tmp_path / "dataset"
    append = Journal.append
    written = []

    def filling(self, entry, image):
        if len(written) == 13:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(entry)
        append(self, entry, image)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", filling)
        with pytest.raises(OSError, match="No space left"):
            render_shards(Assembly(root, small_plan()), small_plan().shards, FakeRenderer(), MADE_BY, Counter())
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
    assembly = Assembly(tmp_path, plan)
    assembly.compose()
    renderers = [FakeRenderer() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        run = partial(render_shards, assembly, plan.shards)
        list(pool.map(lambda renderer: run(renderer, MADE_BY, Counter()), renderers))
    assert sorted(image for renderer in renderers for image in renderer.rendered) == sorted(
        job.key for shard in plan.shards for job in plan.jobs(shard)
    )
    assert Manifest.read(tmp_path).is_complete
