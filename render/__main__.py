"""The command line of the renderer: ``python -m render ROOT ...``, and four commands beside it."""

import signal
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ident3d import commandline
from render.commands.check import Check
from render.commands.contact_sheet import ContactSheet
from render.commands.dataset import Dataset
from render.commands.traversal import Traversal
from render.commands.verify import Verify

__all__ = ["main"]

_PROGRAM = "python -m render"
_COMMANDS: Mapping[str, type[commandline.Command]] = MappingProxyType(
    {"traversal": Traversal, "contact-sheet": ContactSheet, "check": Check, "verify": Verify}
)
_DESCRIPTION = """Render 3DIdent into a folder, or go on with what is there.

Examples:
  python -m render data/3dident                                      the published numbers, 224x224
  python -m render data/small --train 6000 --test 1000 --resolution 64
  python -m render data/pairs --train 10000 --test 0 --pairs 'normal(sigma=0.1)'
  python -m render data/3dident --shard 0/4                          one of four machines that share the folder
  python -m render data/3dident --merge                              once all of them are done

Other commands, each with its own --help:
  python -m render check                          what this machine can render with
  python -m render verify ROOT --sample 8         render rows again, and compare
  python -m render contact-sheet ROOT OUT.png     some pictures of a dataset
  python -m render traversal OUT.png              what each factor does

A folder that is called like one of these words is written as ./check."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    Args:
        arguments: the arguments; those of the process where None.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _COMMANDS:
        return commandline.main(_PROGRAM, _DESCRIPTION, _COMMANDS, given)
    return commandline.execute(Dataset, _PROGRAM, _DESCRIPTION, given)


if __name__ == "__main__":
    # What a batch system ends a job with is Ctrl-C to us: it is said what is kept, and no worker stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
