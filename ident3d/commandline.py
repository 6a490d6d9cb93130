"""What every command line of the project shares: parsing, logging, and exit statuses.

A command is a frozen dataclass of options with a ``run`` method; the field docs are its help. Exit status 0: done;
1: the work failed, or a check found something wrong; 2: the command or its input is not usable.
"""

import inspect
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, Union

import tyro

from ident3d.errors import Ident3DError

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_OK", "EXIT_UNUSABLE", "Command", "execute", "main"]

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130  # what a shell reports for a command ended by Ctrl-C

_ROOMS = ("ident3d", "render", "baselines", "leaderboard")
_STYLE = (
    tyro.conf.OmitArgPrefixes,
    tyro.conf.PositionalMetavarFromFieldName,
    tyro.conf.DisallowNone,
    tyro.conf.FlagCreatePairsOff,
)
_UNUSABLE = (
    ValueError,
    TypeError,
    KeyError,
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
)
_LOG = logging.getLogger("ident3d")


class Command(Protocol):
    """The options of one command, and its work."""

    def run(self) -> int:
        """Do the work; return the exit status."""


def main(
    program: str, description: str, commands: Mapping[str, type[Command]], arguments: Sequence[str] | None = None
) -> int:
    """Parse a command line that names one of several commands, and execute it.

    Args:
        program: how the program is called, for the usage line.
        description: what it does, for its help.
        commands: the commands by name.
        arguments: the arguments; those of the process where None.

    Returns:
        The exit status.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    kinds = [
        Annotated[kind, tyro.conf.subcommand(name, description=_help_of(kind, whole=given[:1] == [name]))]
        for name, kind in commands.items()
    ]
    return execute(Union[tuple(kinds)], program, description, given)  # noqa: UP007 - the members are data


def execute(kind: Any, program: str, description: str, arguments: Sequence[str]) -> int:
    """Parse the options of a command, run it, and turn errors into one line and an exit status.

    Args:
        kind: the command's class, or a union of several.
        program: how the program is called, for the usage line.
        description: what it does, for its help.
        arguments: the arguments.

    Returns:
        The exit status.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    for room in _ROOMS:
        logging.getLogger(room).setLevel(logging.INFO)  # not of the libraries: some of them tell how they are loaded
    try:
        command: Command = tyro.cli(kind, prog=program, description=description, args=arguments, config=_STYLE)
        status = command.run()
        sys.stdout.flush()  # here, where a reader that is gone can be told from a failure
    except KeyboardInterrupt:
        _LOG.error("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough. What is left in the buffer must not fail once more at the exit.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
        return EXIT_FAILED
    except _UNUSABLE as error:
        _LOG.error("error: %s", error.args[0] if isinstance(error, KeyError) else error)
        return EXIT_UNUSABLE
    except (Ident3DError, OSError) as error:
        _LOG.error("error: %s", error)
        return EXIT_FAILED
    return status


def _help_of(kind: type[Command], *, whole: bool) -> str:
    """Return a command's help: its whole docstring, or the first paragraph for a list of commands."""
    help_text = inspect.getdoc(kind) or ""
    return help_text if whole else help_text.partition("\n\n")[0]
