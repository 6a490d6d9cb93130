"""``ident3d score``: score a submission against a dataset."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from ident3d.commandline import EXIT_OK, write_json

if TYPE_CHECKING:
    from ident3d.metrics import Scores
    from ident3d.submission import Submission, SubmissionScores

__all__ = ["Score"]


@dataclass(frozen=True)
class Score:
    """Score a submission against the split of a dataset that it embeds.

    Examples:
        ident3d score mine.zip data/small
        ident3d score mine.zip data/small --extras nonlinear_r2 dci --ceiling supervised.zip
        ident3d score mine.zip data/small --extras my_lab.sap:SAP --json
    """

    submission: tyro.conf.Positional[Path]
    """The submission: a folder or a zip archive."""
    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    protocol: str = "ident3d-1"
    """Which rows are fitted on and which are scored, and how: ident3d-1; ident3d-2, whose ridge takes encoders of any
    width; or paper."""
    extras: tuple[str, ...] = ()
    """Metrics to add: nonlinear_r2 and dci, which are slower, and your own as package.module:attribute."""
    ceiling: Path | None = None
    """The submission of a supervised encoder; the scores of its first seed are shown as the ceiling."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Print the scores of every seed."""
        from ident3d.metrics import DegenerateEmbeddingWarning
        from ident3d.submission import Submission

        submission = Submission.read(self.submission)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateEmbeddingWarning)  # the table says the same
            ceiling = None if self.ceiling is None else self._score(Submission.read(self.ceiling)).scores[0]
            found = self._score(submission, ceiling)
        about = submission.metadata
        named = {"name": about.name, "revision": about.revision, **found.to_json()}
        if self.json:
            write_json(named)
        else:
            sys.stdout.write(f"{about.name}, revision {about.revision}\n{found.table()}\n")
        return EXIT_OK

    def _score(self, submission: Submission, ceiling: Scores | None = None) -> SubmissionScores:
        from ident3d.dataset import ThreeDIdent  # brings torch, which a faulty submission should not wait for
        from ident3d.submission import score_on

        data = ThreeDIdent(self.root, split=submission.metadata.split)
        return score_on(submission, data, protocol=self.protocol, extras=self.extras, ceiling=ceiling)
