import json
import logging
import shlex
import tomllib

import numpy as np
import pytest
import torch

from baselines.__main__ import main
from baselines.recipes import RECIPES
from baselines.training.loop import Trainer
from baselines.training.run import Run
from ident3d.__main__ import main as ident3d_main

QUICK = ("--batch-size", "8", "--validation", "60", "--device", "cpu", "--threads", "1")


def test_train_makes_a_run_folder(images_root, tmp_path):
    run = tmp_path / "run"
    arguments = ["train", "infonce-sphere", str(images_root), "--out", str(run), "--steps", "2", *QUICK]
    assert main([*arguments, "--conditional", "normal(sigma=0.3)", "--temperature", "0.5"]) == 0
    assert {"options.json", "metrics.jsonl", "checkpoint.pt", "report.html"} <= {item.name for item in run.iterdir()}
    recipe = json.loads((run / "options.json").read_text())["options"]["recipe"]
    assert (recipe["conditional"], recipe["temperature"], recipe["steps"]) == ("normal(sigma=0.3)", 0.5, 2)


def test_a_run_is_a_file(images_root, tmp_path, capsys, caplog):
    caplog.set_level(logging.INFO, "ident3d.baselines")
    run = tmp_path / "run"
    own = ["--loss-options", "p=1", "--learning-rate", "1e-3", "--log-every", "7"]
    given = ["train", "infonce-unbounded", str(images_root), "--out", str(run), "--steps", "2", *own, *QUICK]
    assert main(given) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("step 2, validation: R2 ")
    assert "position " in shown[0]
    assert shown[1] == f"checkpoint {run / 'checkpoint.pt'}, report {run / 'report.html'}"
    assert shown[2].startswith(f"next: python -m baselines embed {run} {images_root} -o infonce-unbounded.zip")
    text = (run / "config.toml").read_text()
    assert text.rstrip() in caplog.text, "the options are said, too"
    found = tomllib.loads(text)
    assert (found["steps"], found["learning_rate"], found["log_every"]) == (2, 1e-3, 7)
    assert found["temperature"] == RECIPES["infonce-unbounded"].temperature, "what the recipe says is there"
    other = tmp_path / "other"
    assert main(["train", "--config", str(run / "config.toml"), "--out", str(other)]) == 0
    records = [json.loads((folder / "options.json").read_text())["options"] for folder in (run, other)]
    assert records[0] == records[1]
    assert main(["train", "--config", str(run / "config.toml"), "--steps", "3"]) == 0, "the command line comes first"
    assert Run(run).encoder()[1].step == 3


def test_faults_of_a_file_are_named_together(tmp_path, caplog):
    (tmp_path / "run.toml").write_text('step = 5\nseed = "one"\nlog_every = 1\n')
    assert main(["train", "infonce-box", "sample", "--config", str(tmp_path / "run.toml")]) == 2
    assert "step: there is no such option; did you mean steps?" in caplog.text
    assert "seed: expected an integer" in caplog.text
    assert main(["train", "infonce-box", "sample", "--config", str(tmp_path / "none.toml")]) == 2


def test_a_training_that_is_stopped_says_what_is_kept_and_how_it_goes_on(images_root, tmp_path, caplog, monkeypatch):
    run = tmp_path / "run"
    taken = Trainer._one_step

    def stopped(self, *arguments):
        if self.step == 3:
            raise KeyboardInterrupt
        return taken(self, *arguments)

    monkeypatch.setattr(Trainer, "_one_step", stopped)
    given = [
        "train",
        "supervised",
        str(images_root),
        "--out",
        str(run),
        "--steps",
        "5",
        "--checkpoint-every",
        "2",
        *QUICK,
    ]
    assert main(given) == 130
    assert f"stopped after step 3: the checkpoint of step 2 is kept in {run / 'checkpoint.pt'}" in caplog.text
    (again,) = [line for line in caplog.messages if line.startswith("to go on: ")]
    monkeypatch.setattr(Trainer, "_one_step", taken)
    assert main(shlex.split(again)[6:]) == 0
    assert Run(run).encoder()[1].step == 5


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["infonce", "ROOT"], (2, "unknown recipe 'infonce'; ")),
        (["infonce-box", "ROOT", "--device", "gpu"], (2, "unknown device 'gpu'; available devices: ")),
        (["infonce-box", "ROOT", "--validation", "60"], (2, "100 training images are fewer than a batch of 512")),
        (["infonce-box", "ROOT", "--validation", "90"], (2, "the dataset has 160 images")),
        (["infonce-box", "ROOT", *QUICK, "--validation", "12"], (2, "validation on 12 images: ")),
        (["infonce-box", "ROOT", "--conditional", "vmf(kappa=3)", *QUICK], (2, "is not defined on Box")),
        (["aninfonce-box-exact", "ROOT", *QUICK], (1, "no exact positives")),
        (["infonce-box", "NOWHERE", *QUICK], (2, "nowhere")),
    ],
)
def test_bad_input_is_one_line_and_no_run(images_root, tmp_path, caplog, arguments, answer):
    status, message = answer
    places = {"ROOT": str(images_root), "NOWHERE": str(tmp_path / "nowhere")}
    out = tmp_path / "run"
    assert main(["train", *(places.get(a, a) for a in arguments), "--out", str(out)]) == status
    assert message in caplog.text
    assert not out.exists()


