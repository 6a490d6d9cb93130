from dataclasses import replace

import pytest
import torch

from baselines.recipes import CONTENT_FACTORS
from baselines.training.checkpoint import Checkpoint
from baselines.training.objective import build_encoder
from baselines.training.progress import read_metrics
from baselines.training.run import Run
from baselines.training.training import train_run
from ident3d import FACTORS, ThreeDIdent
from ident3d.errors import Ident3DError
from tests.baselines.training.short_run import CPU, OPTIONS, RECIPE, up_to


def test_the_folder_says_what_the_run_was(finished, images_root):
    record = finished.record()
    data = ThreeDIdent(images_root)
    assert record["dataset"] == {"root": str(images_root), "rows": 160, "fingerprint": data.fingerprint}
    assert torch.__version__.startswith(record["versions"]["torch"])
    assert record["options"]["seed"] == 0
    assert finished.recipe() == RECIPE
    assert finished.options() == OPTIONS
    scores = [line for line in read_metrics(finished.folder) if "r2" in line]
    assert [line["step"] for line in scores] == [4]
    assert {f"r2/{name}" for name in FACTORS.names} < set(scores[0])
    for kind, names in (("content", CONTENT_FACTORS), ("style", set(FACTORS.names) - set(CONTENT_FACTORS))):
        assert scores[0][f"r2/{kind}"] == pytest.approx(sum(scores[0][f"r2/{name}"] for name in names) / 5)
        assert scores[0][f"mcc/{kind}"] == pytest.approx(sum(scores[0][f"mcc/{name}"] for name in names) / 5)


def test_the_encoder_is_the_one_that_was_trained(finished):
    encoder, checkpoint = finished.encoder()
    assert checkpoint.step == 4
    assert not encoder.training
    untrained = build_encoder(RECIPE, 10, 32, seed=0)
    assert not torch.equal(encoder.head.weight, untrained.head.weight)


def test_another_run_in_the_same_folder_is_refused(finished, images_root):
    for recipe, options, message in (
        (RECIPE, replace(OPTIONS, seed=1), "seed 0, now 1"),
        (replace(RECIPE, p=3), OPTIONS, r"p 2\.0, now 3"),
    ):
        with pytest.raises(Ident3DError, match=f"holds another run: {message}; choose another folder"):
            train_run(finished, recipe, options, images_root, CPU)


def test_a_folder_without_a_run_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run"):
        Run(tmp_path).record()


def test_a_checkpoint_of_another_encoder_is_refused(finished, images_root, tmp_path):
    run = Run(tmp_path)
    train_run(run, up_to(1), OPTIONS, images_root, CPU)
    other = build_encoder(replace(RECIPE, space="sphere"), 10, 32, seed=0)
    Checkpoint(1, dict(other.state_dict()), {}, {}).write(run.checkpoint_path)
    with pytest.raises(ValueError, match=r"another architecture: output\.log_size is missing"):
        run.encoder()


def test_a_run_goes_on_in_the_precision_that_it_began_in(finished, images_root, tmp_path):
    assert Run(tmp_path).precision() == "auto"
    assert finished.record()["precision"] == finished.precision() == "float32"
    assert finished.record()["deterministic"] is True
    half = replace(CPU, half=True)
    with pytest.raises(Ident3DError, match=r"began in float32 on \d+ CPU threads, and would go on in bfloat16 on cpu"):
        train_run(finished, RECIPE, OPTIONS, images_root, half)
