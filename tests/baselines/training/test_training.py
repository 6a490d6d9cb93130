from dataclasses import replace

import pytest
import torch

from baselines.training.checkpoint import Checkpoint
from baselines.training.options import LiveImages
from baselines.training.placement import Placement
from baselines.training.report import write_report
from baselines.training.run import Run
from baselines.training.training import train_run
from ident3d import ThreeDIdent
from ident3d.errors import Ident3DError
from tests.baselines.training.short_run import CPU, OPTIONS, RECIPE, up_to


def test_a_run_in_two_parts_is_the_run_in_one(finished, images_root, tmp_path):
    run = Run(tmp_path)
    train_run(run, up_to(3), OPTIONS, images_root, CPU)
    half_written = tmp_path / ".checkpoint.pt.0123456789ab.tmp"  # as a kill leaves it
    half_written.write_bytes(b"PK")
    elsewhere = replace(OPTIONS, images=replace(OPTIONS.images, resident="never", workers=1))
    train_run(run, RECIPE, elsewhere, images_root, CPU)  # where images are does not matter
    expected, found = finished.encoder()[1], run.encoder()[1]
    assert found.step == expected.step == 4
    assert all(torch.equal(found.encoder[name], tensor) for name, tensor in expected.encoder.items())
    assert torch.equal(found.loss["raw_precision"], expected.loss["raw_precision"])
    assert not half_written.exists()


@pytest.mark.parametrize("pool", [0, 40])
def test_a_run_on_live_images_in_two_parts_is_the_run_in_one(tmp_path, pool):
    recipe = replace(RECIPE, conditional="normal(sigma=[0.1, 0.5])").live()
    live = LiveImages(resolution=8, quality="draft", factors=("position_x", "object_hue"), pool=pool)
    options = replace(OPTIONS, live=live)
    whole, parts = Run(tmp_path / "whole"), Run(tmp_path / "parts")
    train_run(whole, recipe, options, None, CPU)
    train_run(parts, replace(recipe, steps=3), options, None, CPU)
    with pytest.raises(Ident3DError, match="holds another run: dataset '"):
        train_run(parts, recipe, replace(options, live=replace(live, quality="standard")), None, CPU)
    train_run(parts, recipe, options, None, CPU)
    expected, found = whole.encoder()[1], parts.encoder()[1]
    assert found.step == expected.step == 4
    assert all(torch.equal(found.encoder[name], tensor) for name, tensor in expected.encoder.items())
    record = parts.record()
    assert (record["dim"], record["dataset"]["rows"]) == (2, pool or None)
    assert record["dataset"]["live"]["engine"].startswith("live")
    assert parts.options() == options
    said = parts.training_images()
    assert said == ("a pool of 40 live images of 8x8" if pool else "live images of 8x8, all fresh")
    assert said in write_report(parts, None, CPU.device).read_text()


def test_the_test_split_is_never_touched(images_root, tmp_path, monkeypatch):
    opened = []
    init = ThreeDIdent.__init__
    monkeypatch.setattr(
        ThreeDIdent, "__init__", lambda self, root, split="train": (opened.append(split), init(self, root, split))[1]
    )
    run = Run(tmp_path)
    train_run(run, up_to(1), OPTIONS, images_root, CPU)
    write_report(run, images_root, CPU.device)
    assert set(opened) == {"train"}


def test_processes_share_a_batch_evenly(images_root, tmp_path):
    with pytest.raises(ValueError, match="a batch of 8 pairs cannot be shared evenly by 3 processes"):
        train_run(Run(tmp_path), RECIPE, OPTIONS, images_root, Placement(torch.device("cpu"), world_size=3))


def test_images_that_are_too_small_for_bfloat16_on_a_cpu_are_refused(images_root, tmp_path, monkeypatch):
    monkeypatch.setattr("baselines.training.training._SMALLEST_HALF", 64)
    half = Placement(torch.device("cpu"), half=True)
    with pytest.raises(ValueError, match=r"at least 64x64, not 32x32; choose --precision float32"):
        train_run(Run(tmp_path / "run"), RECIPE, OPTIONS, images_root, half)
    assert not (tmp_path / "run").exists()


def test_two_trainings_in_one_folder_at_once_are_refused(images_root, tmp_path, monkeypatch):
    run, second = Run(tmp_path), []

    def evaluate(*_):
        with pytest.raises(Ident3DError, match=r"another training is running in .*; wait for its end, or choose"):
            train_run(Run(tmp_path), RECIPE, OPTIONS, images_root, CPU)
        second.append(Checkpoint.read(run.checkpoint_path).step)
        return {"r2": 0.0}

    monkeypatch.setattr("baselines.training.training.evaluate", evaluate)
    train_run(run, RECIPE, OPTIONS, images_root, CPU)
    assert second == [2]
    train_run(run, up_to(5), OPTIONS, images_root, CPU)  # the folder is free again
