"""The command line of the baselines: ``python -m baselines``."""

import signal
import sys
from collections.abc import Sequence

from ident3d import commandline

__all__ = ["DESCRIPTION", "commands", "main"]

DESCRIPTION = "Encoders, losses and training of the papers' baselines."


def commands() -> commandline.Commands:
    """Load the commands."""
    from baselines.commands.embed import Embed
    from baselines.commands.export import Export
    from baselines.commands.information import MeasureInformation
    from baselines.commands.reproduce import Reproduce
    from baselines.commands.signal import MeasureSignal
    from baselines.commands.train import Train

    return {
        "train": Train,
        "embed": Embed,
        "export": Export,
        "information": MeasureInformation,
        "signal": MeasureSignal,
        "reproduce": Reproduce,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; that of the process where ``arguments`` is None. Returns the exit status."""
    return commandline.main("python -m baselines", DESCRIPTION, commands, arguments)


if __name__ == "__main__":
    # A batch system ends a job with SIGTERM. It is handled like Ctrl-C, which says what is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
