"""``python -m render ROOT`` with Blender, in sizes that take seconds."""

import hashlib
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from ident3d.conditionals import parse
from ident3d.latents import sample_latents
from ident3d.pairs.rendered import exact_positives
from ident3d.storage.manifest import Manifest
from ident3d.storage.native import NativeSplit
from ident3d.storage.verification import verify
from render.__main__ import main
from tests.render.command_line import SMALL, kill, needs_bpy, render, start, wait_for
from tests.render.fake_renderer import files_of

pytestmark = needs_bpy


def test_a_dataset_is_whole_and_says_how_it_was_made(rendered):
    assert verify(rendered).faults == ()
    manifest = Manifest.read(rendered)
    assert manifest.splits == {"train": 12, "test": 6}
    assert manifest.render["hue_map"] == "wrapped"
    assert manifest.render["quality"]["name"] == "draft"
    made_by = manifest.shards[0].made_by
    assert made_by["device"] == "cpu"
    assert made_by["denoiser"] == "OpenImageDenoise"
    assert made_by["blender"].startswith(manifest.render["blender"])
    pixels = NativeSplit(rendered, "test").batch(np.arange(6))
    assert pixels.shape == (6, 16, 16, 3)
    assert len(np.unique(pixels.reshape(6, -1), axis=0)) == 6


def test_datasets_loads_it_where_it_lies_and_where_it_is_moved(rendered, tmp_path):
    datasets = pytest.importorskip("datasets")
    moved = shutil.copytree(rendered, tmp_path / "elsewhere")
    for root in (rendered, moved):
        loaded = datasets.load_dataset(str(root), cache_dir=str(tmp_path / "cache"))
        assert {split: len(rows) for split, rows in loaded.items()} == {"train": 12, "test": 6}
        stored = NativeSplit(root, "test")
        np.testing.assert_array_equal(np.asarray(loaded["test"][4]["image"]), stored.pixels(4))
        np.testing.assert_array_equal(loaded["test"][4]["latents"], stored.latents[4])


def test_two_workers_make_the_same_files(tmp_path, rendered_files):
    assert render(tmp_path, "--workers", "2") == 0
    assert files_of(tmp_path) == rendered_files


def test_another_run_renders_nothing(rendered, rendered_files, capsys):
    assert render(rendered) == 0
    assert "images rendered" not in capsys.readouterr().out
    assert files_of(rendered) == rendered_files


def test_parts_one_after_the_other_make_the_same_files(tmp_path, rendered_files, capsys):
    datasets = pytest.importorskip("datasets")
    assert render(tmp_path, "--shard", "1/3") == 0
    assert "not complete" in capsys.readouterr().out
    assert (
        list(files_of(tmp_path)) == ["train-00001-of-00003.parquet", "test-00001-of-00002.parquet"]
        or len(files_of(tmp_path)) == 2
    )
    loaded = datasets.load_dataset(str(tmp_path), cache_dir=str(tmp_path / ".cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 5, "test": 1}
    assert render(tmp_path) == 0
    assert files_of(tmp_path) == rendered_files


def test_a_slurm_array_renders_its_part(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    for name, value in {"ID": "7", "COUNT": "5", "MIN": "3", "MAX": "7"}.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    assert render(tmp_path) == 0
    assert "part 4/5, from SLURM_ARRAY_TASK_ID=7" in caplog.text
    assert list(files_of(tmp_path)) == ["test-00001-of-00002.parquet"]


@pytest.mark.slow
def test_two_parts_at_the_same_time_make_the_same_files(tmp_path, rendered_files, capsys):
    parts = [start(tmp_path, "--shard", f"{k}/2") for k in (0, 1)]
    for part in parts:
        _, words = part.communicate(timeout=120)
        assert part.returncode == 0, words
    assert files_of(tmp_path) == rendered_files
    assert Manifest.read(tmp_path).is_complete
    assert main([str(tmp_path), "--merge"]) == 0
    assert "5 of 5 shards, none missing, none duplicated" in capsys.readouterr().out


def _journal_holds(root, count):
    return sum(path.stat().st_size for path in (root / ".render" / "journal").glob("*")) > 600 * count


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        lambda root: (root / "manifest.json").exists(),
        lambda root: _journal_holds(root, 2),
        lambda root: (root / "data").exists(),
        lambda root: len(list((root / ".render" / "shards").glob("*.json"))) == 2,
    ],
    ids=["settings", "images", "shard", "shards"],
)
def test_a_kill_at_any_moment_costs_nothing(tmp_path, rendered_files, moment):
    process = start(tmp_path)
    wait_for(lambda: moment(tmp_path), process)
    kill(process)
    for journal in (tmp_path / ".render" / "journal").glob("*"):
        journal.write_bytes(journal.read_bytes()[:-7])  # and the power fails, before the disk has everything
    assert render(tmp_path) == 0
    assert files_of(tmp_path) == rendered_files
    assert verify(tmp_path).faults == ()


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "batch system"])
def test_an_end_from_outside_keeps_what_is_done_and_leaves_no_worker(tmp_path, rendered_files, end):
    process = start(tmp_path)
    wait_for(lambda: _journal_holds(tmp_path, 2), process)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert workers
    process.send_signal(end)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "finished images are kept, and the same command resumes the run" in words
    assert "Traceback" not in words
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert render(tmp_path) == 0
    assert files_of(tmp_path) == rendered_files


