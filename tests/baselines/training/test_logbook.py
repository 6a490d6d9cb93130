import json
import math

from baselines.training.logbook import Logbook, read_metrics


def test_what_lies_after_the_step_resumed_from_is_taken_back(tmp_path):
    with Logbook(tmp_path) as logbook:
        for step in (2, 4, 6):
            logbook.write(step, {"loss": step / 2})
    with Logbook(tmp_path, step=4) as logbook:
        logbook.write(6, {"loss": 0.5})
    assert [(line["step"], line["loss"]) for line in read_metrics(tmp_path)] == [(2, 1.0), (4, 2.0), (6, 0.5)]


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path):
    with Logbook(tmp_path) as logbook:
        logbook.write(2, {"loss": 1.0})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    assert [line["step"] for line in read_metrics(tmp_path)] == [2]
    with Logbook(tmp_path, step=4) as logbook:
        logbook.write(6, {"loss": 1.0})
    assert [line["step"] for line in read_metrics(tmp_path)] == [2, 6]


def test_every_line_is_strict_json(tmp_path):
    with Logbook(tmp_path) as logbook:
        logbook.write(1, {"r2": math.nan, "loss": math.inf})
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line, parse_constant=lambda name: name) == {"step": 1, "r2": None, "loss": None}


def test_other_processes_write_nothing(tmp_path):
    with Logbook(tmp_path / "run", writes=False) as logbook:
        logbook.write(1, {"loss": 1.0})
    assert not (tmp_path / "run").exists()
