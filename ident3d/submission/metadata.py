"""Metadata: what a submission says about itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from ident3d.codec import Rule

__all__ = ["LINK", "MAX_SEEDS", "METRICS", "ROLES", "SHA256", "TEXT", "Compute", "Metadata"]

MAX_SEEDS = 64
ROLES = ("contender", "floor", "ceiling")
METRICS = ("r2", "mcc_pearson", "mcc_spearman")
"""The metrics that are claimed, and that the leaderboard holds."""

TEXT = Rule(max_length=1000)
SHA256 = Rule(what="a SHA-256 in 64 lower-case hexadecimal digits", pattern="[0-9a-f]{64}")
_SPLIT = Rule(what="the name of a split, such as test", pattern=r"[a-z][a-z0-9_]{0,39}")
_SEEDS = Rule(low=0, high=2**63 - 1, min_items=1, max_items=MAX_SEEDS)
LINK = Rule(what="a web address that starts with https:// or http://", pattern=r"https?://[^\s\"'<>`]+", max_length=300)
_CLAIM = Rule(what="a fraction, at most 1", low=-1e3, high=1, max_items=len(METRICS))


@dataclass(frozen=True)
class Compute:
    """What the training took, for one seed.

    Attributes:
        hours: wall time in hours, on all devices named.
        device: the devices, "2 CPU cores" or "1 A100" say.
    """

    hours: float = field(metadata=Rule(low=0, high=1e6).metadata)
    device: str = field(metadata=Rule(max_length=80).metadata)


@dataclass(frozen=True)
class Metadata:
    """Who did what, on which data.

    Attributes:
        name: name of the entry; revisions of one name are one line of the leaderboard.
        authors: their names.
        method: the method in a sentence or two: the loss, the space, what is new.
        encoder: the architecture.
        training_data: the images that the encoder was trained on.
        conditional: the distribution of positive pairs, as ``str`` of a conditional writes it, or in words.
        fingerprint: fingerprint of the split whose embeddings these are: ``ThreeDIdent(...).fingerprint``.
        split: the split that was embedded.
        seeds: seeds of the training runs, one for each array of embeddings.
        revision: 1 for the first under that name, counted up.
        steps: optimisation steps; None where the word does not apply.
        training_fingerprint: fingerprint of the training split; None where it has none.
        compute: what a training run took; None where it was not measured.
        links: web addresses of paper, code and weights.
        role: "contender"; or "floor" or "ceiling" for an encoder that the others are held against, such as an untrained
            or a supervised one: shown, not ranked.
        claimed: scores that the authors found themselves, as fractions; never ranked, compared with ours.
    """

    name: str = field(metadata=Rule(max_length=80).metadata)
    authors: tuple[str, ...] = field(metadata=Rule(max_length=80, min_items=1).metadata)
    method: str = field(metadata=TEXT.metadata)
    encoder: str = field(metadata=TEXT.metadata)
    training_data: str = field(metadata=TEXT.metadata)
    conditional: str = field(metadata=TEXT.metadata)
    fingerprint: str = field(metadata=SHA256.metadata)
    split: str = field(metadata=_SPLIT.metadata, default="test")
    seeds: tuple[int, ...] = field(metadata=_SEEDS.metadata, default=(0,))
    revision: int = field(metadata=Rule(low=1, high=10_000).metadata, default=1)
    steps: int | None = field(metadata=Rule(low=0, high=10**12).metadata, default=None)
    training_fingerprint: str | None = field(metadata=SHA256.metadata, default=None)
    compute: Compute | None = None
    links: tuple[str, ...] = field(metadata=LINK.metadata, default=())
    role: str = field(metadata=Rule(choices=ROLES).metadata, default=ROLES[0])
    claimed: dict[str, float] = field(metadata=_CLAIM.metadata, default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"expected different seeds, got {list(self.seeds)}")
        unknown = set(self.claimed) - set(METRICS)
        if unknown:
            raise ValueError(f"claimed scores are of {', '.join(METRICS)}, not of {', '.join(sorted(unknown))}")
