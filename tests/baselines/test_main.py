import json

import pytest

from baselines.__main__ import main

QUICK = ("--batch-size", "8", "--validation", "60", "--device", "cpu", "--threads", "1")


def test_train_makes_a_run_folder(pictures_root, tmp_path):
    run = tmp_path / "run"
    arguments = ["train", "infonce-sphere", str(pictures_root), "--out", str(run), "--steps", "2", *QUICK]
    assert main([*arguments, "--conditional", "normal(sigma=0.3)", "--temperature", "0.5"]) == 0
    assert {"options.json", "metrics.jsonl", "checkpoint.pt", "report.html"} <= {item.name for item in run.iterdir()}
    recipe = json.loads((run / "options.json").read_text())["options"]["recipe"]
    assert (recipe["conditional"], recipe["temperature"], recipe["steps"]) == ("normal(sigma=0.3)", 0.5, 2)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["infonce", "ROOT"], (2, "there is no recipe 'infonce'; there are infonce-box")),
        (["infonce-box", "ROOT", "--device", "gpu"], (2, "a device is auto, cpu, cuda or cuda:N, not 'gpu'")),
        (["infonce-box", "ROOT", "--validation", "60"], (2, "100 training pictures are fewer than a batch of 512")),
        (["infonce-box", "ROOT", "--validation", "90"], (2, "the dataset has 160 pictures")),
        (["infonce-box", "ROOT", "--conditional", "vmf(kappa=3)", *QUICK], (2, "is not defined on Box")),
        (["aninfonce-box-exact", "ROOT", *QUICK], (1, "no exact positives")),
        (["infonce-box", "NOWHERE", *QUICK], (2, "nowhere")),
    ],
)
def test_bad_input_is_one_line_and_no_run(pictures_root, tmp_path, caplog, arguments, answer):
    status, message = answer
    places = {"ROOT": str(pictures_root), "NOWHERE": str(tmp_path / "nowhere")}
    out = tmp_path / "run"
    assert main(["train", *(places.get(a, a) for a in arguments), "--out", str(out)]) == status
    assert message in caplog.text
    assert not out.exists()


def test_the_help_shows_examples(capsys):
    for command in ("train", "reproduce"):
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0
        assert f"python -m baselines {command}" in capsys.readouterr().out
