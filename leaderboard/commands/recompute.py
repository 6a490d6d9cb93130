"""``python -m leaderboard recompute``: score the submissions of entries once more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from ident3d.errors import Ident3DError
from ident3d.submission import Submission
from leaderboard.board import DEFAULT_FOLDER, Board, BoardError
from leaderboard.entry import Entry, Kind
from leaderboard.recompute import differences

__all__ = ["Recompute"]


@dataclass(frozen=True)
class Recompute:
    """Score the submissions of entries once more, and fail where an entry says something else.

    A submission is looked for beside the entry, in submissions/TRACK. Where the track's latents follow from a seed, as
    those of mini do, no dataset is needed. An entry without a submission passes if it has a link to one, and is
    reported as left to a maintainer, who names what the link leads to with --submission.

    Examples:
        python -m leaderboard recompute --since origin/main
        python -m leaderboard recompute entries/mini/mine-1a2b3c-r1.json --submission mine.zip --data data/mini
    """

    entries: tyro.conf.Positional[tuple[str, ...]] = ()
    """Files of entries: their paths, or their paths within the board's folder; by default all recomputed ones."""
    since: str | None = None
    """Take the entries that were added or changed since this commit, and those that are in no commit yet."""
    submission: Path | None = None
    """The submission of the one entry that is named: a folder or a zip archive."""
    data: str | None = None
    """The dataset of the track: its folder, in any layout; "sample" is the one inside the package."""
    board: Path = DEFAULT_FOLDER
    """The folder with the entries; the leaderboard's own by default."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Recompute; print a line for each entry and each difference."""
        board = Board.read(self.board)
        names = list(dict.fromkeys(self._named(board)))
        if self.submission is not None and len(names) != 1:
            raise ValueError(f"--submission is that of one entry, and {len(names)} are named")
        found = {name: self._judged(board, board.entries[name]) for name in names}
        faults = {name: lines for name, (_, lines) in found.items() if lines}
        if self.json:
            write_json({"sound": not faults, "entries": {name: verdict for name, (verdict, _) in found.items()},
                        "faults": faults})  # fmt: skip
        else:
            for name, (verdict, lines) in found.items():
                sys.stdout.write("\n  - ".join([f"{name}: {verdict}", *lines]) + "\n")
            sys.stdout.write(f"{len(names)} entries looked at, {len(faults)} with faults\n")
        return EXIT_FAILED if faults else EXIT_OK

    def _named(self, board: Board) -> Iterable[str]:
        if self.since is not None:
            return [name for name in self._changed(board) if name in board.entries]
        if not self.entries:
            return [name for name, entry in board.entries.items() if entry.kind == Kind.RECOMPUTED]
        return [board.name_of(one) for one in self.entries]

    def _changed(self, board: Board) -> list[str]:
        changed = ["diff", "--name-only", "--relative", "--diff-filter=d", "-z", str(self.since), "--", "entries"]
        new = ["ls-files", "--others", "--exclude-standard", "-z", "--", "entries"]
        names = list[str]()
        for words in (changed, new):
            command = ["git", "-C", str(board.folder), *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BoardError(f"git cannot say what changed since {self.since}: {done.stderr.strip()}")
            names += [name for name in done.stdout.split("\0") if name]
        return names

    def _judged(self, board: Board, entry: Entry) -> tuple[str, list[str]]:
        """Return the verdict on an entry, and what is wrong with it."""
        from ident3d.dataset import ThreeDIdent

        if entry.kind != Kind.RECOMPUTED:
            return f"reported, from {entry.source}", []
        path = self.submission or board.submission_of(entry)
        if not path.exists():
            if entry.links:
                return f"left to a maintainer: no {path.name} is here, and it links to {', '.join(entry.links)}", []
            return "not recomputed", [f"no submission is in {path}, and the entry has no link to one"]
        track = board.tracks[entry.track]
        data = None if self.data is None else ThreeDIdent(self.data, split=track.split)
        try:
            lines = differences(entry, Submission.read(path), track, data)
        except Ident3DError as error:
            return "not recomputed", [str(error)]
        if lines:
            return "differs from its submission", lines
        return "the same" + (
            "" if entry.verification is None else "; its mark 'verified' is a maintainer's to give"
        ), []
