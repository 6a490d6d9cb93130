"""``python -m leaderboard verify``: run an entry's encoder on images, sealed ones included."""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_OK, write_json
from leaderboard.board import DEFAULT_FOLDER, Board
from leaderboard.isolation import EncoderLimits, IsolatedEncoder
from leaderboard.verification import verify

__all__ = ["VerifyEntry"]


@dataclass(frozen=True)
class VerifyEntry:
    r"""Run an entry's encoder on the track's split and on a sealed one, and mark the entry when its scores hold.

    Examples:
        python -m leaderboard verify entries/mini/mine-1a2b3c-r1.json --encoder mine.onnx \
            --data data/mini --sealed data/sealed
    """

    entry: tyro.conf.Positional[str]
    """The entry's file: its path, or its path within the board's folder."""
    encoder: Path
    """The encoder: one ONNX file that maps float32 images (B, 3, H, W) in [0, 1] to embeddings (B, d), by operators of
    ONNX's own and without control flow. Weights alone, for example in safetensors, are not taken. It runs in a process
    of its own."""
    data: str
    """The dataset of the track: its folder, in any layout; "sample" is the one inside the package."""
    sealed: str
    """A dataset that was rendered for the purpose with the same settings and a secret seed."""
    tolerance: float = 0.01
    """How far R2 may be from the entry's, on top of two standard deviations of its runs."""
    sealed_tolerance: float = 0.03
    """The largest fall of R2 on the sealed split that may go unnoticed; it decides how many images that has to have."""
    threads: int = 0
    """Threads on the CPU; 0 leaves the choice to ONNX Runtime."""
    seconds: float = EncoderLimits.seconds
    """Time that the encoder may take to load, and for each batch of 64 images."""
    memory: float = EncoderLimits.memory_gib
    """GiB of memory that it may use; held on Linux alone."""
    board: Path = DEFAULT_FOLDER
    """The folder with the entries; the leaderboard's own by default."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Verify the entry and write the mark into its file."""
        from ident3d.dataset import ThreeDIdent

        board = Board.read(self.board)
        name = board.name_of(self.entry)
        entry = board.entries[name]
        track = board.tracks[entry.track]
        limits = EncoderLimits(self.seconds, self.memory, entry.width or EncoderLimits.width)
        data, sealed = (ThreeDIdent(root, split=track.split) for root in (self.data, self.sealed))
        with IsolatedEncoder(self.encoder, self.threads, limits) as encoder:
            found = verify(
                entry,
                encoder,
                data,
                sealed,
                track,
                date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
                tolerance=self.tolerance,
                largest_fall=self.sealed_tolerance,
            )
        board.replace(name, found)
        mark = found.verification
        if mark is not None and self.json:
            scores = {"r2": mark.r2, "sealed_r2": mark.sealed_r2, "sealed_rows": mark.sealed_rows}
            scores |= {"sealed_tolerance": mark.tolerance or 0.0}
            write_json({"entry": str(self.board / name), "verified": True, **scores})
        elif mark is not None:
            sys.stdout.write(
                f"verified: R2 {mark.r2:.4f} on the track's split, {mark.sealed_r2:.4f} on "
                f"{mark.sealed_rows} sealed images, where {mark.tolerance:.4f} less was allowed; "
                "next: python -m leaderboard build\n"
            )
        return EXIT_OK
