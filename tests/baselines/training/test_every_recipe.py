"""Every recipe and depth for two steps, and a run that is killed."""

import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from baselines.recipes import RECIPES, SPHERE_FACTORS
from baselines.training.checkpoint import Checkpoint
from baselines.training.options import Images, Intervals, LiveImages, TrainingOptions
from baselines.training.placement import Placement
from baselines.training.progress import read_metrics
from baselines.training.run import Run
from baselines.training.training import train_run

CPU = Placement(torch.device("cpu"))
CHECKOUT = Path(__file__).parents[3]


def train(recipe, root, folder):
    run = Run(folder)
    live = LiveImages(resolution=16, quality="draft", latent_space="sphere", factors=tuple(SPHERE_FACTORS))
    is_live = recipe.pairs == "live"
    options = TrainingOptions(
        images=Images(validation=60), intervals=Intervals(log_every=1), live=live if is_live else LiveImages()
    )
    train_run(run, replace(recipe, steps=2, batch_size=8), options, None if is_live else root, CPU)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_every_recipe_trains(recipe, pairs_root, tmp_path):
    run = train(recipe, pairs_root, tmp_path)
    encoder, checkpoint = run.encoder()
    assert checkpoint.step == 2
    assert all(tensor.isfinite().all() for tensor in encoder.state_dict().values())
    lines = read_metrics(tmp_path)
    losses, scores = ([line for line in lines if name in line] for name in ("loss", "r2"))
    assert [line["step"] for line in losses] == [1, 2]
    assert all(math.isfinite(line["loss"]) for line in losses)
    is_anisotropic = recipe.loss == "an_info_nce"
    assert {"r2/content", "r2/style", "mcc/content", "mcc/style"} <= set(scores[0]) or not is_anisotropic
    assert ("precision/3" in losses[-1]) == is_anisotropic


@pytest.mark.slow
@pytest.mark.parametrize("depth", [34, 50, 101])
def test_every_depth_trains(depth, pairs_root, tmp_path):
    run = train(replace(RECIPES["infonce-box"], encoder=f"resnet{depth}"), pairs_root, tmp_path)
    encoder, checkpoint = run.encoder()
    assert checkpoint.step == 2
    assert encoder.hidden.in_features == (512 if depth == 34 else 2048)
    assert all(tensor.isfinite().all() for tensor in checkpoint.encoder.values())


def command(root, out, steps):
    return [
        *(sys.executable, "-m", "baselines", "train", "aninfonce-box-exact", str(root), "--out", str(out)),
        *("--steps", str(steps), "--batch-size", "8", "--validation", "60", "--device", "cpu", "--threads", "1"),
        *("--log-every", "1", "--checkpoint-every", "2"),
    ]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_a_run_that_is_killed_goes_on_bit_for_bit(pairs_root, tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    with subprocess.Popen(command(pairs_root, killed, 1000), cwd=CHECKOUT) as process:
        while not (killed / "checkpoint.pt").exists() and process.poll() is None:
            time.sleep(0.1)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    step = Checkpoint.read(killed / "checkpoint.pt").step
    assert step % 2 == 0
    for folder in (killed, whole):
        subprocess.run(command(pairs_root, folder, step + 3), cwd=CHECKOUT, check=True, capture_output=True)
    found, expected = (Checkpoint.read(folder / "checkpoint.pt") for folder in (killed, whole))
    assert found.step == expected.step == step + 3
    for kind in ("encoder", "loss"):
        for name, tensor in getattr(expected, kind).items():
            assert torch.equal(getattr(found, kind)[name], tensor), name
    for number, state in expected.optimiser["state"].items():
        assert all(torch.equal(found.optimiser["state"][number][name], tensor) for name, tensor in state.items())
    losses = [[line["loss"] for line in read_metrics(folder) if "loss" in line] for folder in (killed, whole)]
    assert losses[0] == losses[1]
    # Whatever was being written when it was killed is not left behind for good.
    assert json.loads((killed / "options.json").read_text())["options"]["recipe"]["steps"] == step + 3
