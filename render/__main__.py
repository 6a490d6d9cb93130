"""The command line of the renderer: ``python -m render ROOT ...``, and five more commands."""

import signal
import sys
from collections.abc import Sequence

from ident3d import commandline

__all__ = ["DESCRIPTION", "commands", "main"]

DESCRIPTION = """Render 3DIdent, or a variant of it, into a folder, or resume a run that was stopped.

A folder that has the name of a command is written with its path, as ./check."""


def commands() -> commandline.Commands:
    """Load the commands; the one without a name renders a dataset."""
    from render.commands.check import CheckMachine
    from render.commands.contact_sheet import ContactSheet
    from render.commands.dataset import Dataset
    from render.commands.traversal import Traversal
    from render.commands.verify import VerifyImages
    from render.commands.world import WorldCommand

    return {
        "": Dataset,
        "traversal": Traversal,
        "contact-sheet": ContactSheet,
        "check": CheckMachine,
        "verify": VerifyImages,
        "world": WorldCommand,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; that of the process where ``arguments`` is None. Returns the exit status."""
    return commandline.main("python -m render", DESCRIPTION, commands, arguments)


if __name__ == "__main__":
    # A batch system ends a job with SIGTERM. It is handled like Ctrl-C, so that no worker is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
