"""Entries: what their files hold, and what is refused."""

import hashlib
import json
from dataclasses import replace

import pytest

from leaderboard.entry import Entry, Kind, Result, Verification, folded_name


def test_what_is_written_is_read(make_entry):
    entry = make_entry(verification=Verification("2026-02-01", "cd" * 32, 0.5, 0.49, 2000), steps=10)
    assert Entry.of(json.loads(entry.to_json())) == (entry, [])


def test_numbers_are_numbers_and_unrounded(make_entry):
    r2 = 0.1 + 0.2
    assert json.loads(make_entry(r2=r2).to_json())["results"]["r2"]["mean"] == r2


def test_a_change_by_hand_shows(make_entry):
    data = json.loads(make_entry().to_json())
    data["results"]["r2"]["mean"] = 0.99
    entry, faults = Entry.of(data)
    assert entry is None
    assert "changed after it was written" in faults[0]


def test_fields_that_come_later_leave_digests_alone(make_entry):
    data = json.loads(make_entry().to_json())
    reported = json.loads(make_entry(kind=Kind.REPORTED).to_json())
    for one in (data, reported):
        del one["pictures_sha256"], one["digest"]
        canonical = json.dumps(one, sort_keys=True, separators=(",", ":"))
        one["digest"] = hashlib.sha256(canonical.encode()).hexdigest()
        assert Entry.of(one)[1] == []


def test_whole_numbers_may_stand_for_fractions(make_entry):
    entry = make_entry(r2=1)
    assert Entry.of(json.loads(entry.to_json()))[0] == entry


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"results": {"r2": {"mean": 96.7}}}, "entry.results.r2.mean: expected a number, at most 1, got 96.7"),
        ({"results": {"r2": {"mean": "0.9"}}}, "entry.results.r2.mean: expected a number"),
        ({"results": {"r2": {"mean": 0.9, "std": -1}}}, "entry.results.r2.std"),
        ({"results": {"r2": {"mean": 0.9, "low": 0.8}}}, "an interval has both ends, low and high, or none"),
        ({"results": {}}, "expected results for r2"),
        ({"results": {"mcc_pearson": {"mean": 0.9}}}, "results for r2, which entries are ranked by, got mcc_pearson"),
        ({"claimed": {"f1": 0.5}}, "claimed scores are of r2, mcc_pearson, mcc_spearman, not of f1"),
        ({"name": "\u3164"}, "has no visible character"),
        ({"kind": "guessed"}, "entry.kind: expected one of recomputed, reported, got 'guessed'"),
        ({"kind": "reported"}, "a reported entry has a source"),
        ({"protocol": None}, "a recomputed entry has protocol"),
        ({"runs": 3}, "a checksum for each of the 3 runs, got 1"),
        ({"added": "yesterday"}, "entry.added: expected a date as YYYY-MM-DD"),
        ({"name": "a\tb"}, "entry.name"),
        ({"schema_version": 2}, "entry.schema_version"),
        ({"extra": 1}, "entry.extra: no such field"),
    ],
)
def test_fault_is_named(make_entry, changes, message):
    entry, faults = Entry.of(json.loads(make_entry().to_json()) | changes)
    assert entry is None
    assert any(message in fault for fault in faults), faults


def test_a_malformed_entry_is_not_sealed(make_entry):
    with pytest.raises(ValueError, match=r"entry\.results\.r2\.mean"):
        replace(make_entry(), results={"r2": Result(float("nan"))}).sealed()


def test_file_names(make_entry):
    assert make_entry("../../etc/passwd").file_name.startswith("etc-passwd-")
    assert make_entry("日本語").file_name.startswith("entry-")
    assert make_entry("A  B").file_name == make_entry("a b").file_name, "names that look alike share a file"
    assert make_entry("A-B").file_name != make_entry("A B").file_name
    assert folded_name("\uff21bc") == "abc"


@pytest.mark.parametrize("invisible", ["\u034f", "\u115f", "\u2800", "\u3164", "\ufe0f", "\uffa0", "\U000e0101"])
def test_what_cannot_be_seen_makes_no_other_name(make_entry, invisible):
    assert make_entry(f"My{invisible}  method").file_name == make_entry("My method").file_name


def test_results_of_any_metric(make_entry):
    entry = make_entry(results={"r2": Result(0.5), "my_lab.sap:SAP": Result(0.2, chance=0.1)})
    assert Entry.of(json.loads(entry.to_json())) == (entry, [])


def test_reported(make_entry):
    assert make_entry(kind=Kind.REPORTED).embeddings_sha256 == ()