@pytest.fixture(scope="module")
def trained(images_root, tmp_path_factory):
    run = tmp_path_factory.mktemp("trained")
    arguments = ["train", "supervised", str(images_root), "--out", str(run), "--steps", "1", *QUICK]
    assert main(arguments) == 0
    return run


@pytest.mark.slow
def test_a_run_and_its_export_embed_the_same(images_root, trained, tmp_path, capsys):
    from ident3d import Submission, ThreeDIdent

    onnx, own, foreign = tmp_path / "encoder.onnx", tmp_path / "own.zip", tmp_path / "foreign"
    assert main(["export", str(trained), str(onnx)]) == 0
    assert capsys.readouterr().out.startswith(f"{onnx}: the encoder of ")
    common = [str(images_root), "--authors", "A. Author", "--device", "cpu"]
    assert main(["embed", str(trained), *common, "-o", str(own)]) == 0
    said = ["--name", "mine", "--method", "m", "--architecture", "a", "--training-data", "t", "--conditional", "c"]
    assert main(["embed", str(onnx), *common, "--out", str(foreign), *said]) == 0
    submissions = Submission.read(own), Submission.read(foreign)
    np.testing.assert_allclose(submissions[0].embeddings[0], submissions[1].embeddings[0], atol=1e-5)
    metadata = submissions[0].metadata
    assert (metadata.name, metadata.role, metadata.steps, metadata.split) == ("supervised", "ceiling", 1, "test")
    assert metadata.fingerprint == ThreeDIdent(images_root, split="test").fingerprint
    assert metadata.training_fingerprint == ThreeDIdent(images_root).fingerprint
    assert ident3d_main(["validate", str(own)]) == 0


def test_safetensors_hold_the_encoder_and_what_it_is(trained, tmp_path):
    from safetensors import safe_open

    from baselines.training.run import Run

    path = tmp_path / "encoder.safetensors"
    assert main(["export", str(trained), str(path)]) == 0
    encoder, _ = Run(trained).encoder()
    with safe_open(path, "pt") as file:
        assert set(file.keys()) == set(encoder.state_dict())
        assert torch.equal(file.get_tensor("head.weight"), encoder.head.weight)
        assert json.loads(file.metadata()["ident3d"])["recipe"]["name"] == "supervised"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["embed", "FILE", "ROOT", "--authors", "A"], (2, "has no description of its own: give --name, --method")),
        (["embed", "NOWHERE", "ROOT", "--authors", "A"], (2, "there is no encoder")),
        (["embed", "ROOT", "ROOT", "--authors", "A"], (2, "holds no run")),
        (["export", "RUN", "encoder.bin"], (2, "ends in .onnx or .safetensors, not encoder.bin")),
    ],
)
def test_what_cannot_be_embedded_or_exported_is_told(  # noqa: PLR0917 - fixtures
    images_root, trained, tmp_path, caplog, arguments, answer
):
    status, message = answer
    file = tmp_path / "encoder.onnx"
    file.write_bytes(b"")
    places = {"ROOT": str(images_root), "RUN": str(trained), "FILE": str(file), "NOWHERE": str(tmp_path / "nowhere")}
    assert main([places.get(a, a) for a in arguments]) == status
    assert message in caplog.text


def test_what_a_run_keeps_of_what_two_views_share_is_told(images_root, trained, capsys):
    arguments = ["information", str(trained), str(images_root), "--device", "cpu"]
    arguments += ["--conditional", "normal(sigma=0.5)"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["recipe"], found["step"], found["split"], found["images"]) == ("supervised", 1, "test", 80)
    assert found["true"] == pytest.approx(3.18904, abs=1e-4)  # ten times 0.318904, by quadrature elsewhere
    assert found["share_of_true"] == pytest.approx(found["estimate"] / found["true"])
    assert found["matching_cap"] == pytest.approx(np.log(80))
    assert main(arguments) == 0
    assert f"{found['estimate']:8.4f}  embeddings of the two views" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "supervised has no pairs with a known conditional: give --conditional"),
        (("--conditional", "normal(sigma=0.5)", "--items", "1"), "expected --items of 2 or more, the positive"),
        (("--conditional", "vmf(kappa=3)"), "is not defined on Box"),
    ],
)
def test_information_that_cannot_be_measured_is_told(images_root, trained, caplog, options, message):
    assert main(["information", str(trained), str(images_root), "--device", "cpu", *options]) == 2
    assert message in caplog.text


def test_the_help_shows_examples(capsys):
    for command in ("train", "embed", "export", "information", "reproduce"):
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0
        assert f"python -m baselines {command}" in capsys.readouterr().out
