"""The ``ident3d`` command."""

import sys
from collections.abc import Sequence

from ident3d.commandline import Command
from ident3d.commandline import main as run
from ident3d.commands.convert import Convert
from ident3d.commands.download import Download
from ident3d.commands.info import Info
from ident3d.commands.score import Score
from ident3d.commands.validate import Validate
from ident3d.commands.verify import Verify

__all__ = ["main"]

_DESCRIPTION = "3DIdent, the benchmark of contrastive learning and identifiability: datasets and scores."

_COMMANDS: dict[str, type[Command]] = {
    "info": Info,
    "verify": Verify,
    "convert": Convert,
    "download": Download,
    "score": Score,
    "validate": Validate,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; that of the process where ``arguments`` is None. Returns the exit status."""
    return run("ident3d", _DESCRIPTION, _COMMANDS, arguments)


if __name__ == "__main__":
    sys.exit(main())
