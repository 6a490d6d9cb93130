"""``python -m leaderboard check``: what a pull request has to pass."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from leaderboard.board import DEFAULT_FOLDER, Board
from leaderboard.page import generate

__all__ = ["Check"]


@dataclass(frozen=True)
class Check:
    """Fail when an entry is malformed, altered or in conflict with another, or a generated file is stale.

    Examples:
        python -m leaderboard check
        python -m leaderboard check --json
    """

    board: Path = DEFAULT_FOLDER
    """The folder with the entries; the leaderboard's own by default."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Print everything that is wrong."""
        board = Board.read(self.board)
        faults = [f"{name}: {fault}" for name, found in board.damaged.items() for fault in found]
        faults += board.conflicts(board.entries)
        for name, text in generate(board).items():
            path = self.board / name
            if not path.is_file() or path.read_bytes() != text.encode():
                faults.append(f"{name} is not up to date with the entries: run python -m leaderboard build")
        if self.json:
            write_json({"sound": not faults, "entries": len(board.entries), "faults": faults})
        elif faults:
            sys.stdout.write("\n  - ".join([f"{self.board}:", *faults]) + "\n")
        else:
            sys.stdout.write(f"{len(board.entries)} entries, all sound; the generated files are up to date\n")
        return EXIT_FAILED if faults else EXIT_OK
