"""Boards: entries on disk, what is damaged, and what is in conflict."""

import json
import os
from pathlib import Path
from threading import Barrier, Thread

import pytest

from leaderboard.board import DEFAULT_FOLDER, Board, BoardError
from leaderboard.entry import Kind
from leaderboard.page import generate
from leaderboard.tracks import TrackError, read_tracks


def test_the_leaderboards_own_entries_are_sound():
    board = Board.read(DEFAULT_FOLDER)
    assert not board.damaged
    assert board.conflicts(board.entries) == []


def test_table_4_of_the_paper():
    """Values as they stand in Zimmermann et al. (2021), Table 4 and its caption, in percent."""
    table = {
        "box, normal": (96.73, 0.10, 98.31, 0.04),
        "unbounded, normal": (96.43, 0.03, 54.94, 0.02),
        "box, normal, Laplace pairs": (96.87, 0.08, 98.38, 0.03),
        "sphere, vMF": (65.74, 0.01, 42.44, 3.27),
        "sphere, vMF, augmentations": (45.51, 1.43, 46.34, 1.59),
        "supervised": (98.67, 0.03, 99.33, 0.01),
        "identity": (5.25, 1.20),
    }
    entries = {
        entry.name.removeprefix("Zimmermann et al.: "): entry
        for entry in Board.read(DEFAULT_FOLDER).entries.values()
        if entry.kind == Kind.REPORTED
    }
    assert set(entries) == set(table)
    for name, expected in table.items():
        results = entries[name].results
        found = [
            100 * number
            for key in ("r2", "mcc_pearson")
            if key in results
            for number in (results[key].mean, results[key].std)
        ]
        assert found == pytest.approx(expected)


def test_a_damaged_entry_takes_no_other_down(board_of, folder, make_entry):
    board_of(make_entry("Sound"))
    tiny = folder / "entries" / "tiny"
    sound = json.loads((tiny / make_entry("Sound").file_name).read_text())
    (tiny / "nan.json").write_text('{"kind": NaN}')
    (tiny / "twice.json").write_text('{"kind": 1, "kind": 2}')
    (tiny / "torn.json").write_bytes(b"\x00\xff{")
    (tiny / "text.txt").write_text("hello")
    (tiny / "large.json").write_text(" " * (1 << 21))
    (tiny / "folder").symlink_to(folder, target_is_directory=True)
    (tiny / "large-number.json").write_text(json.dumps(sound | {"compute": {"hours": 10**400, "device": "x"}}))
    (tiny / "line\nbreak.json").write_text("{}")
    Path(os.fsdecode(os.fsencode(tiny) + b"/\xff.json")).write_text("{}")
    (tiny / "link.json").symlink_to(tiny / make_entry("Sound").file_name)
    (tiny / "altered.json").write_text(json.dumps(sound | {"name": "Altered"}))
    board = Board.read(folder)
    assert [entry.name for entry in board.entries.values()] == ["Sound"]
    assert {name.strip("'").split("/")[-1] for name in board.damaged} == {
        "nan.json",
        "twice.json",
        "torn.json",
        "text.txt",
        "altered.json",
        "large.json",
        "link.json",
        "folder",
        "large-number.json",
        r"line\nbreak.json",
        r"\udcff.json",
    }
    for text in generate(board).values():
        text.encode()


def test_no_board(tmp_path):
    with pytest.raises(FileNotFoundError, match="make the folder to start a new one"):
        Board.read(tmp_path / "none")


def test_an_entry_in_the_wrong_place(board_of, folder, make_entry):
    board_of(make_entry("Sound"))
    entry = make_entry("Sound")
    (folder / "entries" / "tiny" / "other-name.json").write_text(entry.to_json())
    (folder / "entries" / "tiny" / "no-track.json").write_text(make_entry("x", track="none").to_json())
    faults = [fault for found in Board.read(folder).damaged.values() for fault in found]
    assert any("the file of this entry is entries/tiny/sound-" in fault for fault in faults)
    assert any("unknown track 'none'; choose from tiny, other" in fault for fault in faults)


def test_a_revision_is_taken_once(board_of, make_entry):
    board_of(make_entry("Mine"), make_entry("Mine", revision=2))
    with pytest.raises(BoardError, match="has a revision 2: raise the revision"):
        board_of(make_entry("MINE", revision=2, r2=0.9))


def test_two_at_once_do_not_lose_one(folder, make_entry):
    for round_ in range(20):
        entries = [make_entry(f"{round_:04} mine", r2=r2) for r2 in (0.1, 0.2, 0.3)]
        ready, outcomes = Barrier(len(entries)), []

        def add(entry, ready=ready, outcomes=outcomes):
            board = Board.read(folder)
            ready.wait()
            try:
                outcomes.append(board.add(entry))
            except BoardError as error:
                outcomes.append(str(error))

        threads = [Thread(target=add, args=(entry,)) for entry in entries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum("raise the revision" in str(outcome) for outcome in outcomes) == len(entries) - 1
    assert len(Board.read(folder).entries) == 20
    assert not list(folder.rglob("*.tmp"))


def test_a_file_that_is_being_written_is_no_entry(board_of, folder, make_entry):
    board_of(make_entry())
    (folder / "entries" / "tiny" / ".other-r1.json.0123456789ab.tmp").write_text("{")
    assert not Board.read(folder).damaged


def test_nobody_else_revises_an_entry(board_of, make_entry):
    board_of(make_entry("Mine"))
    with pytest.raises(BoardError, match=r"the name 'mine' is used by Ada L\. and Eve"):
        board_of(make_entry("mine", revision=2, authors=("Eve",)))


def test_the_same_embeddings_under_another_name(board_of, make_entry):
    first = make_entry("Mine")
    board_of(first)
    with pytest.raises(BoardError, match="were submitted as mine, yours"):
        board_of(make_entry("Yours", embeddings_sha256=first.embeddings_sha256))


def test_a_pinned_fingerprint(folder, make_entry):
    tracks = json.loads((folder / "tracks.json").read_text())
    tracks["tracks"][0]["fingerprints"] = ["cd" * 32]
    (folder / "tracks.json").write_text(json.dumps(tracks))
    Board.read(folder).add(make_entry())
    (faults,) = Board.read(folder).damaged.values()
    assert faults == [f"the fingerprint {'ab' * 32} is not among the track's"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"tracks": []}', "expected a list of 1 to 100 items"),
        ('{"tracks": [{"name": "A B"}]}', "tracks.json.tracks[0].name: expected a short name"),
        ("[", "not strict JSON"),
    ],
)
def test_damaged_tracks(folder, text, message):
    (folder / "tracks.json").write_text(text)
    with pytest.raises(TrackError) as caught:
        read_tracks(folder)
    assert message in str(caught.value)
