"""``python -m leaderboard report``: enter numbers from a publication."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from ident3d import codec
from ident3d.commandline import EXIT_OK, write_json
from ident3d.files import read_bytes
from leaderboard.board import DEFAULT_FOLDER, Board, BoardError
from leaderboard.entry import Entry, Kind

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Enter numbers from a publication: they are marked as reported, and never as recomputed.

    Examples:
        python -m leaderboard report table4-row1.json
        python -m leaderboard report table4-row1.json --json
    """

    description: tyro.conf.Positional[Path]
    """A JSON file with the fields of an entry: track, name, revision, added, authors, method, encoder, training_data,
    conditional, results as fractions, and source."""
    board: Path = DEFAULT_FOLDER
    """The folder with the entries; the leaderboard's own by default."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Write the entry."""
        data = codec.loads(read_bytes(self.description, codec.MAX_BYTES), str(self.description))
        if not isinstance(data, dict):
            raise BoardError(f"{self.description}: expected an object with the fields of an entry")
        entry, faults = Entry.of({**data, "kind": Kind.REPORTED.value, "digest": ""}, check_digest=False)
        if entry is None:
            raise BoardError("\n  - ".join([f"{self.description} describes no reported entry:", *faults]))
        path = Board.read(self.board).add(entry)
        if self.json:
            write_json({"entry": str(path)})
        else:
            sys.stdout.write(f"wrote {path}; next: python -m leaderboard build\n")
        return EXIT_OK
