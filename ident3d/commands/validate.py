"""``ident3d validate``: check a submission offline, and list everything that is wrong with it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from ident3d.submission import Submission

__all__ = ["Validate"]


@dataclass(frozen=True)
class Validate:
    """Check a submission without the dataset: exit status 0 when it is valid, 1 when something is wrong.

    Examples:
        ident3d validate mine.zip
        ident3d validate mine.zip --json
    """

    submission: tyro.conf.Positional[Path]
    """The submission: a folder or a zip archive."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Print what is wrong, or what the submission is."""
        faults = Submission.faults(self.submission)
        if self.json:
            write_json({"valid": not faults, "faults": list(faults)})
        elif faults:
            sys.stdout.write("\n  - ".join([f"{self.submission} is not a valid submission:", *faults]) + "\n")
        else:
            found = Submission.read(self.submission)
            rows, width = found.embeddings[0].shape
            seeds = ", ".join(map(str, found.metadata.seeds))
            sys.stdout.write(
                f"{self.submission} is valid: {found.metadata.name}, revision {found.metadata.revision}, "
                f"{rows} x {width} embeddings of the split {found.metadata.split}, seeds {seeds}\n"
            )
        return EXIT_FAILED if faults else EXIT_OK
