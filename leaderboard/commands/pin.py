"""``python -m leaderboard pin``: say once and for all what the latents of a track are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import tyro

from ident3d.commandline import EXIT_OK, write_json
from leaderboard.board import DEFAULT_FOLDER, Board
from leaderboard.tracks import TRACKS_NAME, pin_latents, read_tracks

__all__ = ["Pin"]


@dataclass(frozen=True)
class Pin:
    """Write the checksum of the latents of a published dataset into its track.

    A track whose latents follow from no seed can be told from another dataset of the same size by these alone. Until a
    maintainer who has the dataset from its publisher has pinned them, the track takes reported numbers and no others.

    Examples:
        python -m leaderboard pin 3dident --data data/3dident
    """

    completions: ClassVar[Mapping[str, Callable[[], Iterable[str]]]] = {"": lambda: read_tracks(DEFAULT_FOLDER)}

    track: tyro.conf.Positional[str]
    """The track."""
    data: str
    """The dataset of the track: its folder, in any layout; "sample" is the one inside the package."""
    board: Path = DEFAULT_FOLDER
    """The folder with the entries; the leaderboard's own by default."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Pin the latents, and say to what."""
        from ident3d.dataset import ThreeDIdent

        split = Board.read(self.board).track(self.track).split
        sha256 = pin_latents(self.board, self.track, ThreeDIdent(self.data, split=split))
        if self.json:
            write_json({"track": self.track, "split": split, "latents_sha256": sha256})
        else:
            path = self.board / TRACKS_NAME
            sys.stdout.write(
                f"{path}: the latents of {self.track} are pinned to {sha256}; next: python -m leaderboard build\n"
            )
        return EXIT_OK
