"""``python -m leaderboard add``: make an entry of a submission."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import tyro

from ident3d.commandline import EXIT_OK, write_json
from ident3d.submission import Submission
from leaderboard.board import DEFAULT_FOLDER, MAX_SUBMISSION_BYTES, Board
from leaderboard.entry import Entry
from leaderboard.recompute import recompute
from leaderboard.tracks import read_tracks

__all__ = ["Add"]


@dataclass(frozen=True)
class Add:
    """Recompute the scores of a submission, write its entry, and keep the archive beside it for others to recompute.

    An archive of more than 5 MiB is not kept: name a link to it in the submission, and its checksums, which the entry
    holds, say whether what is there is what was scored. docs/submitting.md is the whole way from an archive to the
    board.

    Examples:
        python -m leaderboard add mine.zip --data data/mini
        python -m leaderboard add mine.zip --data data/3dident --track 3dident --json
    """

    completions: ClassVar[Mapping[str, Callable[[], Iterable[str]]]] = {"--track": lambda: read_tracks(DEFAULT_FOLDER)}

    submission: tyro.conf.Positional[Path]
    """The submission: a folder or a zip archive."""
    data: str
    """The dataset of the track: its folder, in any layout; "sample" is the one inside the package."""
    track: str = "mini"
    """The track to add the entry to."""
    board: Path = DEFAULT_FOLDER
    """The folder with the entries; the leaderboard's own by default."""
    extras: tuple[str, ...] = ()
    """Further metrics for the entry to hold: nonlinear_r2, or your own as package.module:attribute; none ranks it."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Write the entry and say what it holds."""
        from ident3d.dataset import ThreeDIdent

        board = Board.read(self.board)
        track = board.track(self.track)
        submission = Submission.read(self.submission)
        today = dt.datetime.now(tz=dt.UTC).date().isoformat()
        data = ThreeDIdent(self.data, split=track.split)
        entry = recompute(submission, data, track, today, extras=self.extras)
        path = Board.read(self.board).add(entry)  # others may have added theirs while this one was scored
        kept = board.keep(entry, self.submission)
        if self.json:
            shown = None if kept is None else str(kept)
            results = {name: _plain(entry, name) for name in entry.results}
            write_json({"entry": str(path), "submission": shown, "results": results})
            return EXIT_OK
        for name, result in entry.results.items():
            claim = f" (claimed {entry.claimed[name]:.4f})" if name in entry.claimed else ""
            sys.stdout.write(f"{name}: {result.mean:.4f}{claim}\n")
        if kept is None:
            what = "a folder" if self.submission.is_dir() else f"larger than {MAX_SUBMISSION_BYTES >> 20} MiB"
            sys.stdout.write(f"{self.submission} is {what}: it is not kept, and the submission has to link to it\n")
        sys.stdout.write(f"wrote {path}{'' if kept is None else f' and {kept}'}; next: python -m leaderboard build\n")
        return EXIT_OK


def _plain(entry: Entry, name: str) -> dict[str, float | None]:
    result = entry.results[name]
    return {"mean": result.mean, "std": result.std, "claimed": entry.claimed.get(name)}
