import json
from dataclasses import replace

import pytest
import torch

from baselines.__main__ import main
from baselines.commands.reproduce import Reproduce
from baselines.synthetic import QUICK, STUDIES, TableRow, TableStudy, reproduce
from baselines.synthetic.studies.tables import table1
from baselines.synthetic.training import Runs
from ident3d.errors import Ident3DError

TINY = replace(QUICK, name="tiny", dim=2, batch=32, steps=6, evaluations=2, hidden_precision="float32")


def reproduction(study, folder, *numbers, **changes):
    """Reproduce a study in a tiny budget; return its Markdown."""
    options = {"budget": TINY, "folder": folder / "results", "checkpoints": folder / "checkpoints", "seeds": (0, 1)}
    return reproduce(study, numbers=numbers, **{**options, **changes}).markdown


def test_a_table_stands_beside_the_papers_values(tmp_path):
    text = reproduction("table2", tmp_path, 1, 8)
    rows = [line for line in text.splitlines() if line.startswith(("| 1 ", "| 8 "))]
    assert len(rows) == 2
    assert "(98.62 ± 0.05)" in rows[0]
    assert "(58.26 ± 3.00)" in rows[1]
    assert "2 seeds" in text
    assert (tmp_path / "results" / "table2.md").read_text(encoding="utf-8") == text
    assert "<svg" in (tmp_path / "results" / "table2_convergence.svg").read_text(encoding="utf-8")


def test_results_are_strict_json_with_their_provenance(tmp_path):
    reproduction("table1", tmp_path, 2)
    text = (tmp_path / "results" / "table1.json").read_text(encoding="utf-8")
    document = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    (outcome,) = document["outcomes"]
    assert document["budget"]["steps"] == 6
    assert outcome["seeds"] == [0, 1]
    assert outcome["reported_percent"]["unsupervised"] == {"mean": 99.86, "std": 0.01}
    assert set(outcome["measured"]) == {"unsupervised", "supervised", "identity"}
    r2 = [sum(run) / 2 for run in outcome["runs"]["history"][-1]["r2"]]
    assert outcome["measured"]["unsupervised"]["r2"]["mean"] == pytest.approx(sum(r2) / 2, abs=1e-5)
    assert outcome["measured"]["unsupervised"]["r2"]["std"] == pytest.approx(abs(r2[0] - r2[1]) / 2**0.5, abs=1e-5)
    assert {"command", "processor", "threads", "versions", "finished"} <= set(outcome["provenance"])


def test_rows_that_are_done_are_not_trained_again(tmp_path, monkeypatch):
    first = reproduction("table2", tmp_path, 8)
    monkeypatch.setattr(Runs, "step", None)
    assert reproduction("table2", tmp_path, 8) == first
    # Row 5 of Table 1 is the same experiment: its training is only read.
    assert "| 5 |" in reproduction("table1", tmp_path, 5)


def test_other_seeds_train_again(tmp_path):
    reproduction("aninfonce", tmp_path, 1)
    text = reproduction("aninfonce", tmp_path, 1, seeds=(0,))
    assert "One seed. Budget" in text


def test_results_of_another_budget_are_refused(tmp_path):
    reproduction("aninfonce", tmp_path, 2)
    with pytest.raises(Ident3DError, match="choose another --out"):
        reproduction("aninfonce", tmp_path, 2, budget=replace(TINY, steps=7))


def test_damaged_results_are_named(tmp_path):
    path = tmp_path / "results" / "aninfonce.json"
    path.parent.mkdir()
    path.write_text("{", encoding="utf-8")
    with pytest.raises(Ident3DError, match=r"aninfonce\.json"):
        reproduction("aninfonce", tmp_path, 1)


def test_aninfonce_shows_lambda_and_infonce_has_none(tmp_path):
    text = reproduction("aninfonce", tmp_path, 1, 2)
    first, second = (line for line in text.splitlines() if line.startswith(("| 1 ", "| 2 ")))
    assert "| 12.5 1.5 |" in first
    assert "not learned" in second
    assert (tmp_path / "results" / "aninfonce_lambda.svg").exists()


def test_figure_2_has_both_curves(tmp_path):
    text = reproduction("figure2", tmp_path, 1, 7)
    assert "| Sphere | 0.1 | 10 |" in text
    assert "| Box | 4 | 400 |" in text
    svg = (tmp_path / "results" / "figure2.svg").read_text(encoding="utf-8")
    assert "mass to move" in svg


def test_an_unknown_row_is_refused_before_any_work(tmp_path):
    with pytest.raises(ValueError, match="rows 1 to 12, not 13"):
        reproduction("table1", tmp_path, 13)
    assert not (tmp_path / "results").exists()


def command(folder, study, **options):
    """Run a small experiment into a folder; return the exit status."""
    small = {"dim": 2, "batch_size": 16, "device": "cpu", "out": folder, "checkpoints": folder}
    return Reproduce(study, **small, **options).run()


def test_the_command_takes_seconds_and_prints_the_table(tmp_path, capsys):
    assert command(tmp_path, "table1", row=(2,), seeds=1, budget="0.2") == 0
    assert "(99.86 ± 0.01)" in capsys.readouterr().out


def test_a_limit_leaves_the_rest_of_the_papers_budget_and_says_so(tmp_path, capsys):
    options = {"seeds": 2, "first_seed": 10, "budget": "paper", "limit": 0.2, "scalar_learning_rate": 0.05}
    assert command(tmp_path, "aninfonce", row=(1,), **options) == 0
    assert " steps of the paper's 300,000. Training took" in capsys.readouterr().out
    document = json.loads((tmp_path / "aninfonce.json").read_text(encoding="utf-8"))
    assert document["budget"]["name"] == "paper-0.2s-2-latents"
    assert document["budget"]["scalar_learning_rate"] == 0.05
    assert document["outcomes"][0]["seeds"] == [10, 11]


def test_a_table_without_supervised_models_says_that_they_were_not_run(tmp_path):
    text = reproduction("table1", tmp_path, 2, supervised=False)
    assert "not run (99.71 ± 0.05)" in text


def test_a_row_of_ones_own_has_no_reported_values(tmp_path):
    row = TableRow(1, table1(2)[1].experiment, "mcc")
    text = reproduction(TableStudy("mine", "Mine", lambda dim: [row]), tmp_path, supervised=False)
    (line,) = [line for line in text.splitlines() if line.startswith("| 1 ")]
    assert "(" not in line.split("|", 4)[4].replace("vMF(κ=1)", "")
    document = json.loads((tmp_path / "results" / "mine.json").read_text(encoding="utf-8"))
    assert document["outcomes"][0]["reported_percent"] == {}


def test_the_command_refuses_what_cannot_be(tmp_path):
    with pytest.raises(ValueError, match="the number of seeds is 1 or larger"):
        Reproduce("table1", seeds=0, out=tmp_path).run()
    with pytest.raises(ValueError, match="the first seed is 0 or larger, not -1"):
        Reproduce("table1", first_seed=-1, out=tmp_path).run()
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"the device .cuda. cannot be used here"):
            Reproduce("table1", device="cuda", out=tmp_path).run()


def test_the_commands_help_names_every_study(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in STUDIES)


def test_the_command_answers_an_unknown_study_with_those_that_there_are(caplog):
    assert main(["reproduce", "table3"]) == 2
    assert "unknown study 'table3'; did you mean 'table2'?; choose from table1, table2" in caplog.text
