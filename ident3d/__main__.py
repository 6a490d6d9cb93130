"""The ``ident3d`` command."""

import sys
from collections.abc import Sequence

from ident3d import commandline

__all__ = ["DESCRIPTION", "commands", "main"]

DESCRIPTION = "3DIdent, the benchmark of contrastive learning and identifiability: datasets and scores."


def commands() -> commandline.Commands:
    """Load the commands."""
    from ident3d.commands.convert import Convert
    from ident3d.commands.doctor import Doctor
    from ident3d.commands.download import Download
    from ident3d.commands.info import Info
    from ident3d.commands.score import Score
    from ident3d.commands.validate import Validate
    from ident3d.commands.verify import Verify

    return {
        "info": Info,
        "verify": Verify,
        "convert": Convert,
        "download": Download,
        "score": Score,
        "validate": Validate,
        "doctor": Doctor,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; that of the process where ``arguments`` is None. Returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["doctor"] and given[1:2] and given[1] in commandline.COMPLETION:
        given = given[1:]  # its options are completed by the script of the whole program
    if given[:1] == ["doctor"]:
        # Alone: the doctor has to come where a library is broken that the other commands load.
        from ident3d.commands import doctor

        return commandline.main("ident3d doctor", doctor.DESCRIPTION, {"": doctor.Doctor}, given[1:])
    return commandline.main("ident3d", DESCRIPTION, commands, given)


if __name__ == "__main__":
    sys.exit(main())
