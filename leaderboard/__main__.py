"""The command line of the leaderboard: ``python -m leaderboard``."""

import sys
from collections.abc import Sequence

from ident3d import commandline
from leaderboard.commands.add import Add
from leaderboard.commands.build import Build
from leaderboard.commands.check import Check
from leaderboard.commands.report import Report
from leaderboard.commands.serve import Serve
from leaderboard.commands.verify import Verify

__all__ = ["main"]

_COMMANDS: dict[str, type[commandline.Command]] = {
    "add": Add,
    "report": Report,
    "build": Build,
    "check": Check,
    "verify": Verify,
    "serve": Serve,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    return commandline.main(
        "python -m leaderboard", "Add entries to the leaderboard, rank them, and show them.", _COMMANDS, arguments
    )


if __name__ == "__main__":
    sys.exit(main())
