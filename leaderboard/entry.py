"""Entries: one line of the leaderboard each, in a small file of strict JSON that people can review."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ident3d import codec
from ident3d.codec import Rule, parse, to_json
from ident3d.submission import Compute
from ident3d.submission.submission import CLAIMED_METRICS, LINK, SHA256, TEXT, Role

__all__ = ["SCHEMA_VERSION", "Entry", "Kind", "Result", "Verification", "folded_name"]

SCHEMA_VERSION = 1

# printable characters that show nothing: Unicode's Default_Ignorable_Code_Point, and the blank of Braille
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_SCORE = Rule(what="a number, at most 1", low=-1e6, high=1)
_NAME = Rule(max_length=80)
_DATE = Rule(what="a date as YYYY-MM-DD", pattern=r"20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")


class Kind(StrEnum):
    """Where an entry's numbers come from."""

    RECOMPUTED = "recomputed"
    """Computed here, from embeddings that were handed in."""
    REPORTED = "reported"
    """Taken from a publication; nobody here has seen the embeddings."""


@dataclass(frozen=True)
class Result:
    """One metric of an entry, mean over its seeds.

    Attributes:
        mean: mean over factors and seeds, unrounded.
        std: standard deviation of the seeds' means over factors; None for a single seed.
        low: lower end of the 95% interval, mean over seeds.
        high: upper end.
        chance: chance level, mean over seeds.
        per_group: mean of each group of factors.
        per_factor: mean of each factor.
    """

    mean: float = field(metadata=_SCORE.metadata)
    std: float | None = field(metadata=Rule(low=0).metadata, default=None)
    low: float | None = field(metadata=_SCORE.metadata, default=None)
    high: float | None = field(metadata=_SCORE.metadata, default=None)
    chance: float | None = field(metadata=_SCORE.metadata, default=None)
    per_group: dict[str, float] = field(metadata=_SCORE.metadata, default_factory=dict)
    per_factor: dict[str, float] = field(metadata=_SCORE.metadata, default_factory=dict)

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has both ends, low and high, or none")


@dataclass(frozen=True)
class Verification:
    """A maintainer ran the encoder on images, those of a split included that nobody else has seen.

    Attributes:
        date: when.
        encoder_sha256: checksum of the encoder's file.
        r2: R2 of the encoder on the track's split.
        sealed_r2: R2 on the sealed split.
        sealed_rows: number of samples of the sealed split.
        tolerance: how far R2 was allowed to fall there; None where an older ident3d verified it.
    """

    date: str = field(metadata=_DATE.metadata)
    encoder_sha256: str = field(metadata=SHA256.metadata)
    r2: float = field(metadata=_SCORE.metadata)
    sealed_r2: float = field(metadata=_SCORE.metadata)
    sealed_rows: int = field(metadata=Rule(low=1).metadata)
    tolerance: float | None = field(metadata=Rule(low=0).metadata, default=None)


