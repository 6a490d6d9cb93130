"""Ranking: the entries of a track in order, with the marks that say how far to trust the order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from ident3d.submission import Role
from leaderboard.entry import Entry, Kind, folded_name

__all__ = ["CLAIM_TOLERANCE", "Mark", "Row", "ranked"]

CLAIM_TOLERANCE = 0.005


class Mark(StrEnum):
    """What a reader of a row should know. The value is the text of the mark."""

    VERIFIED = "verified"
    REPORTED = "reported"
    LEVEL = "level with the leader"
    CLAIM = "claim differs"
    DEGENERATE = "degenerate"
    FLOOR = "floor"
    CEILING = "ceiling"

    @property
    def meaning(self) -> str:
        """The explanation of the mark."""
        return _MEANINGS[self]


_MEANINGS = {
    Mark.VERIFIED: "A maintainer ran the encoder on the images of the test split and of a sealed split, rendered for "
    "the purpose with a seed that nobody else knows, and found the same scores.",
    Mark.REPORTED: "The numbers are those of a publication. Nobody here has seen the embeddings, and the protocol may "
    "differ. Entries without this mark were recomputed from embeddings that were handed in.",
    Mark.LEVEL: "Its 95% interval reaches that of the leader: the order between the two may be chance.",
    Mark.CLAIM: f"The authors claimed a score that is more than {CLAIM_TOLERANCE} away from the recomputed one.",
    Mark.DEGENERATE: "The embeddings have dimensions that are constant, duplicated or collinear. They count what they "
    "are worth; the details name them.",
    Mark.FLOOR: "Not ranked: an encoder that any method should beat, such as pixels or an untrained network.",
    Mark.CEILING: "Not ranked: an encoder that was trained on the latents themselves.",
}


@dataclass(frozen=True)
class Row:
    """A place on the board.

    Attributes:
        rank: 1 for the best contender; equal scores share a rank. None for a floor or a ceiling.
        entry: the newest revision.
        older: the revisions before it, newest first.
        marks: its marks.
    """

    rank: int | None
    entry: Entry
    older: tuple[Entry, ...]
    marks: tuple[Mark, ...]


def ranked(entries: list[Entry], track: str) -> list[Row]:
    """Rank the newest revisions of a track by their unrounded R2.

    Equal scores share a rank, and are listed recomputed entries first, then by name.

    Args:
        entries: entries of any track.
        track: name of the track.

    Returns:
        The rows, best first.
    """
    own = [entry for entry in entries if entry.track == track]
    if not own:
        return []
    frame = pd.DataFrame(
        {
            "entry": own,
            "name": [folded_name(entry.name) for entry in own],
            "revision": [entry.revision for entry in own],
            "r2": [entry.results["r2"].mean for entry in own],
            "reported": [entry.kind == Kind.REPORTED for entry in own],
            "ranked": [entry.role is Role.CONTENDER for entry in own],
        }
    ).sort_values("revision", ascending=False)
    newest = frame.drop_duplicates("name").sort_values(["r2", "reported", "name"], ascending=[False, True, True])
    ranks = newest["r2"].where(newest["ranked"]).rank(method="min", ascending=False)
    older = {name: tuple(group["entry"])[1:] for name, group in frame.groupby("name")}
    leader: Entry | None = newest["entry"][newest["ranked"]].iloc[0] if newest["ranked"].any() else None
    return [
        Row(None if pd.isna(rank) else int(rank), entry, older[name], _marks(entry, leader))
        for rank, entry, name in zip(ranks, newest["entry"], newest["name"], strict=True)
    ]


def _marks(entry: Entry, leader: Entry | None) -> tuple[Mark, ...]:
    differs = any(
        name in entry.results and abs(entry.results[name].mean - claim) > CLAIM_TOLERANCE
        for name, claim in entry.claimed.items()
    )
    marks = {
        Mark.VERIFIED: entry.verification is not None,
        Mark.REPORTED: entry.kind == Kind.REPORTED,
        Mark.LEVEL: leader is not None and _is_level(entry, leader),
        Mark.CLAIM: differs,
        Mark.DEGENERATE: bool(entry.warnings),
        Mark.FLOOR: entry.role is Role.FLOOR,
        Mark.CEILING: entry.role is Role.CEILING,
    }
    return tuple(mark for mark, applies in marks.items() if applies)


def _is_level(entry: Entry, leader: Entry) -> bool:
    """Whether a contender's interval reaches the leader's; a missing end is the score itself."""
    r2, best = entry.results["r2"], leader.results["r2"]
    reach = r2.mean if r2.high is None else r2.high
    floor = best.mean if best.low is None else best.low
    return entry.role is Role.CONTENDER and entry is not leader and reach >= floor