def test_a_damaged_shard_is_rendered_again(rendered, rendered_files, tmp_path):
    root = shutil.copytree(rendered, tmp_path / "damaged")
    path = root / "data" / "test-00000-of-00002.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    assert render(root) == 0
    assert files_of(root) == rendered_files


def test_a_run_with_other_settings_is_refused(rendered, rendered_files, caplog):
    assert main([str(rendered), *SMALL, "--seed", "1", "--hue-map", "published"]) == 2
    assert "seed: 0 against 1" in caplog.text
    assert "render.hue_map: 'wrapped' against 'published'" in caplog.text
    assert files_of(rendered) == rendered_files


def test_exact_positives_are_rendered_beside_their_anchors(tmp_path, rendered, caplog):
    conditional = "normal(sigma={position: 0.1, rest: 0.3})"
    options = ("--train", "3", "--test", "2", "--resolution", "16", "--quality", "draft", "--workers", "1")
    assert main([str(tmp_path), *options, "--pairs", conditional]) == 0
    assert verify(tmp_path).faults == ()
    stored = NativeSplit(tmp_path, "train")
    latents = sample_latents(3, 0)
    expected = exact_positives(latents, parse(conditional), 0, split="train")
    np.testing.assert_array_equal(stored.positives.latents, expected)
    assert (stored.positives.pixels(1) != stored.pixels(1)).any()
    for row in range(3):  # an anchor is the same image with and without a positive
        np.testing.assert_array_equal(stored.pixels(row), NativeSplit(rendered, "train").pixels(row))
    assert parse(Manifest.read(tmp_path).pairs) == parse(conditional)
    assert main([str(tmp_path), *options]) == 2  # resumed without it: the manifest's text alone decides nothing
    assert "of its exact positives again: --pairs 'normal(sigma=[0.1, 0.1, 0.1, 0.3" in caplog.text


def test_given_latents_are_rendered(tmp_path, rendered):
    np.save(tmp_path / "mine.npy", sample_latents(5, seed=0)[::-1].astype(np.float64))
    root = tmp_path / "dataset"
    options = ("--resolution", "16", "--quality", "draft", "--workers", "1", "--latents", str(tmp_path / "mine.npy"))
    assert main([str(root), *options]) == 0
    assert verify(root).faults == ()
    np.testing.assert_array_equal(NativeSplit(root, "train").latents, sample_latents(5, seed=0)[::-1])
    digest = hashlib.sha256(np.ascontiguousarray(sample_latents(5, seed=0)[::-1]).tobytes()).hexdigest()
    assert Manifest.read(root).latents == {"train": digest}
    assert main([str(root), *options]) == 0
    np.save(tmp_path / "mine.npy", sample_latents(5, seed=1))
    assert main([str(root), *options]) == 2