@dataclass(frozen=True)
class Entry:
    """One revision of one method on one track.

    Attributes:
        kind: "recomputed" or "reported".
        track: name of the track.
        name: name of the method; see :func:`folded_name`.
        revision: counted up from 1; the largest is shown.
        added: day on which the entry was made.
        authors: their names.
        method: the method in a sentence or two.
        encoder: the architecture.
        training_data: what it was trained on.
        conditional: the distribution of positive pairs.
        results: the metrics by name: "r2" at least, and whatever else was computed.
        role: whether it is ranked, or is shown for the others to be held against.
        source: the publication and place that reported numbers are from; None for recomputed ones.
        links: web addresses.
        steps: optimisation steps.
        compute: what a training run took.
        runs: number of training runs behind the numbers.
        claimed: what the authors found themselves; kept apart from the results.
        protocol: protocol of the scores.
        version: version of ident3d that computed them.
        fingerprint: fingerprint of the split.
        pictures_sha256: checksum of the split's files, which differs where another machine rendered other pixels; None
            where the dataset records none.
        embeddings_sha256: checksums of the embeddings' files, in the order of the seeds.
        width: number of embedding dimensions.
        warnings: what was wrong with the embeddings.
        verification: of a maintainer's run of the encoder; None where there was none.
        digest: checksum of everything else; see :meth:`sealed`.
        schema_version: version of this schema.
    """

    kind: str = field(metadata=Rule(choices=tuple(Kind)).metadata)
    track: str = field(metadata=_NAME.metadata)
    name: str = field(metadata=_NAME.metadata)
    revision: int = field(metadata=Rule(low=1, high=10_000).metadata)
    added: str = field(metadata=_DATE.metadata)
    authors: tuple[str, ...] = field(metadata=Rule(max_length=80, min_items=1).metadata)
    method: str = field(metadata=TEXT.metadata)
    encoder: str = field(metadata=TEXT.metadata)
    training_data: str = field(metadata=TEXT.metadata)
    conditional: str = field(metadata=TEXT.metadata)
    results: dict[str, Result] = field(metadata=Rule().metadata)
    role: Role = Role.CONTENDER
    source: str | None = field(metadata=TEXT.metadata, default=None)
    links: tuple[str, ...] = field(metadata=LINK.metadata, default=())
    steps: int | None = field(metadata=Rule(low=0).metadata, default=None)
    compute: Compute | None = None
    runs: int = field(metadata=Rule(low=1).metadata, default=1)
    claimed: dict[str, float] = field(metadata=_SCORE.metadata, default_factory=dict)
    protocol: str | None = field(metadata=_NAME.metadata, default=None)
    version: str | None = field(metadata=_NAME.metadata, default=None)
    fingerprint: str | None = field(metadata=SHA256.metadata, default=None)
    pictures_sha256: str | None = field(metadata=SHA256.metadata, default=None)
    embeddings_sha256: tuple[str, ...] = field(metadata=SHA256.metadata, default=())
    width: int | None = field(metadata=Rule(low=1).metadata, default=None)
    warnings: tuple[str, ...] = field(metadata=TEXT.metadata, default=())
    verification: Verification | None = None
    digest: str = field(metadata=Rule(what=SHA256.what, pattern="[0-9a-f]{64}|", empty=True).metadata, default="")
    schema_version: int = field(metadata=Rule(choices=(SCHEMA_VERSION,)).metadata, default=SCHEMA_VERSION)

    def __post_init__(self) -> None:
        if "r2" not in self.results:
            raise ValueError(f"expected results for r2, which entries are ranked by, got {', '.join(self.results)}")
        if not set(self.claimed) <= set(CLAIMED_METRICS):
            raise ValueError(f"claimed scores are of {', '.join(CLAIMED_METRICS)}, not of {', '.join(self.claimed)}")
        if not folded_name(self.name):
            raise ValueError(f"the name {self.name!a} has no visible character")
        if self.kind == Kind.REPORTED and (self.source is None or self.embeddings_sha256 or self.verification):
            raise ValueError("a reported entry has a source, and neither embeddings nor a verification")
        if self.kind == Kind.RECOMPUTED and None in (self.protocol, self.version, self.fingerprint, self.width):
            raise ValueError("a recomputed entry has protocol, version, fingerprint and width")
        if self.kind == Kind.RECOMPUTED and len(self.embeddings_sha256) != self.runs:
            raise ValueError(f"expected a checksum for each of the {self.runs} runs, got {len(self.embeddings_sha256)}")

    @property
    def file_name(self) -> str:
        """The name of its file: of the name and the revision, so that no two entries can both have them."""
        folded = folded_name(self.name)
        slug = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")[:40] or "entry"
        return f"{slug}-{hashlib.sha256(folded.encode()).hexdigest()[:6]}-r{self.revision}.json"

    def sealed(self) -> Entry:
        """Return the entry as its file will give it back, with the digest that belongs to its content.

        Raises:
            ValueError: everything in which the entry is not as its fields demand.
        """
        entry, faults = parse(Entry, to_json(replace(self, digest="")), "entry")
        if entry is None:
            raise ValueError("\n  - ".join([f"the entry {self.name!r} is malformed:", *faults]))
        return replace(entry, digest=_digest(to_json(entry)))

    def to_json(self) -> str:
        """Return the text of the entry's file."""
        return codec.dumps(to_json(self))

    @classmethod
    def of(cls, data: Any, *, check_digest: bool = True) -> tuple[Entry | None, list[str]]:
        """Read an entry from plain data; None and one message for each fault where something is wrong.

        Args:
            data: what JSON gave.
            check_digest: whether its digest must be there and belong to it; a new entry has none yet.
        """
        entry, faults = parse(cls, data, "entry")
        if entry is not None and check_digest and entry.digest != _digest(data):
            return None, ["entry.digest is not that of the content: the file was changed after it was written"]
        return entry, faults


def _digest(data: dict[str, Any]) -> str:
    """Return the checksum of an entry's plain data; fields that a file lacks are not in it, so that more may come."""
    return codec.digest({key: value for key, value in data.items() if key != "digest"})


def folded_name(name: str) -> str:
    """Return a form of a name in which two names that look the same are equal.

    Compatible characters, case and spaces are folded, and characters that cannot be seen are left out.
    """
    return " ".join(_INVISIBLE.sub("", unicodedata.normalize("NFKC", name)).casefold().split())
