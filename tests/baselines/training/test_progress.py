import json
import logging
import math
import sys
from types import SimpleNamespace

import pytest

from baselines.training import progress, train
from baselines.training.options import Intervals, TrainingOptions
from baselines.training.progress import Estimate, Logbook, Schedule, read_metrics
from ident3d.errors import MissingDependencyError


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


@pytest.fixture
def wandb(monkeypatch):
    """A stand-in for Weights & Biases that remembers what it is told."""
    told = []

    class Remote:
        def log(self, metrics, step):
            told.append((step, metrics))

        def finish(self, exit_code):
            told.append(("end", exit_code))

    def init(**options):
        told.append(("begin", options))
        return Remote()

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    return told


def test_weights_and_biases_gets_the_same_numbers_and_goes_on_with_the_same_run(tmp_path, wandb):
    with Logbook(tmp_path, wandb="mine", options={"seed": 3}) as logbook:
        logbook.write(2, {"loss": 1.0})
    with pytest.raises(KeyboardInterrupt), Logbook(tmp_path, 2, wandb="mine") as logbook:
        raise KeyboardInterrupt
    (_, first), line, end, (_, again), failed = wandb
    assert (first["project"], first["name"], first["config"]) == ("mine", tmp_path.name, {"seed": 3})
    assert (line, end, failed) == ((2, {"loss": 1.0}), ("end", 0), ("end", 1))
    assert again["id"] == first["id"]
    assert again["resume"] == "allow"
    with Logbook(tmp_path / "other", writes=False, wandb="mine"):
        assert len(wandb) == 5, "other processes tell nothing"


def test_without_it_the_extra_is_named_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    options = TrainingOptions(wandb="mine")
    with pytest.raises(MissingDependencyError, match=r"pip install 'ident3d\[wandb\]'"):
        train("supervised", "sample", tmp_path / "run", options)
    assert not (tmp_path / "run").exists()


def test_other_processes_write_nothing(tmp_path):
    with Logbook(tmp_path / "run", writes=False) as logbook:
        logbook.write(1, {"loss": 1.0})
    assert not (tmp_path / "run").exists()


def test_a_schedule_by_steps_is_due_at_multiples_and_at_the_end():
    schedule = Schedule(10, Intervals(log_every=4, evaluate_every=3, checkpoint_every=50))
    due = [[step for step in range(1, 11) if schedule.is_due(every, step)] for every in (4, 3, 50)]
    assert due == [[4, 8, 10], [3, 6, 9, 10], [10]]
    assert [schedule.share(step) for step in (0, 5, 12)] == [0, 0.5, 1]


def test_a_schedule_by_time_is_due_once_in_every_interval_and_at_the_beginning():
    schedule, asked, due = Schedule(10.0), -1.0, []
    for seconds in (0.0, 0.4, 2.4, 2.6, 8.0, 10.1):
        if schedule.is_due(10 / 4, seconds, asked):
            due.append(seconds)
            asked = seconds
    assert due == [0.0, 2.6, 8.0, 10.1]


def test_even_shares_of_any_number_of_steps_are_not_missed_by_rounding():
    for steps in (7, 2000, 299_999):
        schedule, every = Schedule(steps), steps / 40
        assert sum(schedule.is_due(every, step) for step in range(1, steps + 1)) == min(40, steps)


@pytest.mark.parametrize(
    ("seconds", "said"), [(36.0, "about 83 days for 200,000 steps on this CPU, at 36 s a step"), (0.003, None)]
)
def test_a_long_training_is_announced_after_a_few_steps(seconds, said, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "ident3d.baselines")
    now, waited = [0.0], []
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    estimate = Estimate(200_000, "CPU")
    for step in range(1, 10):
        now[0] += 1000.0 if step == 1 else seconds  # the first step chooses algorithms
        estimate.count(lambda step=step: waited.append(step))
    assert waited == [2, 5], "a device is waited for twice"
    assert [line.partition(";")[0] for line in caplog.messages] == ([said] if said else [])


@pytest.mark.parametrize("length", [0, -1, float("nan"), float("inf")])
def test_a_training_has_a_length(length):
    with pytest.raises(ValueError, match="expected a positive, finite length"):
        Schedule(length)


def test_intervals_are_positive():
    with pytest.raises(ValueError, match="intervals of 1 or more steps"):
        Intervals(log_every=0)
