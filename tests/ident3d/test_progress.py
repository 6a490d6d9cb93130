"""Progress: a bar on a terminal, lines elsewhere."""

import io
import logging
import sys

import pytest

from ident3d import progress
from ident3d.progress import ProgressBar, duration


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_there_is_a_line_every_so_often(clock, caplog):
    caplog.set_level(logging.INFO, "ident3d.progress")
    with ProgressBar(1000, 100, unit="steps", label="run", shown={"loss": "loss", "r2": "R2"}) as bar:
        for step in range(100, 400):
            clock[0] += 0.5
            bar.update()
            bar.show({"loss": step / 100, "waiting": 0.5})
    assert caplog.messages == [
        "run: 130 of 1,000 steps, loss 1.28, 2.0 steps/s, 7 min left",  # 870 steps at 2 a second
        "run: 250 of 1,000 steps, loss 2.48, 2.0 steps/s, 6 min left",
        "run: 370 of 1,000 steps, loss 3.68, 2.0 steps/s, 5 min left",
    ]


def test_what_is_kept_from_an_earlier_run_is_not_in_the_rate(clock, caplog):
    caplog.set_level(logging.INFO, "ident3d.progress")
    bar = ProgressBar(100, unit="images")
    bar.skip(50)
    clock[0] += 40
    bar.reach(52)
    assert caplog.messages == ["52 of 100 images, 20.0 s each, 16 min left"]
    bar = ProgressBar(None, unit="rows")
    clock[0] += 20
    bar.update(60)
    assert caplog.messages[1] == "60 rows, 3.0 rows/s"


def test_a_terminal_has_a_bar_with_the_true_total_and_no_lines(clock, caplog, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with ProgressBar(600, unit="images", label="decoding") as bar:
        for _ in range(3):
            clock[0] += 100
            bar.update(200)
        bar.show({})
    shown = sys.stderr.getvalue()
    assert "decoding: 100%" in shown
    assert "600/600" in shown
    assert not caplog.messages


def test_the_rate_of_a_bar_is_that_of_what_was_done_now(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with ProgressBar(1000, unit="images") as bar:
        bar.skip(900)
        bar.update(50)
        inner = bar._bar
        assert (inner.n, inner.format_dict["initial"]) == (950, 900)
        assert inner.format_meter(**(inner.format_dict | {"elapsed": 10.0, "rate": None})).endswith("5.00 images/s]")


def test_a_quiet_one_says_nothing(clock, caplog):
    caplog.set_level(logging.INFO, "ident3d.progress")
    bar = ProgressBar(10, quiet=True)
    clock[0] += 1000
    bar.update()
    assert not caplog.messages


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (12, "12 s"),
        (90, "2 min"),
        (3000, "50 min"),
        (3600, "1 hour"),
        (11_520, "3.2 hours"),
        (86_400, "24 hours"),
        (36 * 200_000, "83 days"),
        (200_000, "2.3 days"),
    ],
)
def test_times_are_read_in_a_unit_that_suits_them(seconds, text):
    assert duration(seconds) == text
