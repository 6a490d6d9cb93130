"""``python -m leaderboard build``: write README.md and index.html."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from ident3d.commandline import EXIT_OK, write_json
from ident3d.files import write_text
from leaderboard.board import DEFAULT_FOLDER, Board
from leaderboard.page import generate

__all__ = ["Build"]

_LOG = logging.getLogger("ident3d.leaderboard")


@dataclass(frozen=True)
class Build:
    """Rank the entries and write README.md and index.html. A damaged entry is left out, named, and stops nothing.

    Examples:
        python -m leaderboard build
        python -m leaderboard build --board boards/local --json
    """

    board: Path = DEFAULT_FOLDER
    """The folder with the entries; the leaderboard's own by default."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Write the generated files."""
        board = Board.read(self.board)
        for name, faults in board.damaged.items():
            _LOG.warning("left out %s: %s", name, "; ".join(faults))
        generated = generate(board)
        for name, text in generated.items():
            write_text(self.board / name, text)
        if self.json:
            files = [str(self.board / name) for name in generated]
            write_json({"files": files, "entries": len(board.entries), "left_out": board.damaged})
            return EXIT_OK
        sys.stdout.write(f"{len(board.entries)} entries in {self.board / 'index.html'}\n")
        return EXIT_OK
