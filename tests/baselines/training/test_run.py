from dataclasses import replace

import pytest
import torch

from baselines.recipes import CONTENT_FACTORS, RECIPES
from baselines.training.checkpoint import Checkpoint
from baselines.training.objective import build_encoder
from baselines.training.options import Images, Intervals, TrainingOptions
from baselines.training.placement import Placement
from baselines.training.progress import read_metrics
from baselines.training.report import write_report
from baselines.training.run import Run, content_and_style, true_precision
from ident3d import FACTORS, AnisotropicNormal, Laplace, Normal, ThreeDIdent
from ident3d.errors import Ident3DError

CPU = Placement(torch.device("cpu"))
RECIPE = replace(RECIPES["aninfonce-box"], steps=4, batch_size=8)
OPTIONS = TrainingOptions(
    images=Images(validation=60), intervals=Intervals(log_every=1, evaluate_every=4, checkpoint_every=2)
)


def up_to(steps):
    return replace(RECIPE, steps=steps)


@pytest.fixture(scope="module")
def finished(images_root, tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("run"))
    run.train(RECIPE, OPTIONS, images_root, CPU)
    return run


def test_a_run_in_two_parts_is_the_run_in_one(finished, images_root, tmp_path):
    run = Run(tmp_path)
    run.train(up_to(3), OPTIONS, images_root, CPU)
    half_written = tmp_path / ".checkpoint.pt.0123456789ab.tmp"  # as a kill leaves it
    half_written.write_bytes(b"PK")
    elsewhere = replace(OPTIONS, images=replace(OPTIONS.images, resident="never", workers=1))
    run.train(RECIPE, elsewhere, images_root, CPU)  # where images are does not matter
    expected, found = finished.encoder()[1], run.encoder()[1]
    assert found.step == expected.step == 4
    assert all(torch.equal(found.encoder[name], tensor) for name, tensor in expected.encoder.items())
    assert torch.equal(found.loss["raw_precision"], expected.loss["raw_precision"])
    assert not half_written.exists()


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


def test_weights_depend_on_the_seed_and_leave_the_global_generator_alone():
    torch_state = torch.random.get_rng_state()
    first, again, other = (build_encoder(RECIPE, 10, 32, seed).head.weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), torch_state)


def test_another_run_in_the_same_folder_is_refused(finished, images_root):
    for recipe, options, message in (
        (RECIPE, replace(OPTIONS, seed=1), "seed 0, now 1"),
        (replace(RECIPE, p=3), OPTIONS, r"p 2\.0, now 3"),
    ):
        with pytest.raises(Ident3DError, match=f"holds another run: {message}; choose another folder"):
            finished.train(recipe, options, images_root, CPU)


def test_a_folder_without_a_run_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run"):
        Run(tmp_path).record()


def test_the_test_split_is_never_touched(images_root, tmp_path, monkeypatch):
    opened = []
    init = ThreeDIdent.__init__
    monkeypatch.setattr(
        ThreeDIdent, "__init__", lambda self, root, split="train": (opened.append(split), init(self, root, split))[1]
    )
    run = Run(tmp_path)
    run.train(up_to(1), OPTIONS, images_root, CPU)
    write_report(run, images_root, CPU.device)
    assert set(opened) == {"train"}


def test_the_report_stands_alone_and_shows_lambda(finished, images_root):
    page = write_report(finished, images_root, CPU.device).read_text()
    assert "Learned Lambda" in page
    assert "<td>content</td>" in page
    assert "<td>position_x</td>" in page
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page.split("<h2>Options")[0]


def test_the_true_precision_is_that_of_the_conditional():
    assert true_precision(Normal(0.5), 10).tolist() == pytest.approx([2.0] * 10)
    assert true_precision(AnisotropicNormal(3), 2).tolist() == [3.0] * 2
    assert true_precision(Laplace(0.5), 10) is None
    assert true_precision(None, 10) is None


def test_content_varies_less_than_style():
    assert content_and_style(Normal([0.1, 0.5, 0.1]), 3) == {"content": [0, 2], "style": [1]}
    assert content_and_style(AnisotropicNormal([1, 9]), 2) == {"content": [1], "style": [0]}
    assert content_and_style(Normal(0.1), 3) == {}


def test_a_checkpoint_of_another_encoder_is_refused(finished, images_root, tmp_path):
    run = Run(tmp_path)
    run.train(up_to(1), OPTIONS, images_root, CPU)
    other = build_encoder(replace(RECIPE, space="sphere"), 10, 32, seed=0)
    Checkpoint(1, dict(other.state_dict()), {}, {}).write(run.checkpoint_path)
    with pytest.raises(ValueError, match=r"another architecture: output\.log_size is missing"):
        run.encoder()


def test_processes_share_a_batch_evenly(images_root, tmp_path):
    with pytest.raises(ValueError, match="a batch of 8 pairs cannot be shared evenly by 3 processes"):
        Run(tmp_path).train(RECIPE, OPTIONS, images_root, Placement(torch.device("cpu"), world_size=3))


def test_images_that_are_too_small_for_bfloat16_on_a_cpu_are_refused(images_root, tmp_path, monkeypatch):
    monkeypatch.setattr("baselines.training.run._SMALLEST_HALF", 64)
    half = Placement(torch.device("cpu"), half=True)
    with pytest.raises(ValueError, match=r"at least 64x64, not 32x32; choose --precision float32"):
        Run(tmp_path / "run").train(RECIPE, OPTIONS, images_root, half)
    assert not (tmp_path / "run").exists()


def test_two_trainings_in_one_folder_at_once_are_refused(images_root, tmp_path, monkeypatch):
    run, second = Run(tmp_path), []

    def evaluate(*_):
        with pytest.raises(Ident3DError, match=r"another training is running in .*; wait for its end, or choose"):
            Run(tmp_path).train(RECIPE, OPTIONS, images_root, CPU)
        second.append(Checkpoint.read(run.checkpoint_path).step)
        return {"r2": 0.0}

    monkeypatch.setattr("baselines.training.run.evaluate", evaluate)
    run.train(RECIPE, OPTIONS, images_root, CPU)
    assert second == [2]
    run.train(up_to(5), OPTIONS, images_root, CPU)  # the folder is free again
