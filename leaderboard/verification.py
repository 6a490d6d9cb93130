"""Verification: a maintainer runs an entry's encoder on the track's split and on a sealed one.

The encoder is one ONNX file, run as :class:`leaderboard.isolation.IsolatedEncoder`. That is the only format, because a
file of weights alone would need the definition of its network here, beside the one that it was trained with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from ident3d.embedding import embed
from ident3d.errors import Ident3DError
from ident3d.metrics import point_scores
from leaderboard.entry import Entry, Kind, Verification
from leaderboard.tracks import Track

if TYPE_CHECKING:
    from ident3d.dataset import ThreeDIdent

__all__ = ["Checksummed", "VerificationError", "verify"]

_BATCH_SIZE = 64  # images, of which a limit of time or memory speaks


class VerificationError(Ident3DError):
    """An entry cannot be verified: the encoder, the datasets and the entry do not belong together."""


class Checksummed(Protocol):
    """An encoder whose file is known.

    Attributes:
        sha256: checksum of the file.
    """

    sha256: str

    def __call__(self, images: Tensor, /) -> Any:
        """Embed (B, 3, H, W) float32 images in [0, 1]: (B, d) finite numbers."""


def verify(
    entry: Entry,
    encoder: Checksummed,
    data: ThreeDIdent,
    sealed: ThreeDIdent,
    track: Track,
    *,
    date: str,
    tolerance: float = 0.01,
    sealed_tolerance: float = 0.03,
) -> Entry:
    """Run an encoder on the track's split and on a sealed one, and mark the entry when both scores hold.

    Args:
        entry: a recomputed entry.
        encoder: its encoder; of one of its runs where there are several.
        data: the track's split.
        sealed: a split that was rendered for the purpose: the same settings, other latents.
        track: the entry's track.
        date: the day, as YYYY-MM-DD.
        tolerance: how far R2 on the track's split may be from the entry's, on top of two standard deviations of its
            runs.
        sealed_tolerance: how far R2 on the sealed split may fall below that on the track's.

    Returns:
        The entry with its verification.

    Raises:
        VerificationError: if a score does not hold, or entry, datasets and track do not belong together.
        EncoderError: if the encoder fails.
    """
    _check_belongs(entry, data, sealed, track)
    r2, sealed_r2 = (_r2(encoder, split) for split in (data, sealed))
    result = entry.results["r2"]
    allowed = tolerance + 2 * (result.std or 0)
    if abs(r2 - result.mean) > allowed:
        raise VerificationError(
            f"not verified: the encoder's R2 on the track's split is {r2:.4f}, the entry's {result.mean:.4f}; "
            f"at most {allowed:.4f} apart is allowed"
        )
    if sealed_r2 < r2 - sealed_tolerance:
        raise VerificationError(
            f"not verified: the encoder's R2 falls from {r2:.4f} on the track's split to {sealed_r2:.4f} on the sealed "
            f"one; {sealed_tolerance:.4f} is allowed"
        )
    return replace(entry, verification=Verification(date, encoder.sha256, r2, sealed_r2, len(sealed)))


def _r2(encoder: Checksummed, split: ThreeDIdent) -> float:
    embeddings = embed(encoder, split, batch_size=_BATCH_SIZE)
    # the entry names what is degenerate in its embeddings
    scores, _ = point_scores(split.latents, embeddings, split.ids, metrics=["r2"], factors=split.factors)
    return scores["r2"].mean


def _check_belongs(entry: Entry, data: ThreeDIdent, sealed: ThreeDIdent, track: Track) -> None:
    if entry.kind != Kind.RECOMPUTED:
        raise VerificationError("a reported entry cannot be verified: hand in its embeddings first")
    faults = track.mismatches(data.provenance, data.fingerprint)
    if entry.fingerprint != data.fingerprint:
        faults.append(f"the entry was scored on {entry.fingerprint}, {data.root} is {data.fingerprint}")
    ours = data.provenance
    others = replace(
        sealed.provenance,
        seed=ours.seed,
        splits=ours.splits,
        rows_per_shard=ours.rows_per_shard,
        latents=ours.latents,
    )
    faults += [f"the sealed split was made in another way: {line}" for line in ours.differences(others)]
    known = {row.tobytes() for row in data.latents.numpy()}
    shared = sum(row.tobytes() in known for row in sealed.latents.numpy())
    if shared:
        faults.append(f"the sealed split shares {shared} samples with the track's: render it with another seed")
    if faults:
        raise VerificationError("\n  - ".join(["the entry cannot be verified with these:", *faults]))
