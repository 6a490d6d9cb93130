"""The command line of the leaderboard: ``python -m leaderboard``."""

import sys
from collections.abc import Sequence

from ident3d import commandline

__all__ = ["DESCRIPTION", "commands", "main"]

DESCRIPTION = "Add entries to the leaderboard, rank them, and show them."


def commands() -> commandline.Commands:
    """Load the commands."""
    from leaderboard.commands.add import Add
    from leaderboard.commands.build import Build
    from leaderboard.commands.check import Check
    from leaderboard.commands.pin import Pin
    from leaderboard.commands.recompute import Recompute
    from leaderboard.commands.report import Report
    from leaderboard.commands.serve import Serve
    from leaderboard.commands.verify import VerifyEntry

    return {
        "add": Add,
        "report": Report,
        "build": Build,
        "check": Check,
        "recompute": Recompute,
        "verify": VerifyEntry,
        "pin": Pin,
        "serve": Serve,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; that of the process where ``arguments`` is None. Returns the exit status."""
    return commandline.main("python -m leaderboard", DESCRIPTION, commands, arguments)


if __name__ == "__main__":
    sys.exit(main())
