"""``ident3d doctor``: what this machine has, what works on it, and what to install for the rest."""

import sys
from dataclasses import dataclass

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from ident3d.doctor.diagnosis import diagnose
from ident3d.doctor.libraries import PATIENCE_S

__all__ = ["DESCRIPTION", "Doctor"]

DESCRIPTION = """Say what this machine has, what works on it, and what to install for the rest: what a bug report needs.

Every library is loaded in another process, so that one that crashes or hangs is reported, too. Ends with exit status 1
if something does not work that needs no extra: to read datasets, draw pairs, score, or download."""


@dataclass(frozen=True)
class Doctor:
    """Say what this machine has, what works on it, and what to install for the rest: what a bug report needs.

    Every library is loaded in another process, so that one that crashes or hangs is reported, too. Ends with exit
    status 1 if something does not work that needs no extra: to read datasets, draw pairs, score, or download.

    Examples:
        ident3d doctor
        ident3d doctor --json
    """

    patience: float = PATIENCE_S
    """Seconds that loading the libraries may take; one that takes longer counts as broken."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Look at the machine; return the exit status."""
        if not self.patience > 0:
            raise ValueError(f"--patience is a positive number of seconds, not {self.patience}")
        diagnosis = diagnose(patience_s=self.patience)
        if self.json:
            write_json(diagnosis.to_json())
        else:
            sys.stdout.write(diagnosis.table() + "\n")
        return EXIT_OK if diagnosis.core_works else EXIT_FAILED
