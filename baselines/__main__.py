"""The command line of the baselines: ``python -m baselines``."""

import sys
from collections.abc import Sequence

from baselines.commands.embed import Embed
from baselines.commands.export import Export
from baselines.commands.reproduce import Reproduce
from baselines.commands.train import Train
from ident3d.commandline import Command
from ident3d.commandline import main as run

__all__ = ["main"]

_DESCRIPTION = "Encoders, losses and training for the papers' baselines."

_COMMANDS: dict[str, type[Command]] = {
    "train": Train,
    "embed": Embed,
    "export": Export,
    "reproduce": Reproduce,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; that of the process where ``arguments`` is None. Returns the exit status."""
    return run("python -m baselines", _DESCRIPTION, _COMMANDS, arguments)


if __name__ == "__main__":
    sys.exit(main())
