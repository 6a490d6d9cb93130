"""Ranking: order, ties, revisions and marks."""

import itertools

import pytest

from ident3d.submission import Compute
from leaderboard.entry import Kind, Verification
from leaderboard.page import compute_plot, score_plot
from leaderboard.ranking import Mark, ranked


def places(entries):
    return [(row.rank, row.entry.name) for row in ranked(entries, "tiny")]


def test_unrounded_values_decide(make_entry):
    assert places([make_entry("a", 0.50000001), make_entry("b", 0.50000002)]) == [(1, "b"), (2, "a")]


def test_equal_scores_share_a_rank_in_any_order_of_files(make_entry):
    entries = [make_entry("c", 0.5), make_entry("a", 0.5), make_entry("b", 0.7), make_entry("d", 0.1)]
    for order in itertools.permutations(entries):
        assert places(list(order)) == [(1, "b"), (2, "a"), (2, "c"), (4, "d")]


def test_recomputed_stands_before_reported_of_the_same_score(make_entry):
    entries = [make_entry("a", 0.5, kind=Kind.REPORTED), make_entry("b", 0.5)]
    assert places(entries) == [(1, "b"), (1, "a")]
    assert [row.marks for row in ranked(entries, "tiny")] == [(), (Mark.REPORTED, Mark.LEVEL)]


def test_the_newest_revision_is_shown_even_when_it_is_worse(make_entry):
    entries = [make_entry("a", 0.9), make_entry("A", 0.6, revision=10), make_entry("a", 0.8, revision=9)]
    (row,) = ranked(entries, "tiny")
    assert row.entry.revision == 10
    assert [old.revision for old in row.older] == [9, 1]


def test_floors_and_ceilings_are_shown_and_not_ranked(make_entry):
    entries = [make_entry("top", 0.9, role="ceiling"), make_entry("a", 0.5), make_entry("pixels", 0.1, role="floor")]
    assert places(entries) == [(None, "top"), (1, "a"), (None, "pixels")]
    assert [row.marks for row in ranked(entries, "tiny")] == [(Mark.CEILING,), (), (Mark.FLOOR,)]


@pytest.mark.parametrize(("r2", "level"), [(0.6, True), (0.591, True), (0.589, False)])
def test_intervals_that_reach_the_leaders(make_entry, r2, level):
    rows = ranked([make_entry("leader", 0.6), make_entry("z", r2)], "tiny")
    assert (Mark.LEVEL in rows[1].marks) == level
    assert rows[0].marks == ()


def test_other_marks(make_entry):
    entry = make_entry(
        claimed={"r2": 0.51}, warnings=("dead",), verification=Verification("2026-02-01", "cd" * 32, 0.5, 0.5, 10)
    )
    assert ranked([entry], "tiny")[0].marks == (Mark.VERIFIED, Mark.CLAIM, Mark.DEGENERATE)
    assert ranked([make_entry(claimed={"r2": 0.504})], "tiny")[0].marks == ()
    assert all(mark.meaning for mark in Mark)


def test_tracks_are_apart(make_entry):
    assert ranked([make_entry(track="other")], "tiny") == []


def test_points_lie_where_their_numbers_are(make_entry):
    rows = ranked(
        [make_entry("a", 1.0, compute=Compute(10, "gpu")), make_entry("b", -3.0, compute=Compute(1, "cpu"))], "tiny"
    )
    plot = score_plot(rows)
    assert (plot.points[0].x, plot.points[1].x) == (plot.right, plot.left), "a negative R2 is drawn at 0"
    assert plot.points[0].y == pytest.approx(plot.top + 0.1 * (plot.bottom - plot.top), abs=0.01)
    plot = compute_plot(rows)
    assert [tick.label for tick in plot.x_ticks] == ["1", "10"]
    assert (plot.points[0].x, plot.points[0].y) == (plot.right, plot.top)
    assert plot.points[1].x == plot.left
    assert compute_plot(ranked([make_entry()], "tiny")).points == ()


def test_a_tiny_time_does_not_stretch_the_axis(make_entry):
    rows = ranked(
        [make_entry("a", 0.9, compute=Compute(1e-300, "gpu")), make_entry("b", compute=Compute(1, "gpu"))], "tiny"
    )
    plot = compute_plot(rows)
    assert [tick.label for tick in plot.x_ticks] == ["0.001", "0.01", "0.1", "1"]
    assert plot.points[0].x == plot.left
    assert "less than 1 s on gpu" in plot.points[0].title