@pytest.mark.slow
def test_another_python_renders_the_same_files(tmp_path, rendered_files):
    packages_of_bpy = Path(find_spec("bpy").origin).parents[1]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    [packages] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "bpy.pth").write_text(f"{packages_of_bpy}\n")
    assert render(tmp_path / "dataset", "--blender", str(tmp_path / "venv" / "bin" / "python")) == 0
    assert files_of(tmp_path / "dataset") == rendered_files


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--train", "-1"), 2, "train is 0 or larger, not -1"),
        (("--train", "0", "--test", "0"), 2, "nothing to render"),
        (("--resolution", "0"), 2, "resolution is 4 or larger, not 0"),
        (("--seed", "-3"), 2, "seed is 0 or larger"),
        (("--rows-per-shard", "0"), 2, "rows_per_shard is 1 or larger"),
        (("--workers", "0"), 2, "1 or more workers"),
        (("--shard", "4/4"), 2, "parts count from 0"),
        (("--shard", "first"), 2, "expected a part as K/N"),
        (("--pairs", "normal(sigma=-1)"), 2, "sigma"),
        (("--pairs", "vmf(kappa=1)"), 2, "not defined on"),
        (("--latents", "nowhere.npy"), 2, "nowhere.npy"),
        (("--blender", "nowhere/python"), 2, "nowhere/python"),
        (("--device", "metal"), 1, "metal"),
        (("--train", "400000", "--resolution", "8000"), 1, "bytes, but"),
        (("--train", "2000000000"), 2, "400,000,000 shards are more than"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(tmp_path, caplog, options, status, said):
    root = tmp_path / "dataset"
    assert main([str(root), *SMALL, *options]) == status
    assert said in caplog.text
    assert not root.exists()


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.full((3, 10), 1.5), "row 0, position_x is 1.5"),
        (np.full((3, 10), np.nan), "position_x is nan"),
        (np.zeros((3, 9)), "expected numeric latents of shape (N, 10)"),
        (np.zeros(10), "expected numeric latents of shape (N, 10)"),
        (np.zeros((0, 10)), "expected one or more rows of latents, not 0"),
    ],
)
def test_latents_that_cannot_be_rendered_are_refused(tmp_path, caplog, array, said):
    np.save(tmp_path / "mine.npy", array)
    assert main([str(tmp_path / "dataset"), "--latents", str(tmp_path / "mine.npy")]) == 2
    assert said in caplog.text
    assert "mine.npy" in caplog.text


def test_another_file_of_latents_is_refused(tmp_path, caplog):
    (tmp_path / "mine.npy").write_text("1,2,3")
    assert main([str(tmp_path / "dataset"), "--latents", str(tmp_path / "mine.npy")]) == 2
    assert "is not a .npy file" in caplog.text
    np.savez(tmp_path / "mine.npz", latents=np.zeros((3, 10)))
    assert main([str(tmp_path / "dataset"), "--latents", str(tmp_path / "mine.npz")]) == 2
    assert "archive of arrays" in caplog.text
    np.save(tmp_path / "mine.npy", np.zeros((3, 10)))
    assert main([str(tmp_path / "dataset"), "--latents", str(tmp_path / "mine.npy"), "--train", "4"]) == 2
    assert "leave train out" in caplog.text


def test_a_part_without_a_shard_is_no_failure(tmp_path, caplog):
    caplog.set_level("INFO")
    assert render(tmp_path / "dataset", "--shard", "9/10") == 0
    assert "part 9/10 holds no shard" in caplog.text


def test_merging_an_incomplete_dataset_fails(tmp_path, rendered, capsys):
    root = shutil.copytree(rendered, tmp_path / "copy")
    (root / "data" / "train-00001-of-00003.parquet").unlink()
    assert main([str(root), "--merge"]) == 1
    assert "train-00001-of-00003.parquet: planned and not there yet" in capsys.readouterr().out
