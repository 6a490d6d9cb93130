"""A loss, an encoder and a recipe of a user's own, in one file outside the package, through the ordinary commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from baselines.__main__ import main
from baselines.losses import info_nce
from baselines.recipes import Recipe
from baselines.training.objective import EncoderWithOutput, build_encoder, build_loss
from ident3d import Submission
from ident3d.__main__ import main as ident3d_main

CHECKOUT = Path(__file__).parents[2]

OWN = '''
"""Decoupled contrastive learning (Yeh et al., 2022) with a small convolutional network."""

import torch
from torch import nn

from baselines.losses import Loss
from baselines.recipes import Recipe


class DecoupledContrastive(Loss):
    """InfoNCE whose positive leaves the denominator."""

    def __init__(self, temperature=0.1):
        super().__init__()
        self.temperature = temperature

    def forward(self, z, z_pos):
        others = (z @ z.T / self.temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
        return (others.logsumexp(1) - (z * z_pos).sum(1) / self.temperature).mean()


def convnet(dim, width=16):
    return nn.Sequential(
        nn.Conv2d(3, width, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * width, dim)
    )


RECIPE = Recipe(
    name="decoupled",
    title="Decoupled contrastive learning, sphere",
    loss="own_experiment:DecoupledContrastive",
    space="sphere",
    conditional="normal(sigma=0.2)",
    encoder="own_experiment:convnet",
    encoder_options={"width": 8},
    steps=3,
    batch_size=16,
)


def takes_more(dim, width): ...
def gives_rows(dim): return nn.Flatten()
def gives_pairs(dim): return Twice()
def gives_numbers(dim): return dim
def for_grey(dim): return nn.Conv2d(1, dim, 3)


class Twice(nn.Module):
    def forward(self, x):
        return x, x
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a user's file, which commands are run in."""
    (tmp_path / "own_experiment.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("own_experiment", None)


def python(folder, *arguments):
    """Run a command in a folder, as a user does who has installed the package or is in a checkout."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )


QUICK = ("--validation", "100", "--device", "cpu", "--threads", "1", "--log-every", "1")


@pytest.mark.slow
def test_it_is_trained_embedded_and_scored_by_the_ordinary_commands(own, capsys):
    arguments = ["train", "own_experiment:RECIPE", "sample", "--encoder-options", "width=4", "-o", "run", *QUICK]
    trained = python(own, "-m", "baselines", *arguments)
    assert trained.returncode == 0, trained.stderr
    record = json.loads(Path("run/options.json").read_text())["options"]["recipe"]
    assert (record["encoder"], record["encoder_options"]) == ("own_experiment:convnet", {"width": 4})

    assert main([*arguments, "--steps", "4", "--json"]) == 0  # goes on
    assert json.loads(capsys.readouterr().out)["metrics"]["step"] == 4
    assert Path("run/report.html").is_file()

    assert main(["embed", "run", "sample", "--authors", "A. User", "--device", "cpu", "-o", "own.zip"]) == 0
    written = Submission.read(Path("own.zip"))
    assert written.embeddings[0].shape[1] == 10
    np.testing.assert_allclose(np.linalg.norm(written.embeddings[0], axis=1), 1, rtol=1e-5)
    assert written.metadata.encoder == "own_experiment:convnet(width=4), sphere output"
    assert (written.metadata.name, written.metadata.role, written.metadata.steps) == ("decoupled", "contender", 4)
    capsys.readouterr()
    assert ident3d_main(["score", "own.zip", "sample", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)

    assert main(["export", "run", "own.safetensors"]) == 0
    assert main(["information", "run", "sample", "--device", "cpu", "--json"]) == 0


@pytest.mark.usefixtures("own")
def test_the_loss_and_the_encoder_are_the_users():
    from own_experiment import RECIPE, DecoupledContrastive  # type: ignore[import-not-found]

    loss = build_loss(RECIPE, 3)
    assert isinstance(loss, DecoupledContrastive)
    assert loss.temperature == RECIPE.temperature
    z, z_pos = F.normalize(torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    # With the positive back in the denominator it is InfoNCE: log(1 + exp(x)) in place of x, item by item.
    items = info_nce(z, z_pos, temperature=RECIPE.temperature, reduction="none").expm1().log()
    torch.testing.assert_close(loss(z, z_pos), items.mean(), rtol=1e-3, atol=1e-3)
    encoder = build_encoder(RECIPE, 10, 64, seed=0)
    assert isinstance(encoder, EncoderWithOutput)
    assert encoder.body[0].out_channels == 8
    weights = [build_encoder(RECIPE, 10, 64, seed).body[0].weight for seed in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--encoder", "gone:convnet"), "there is no module 'gone'; install it, or run the command in the folder"),
        (("--encoder", "own_experiment:gone"), "'own_experiment' has no 'gone'"),
        (("--encoder", "resnet19"), "unknown encoder 'resnet19'; did you mean"),
        (
            ("--encoder", "own_experiment:gives_rows"),
            "returns embeddings of shape (2, 12288) for 2 images",
        ),
        (
            ("--encoder", "own_experiment:gives_pairs"),
            "returns an object of type tuple for 2 images, expected",
        ),
        (("--encoder", "own_experiment:gives_numbers"), "returns an object of type int, expected a torch.nn.Module"),
        (
            ("--encoder", "own_experiment:for_grey"),
            "cannot be run on a batch of images, float32 of shape (2",
        ),
        (("--encoder", "own_experiment:takes_more"), "needs 'width'; give --encoder-options width=VALUE"),
        (
            ("--encoder-options", "depth=3"),
            "unknown option 'depth' of the encoder 'own_experiment:convnet'; choose from width",
        ),
        (("--encoder-options", "width"), "'width' is not an option; expected name=value or a JSON object"),
        (("--encoder-options", "{'width': 3}"), "is not a JSON object"),
        (("--loss", "own_experiment:convnet"), "expected a class derived from baselines.losses.Loss"),
        (("--loss", "supervised"), "the loss supervised takes single images, and matched images are pairs"),
        (
            ("--loss-options", "beta=3"),
            "unknown option 'beta' of the loss 'own_experiment:DecoupledContrastive'; it has no options of its own",
        ),
    ],
)
def test_what_does_not_fit_is_told_before_a_training_starts(own, caplog, arguments, message):
    assert main(["train", "own_experiment:RECIPE", "sample", "-o", "run", *QUICK, *arguments]) == 2
    assert message in caplog.text
    assert not (own / "run").exists()


def test_a_recipe_that_is_none_is_told(own, caplog):
    assert main(["train", "own_experiment:convnet", "sample", "-o", str(own / "run"), *QUICK]) == 2
    assert "expected a baselines.recipes.Recipe" in caplog.text


def test_a_run_whose_module_is_gone_says_so(own, caplog):
    assert main(["train", "own_experiment:RECIPE", "sample", "-o", "run", "--steps", "1", *QUICK]) == 0
    (own / "own_experiment.py").unlink()
    sys.modules.pop("own_experiment")
    assert main(["embed", "run", "sample", "--authors", "A. User", "--device", "cpu"]) == 2
    assert "there is no module 'own_experiment'" in caplog.text


@pytest.mark.usefixtures("own")
def test_options_are_read_as_json_and_as_text():
    recipe = Recipe("mine", "mine", "info_nce", "sphere", "normal(sigma=0.1)", encoder="own_experiment:convnet")
    assert recipe.encoder_options == {}
    from baselines.recipes import parse_arguments

    assert parse_arguments(["width=64", "rate=0.5", "kind=wide", "deep=true", '{"a": [1], "b": null}']) == {
        "width": 64,
        "rate": 0.5,
        "kind": "wide",
        "deep": True,
        "a": [1],
        "b": None,
    }
    with pytest.raises(ValueError, match="the option width is given twice"):
        parse_arguments(["width=1", "width=2"])
