"""Verification: a maintainer runs an entry's encoder on the track's split and on a sealed one.

How far its score may be lower on the sealed split is computed: two half-widths of the 95% intervals of both, and what a
map that is fitted on fewer rows loses. From the interval on the track's split follows how many sealed images it takes.

The encoder is one ONNX file, run as :class:`leaderboard.isolation.IsolatedEncoder`. That is the only format, because a
file of weights alone would need the definition of its network here, beside the one that it was trained with.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from ident3d.embedding import embed
from ident3d.errors import Ident3DError
from ident3d.metrics import DEFAULT_PROTOCOL, DegenerateEmbeddingWarning, score
from leaderboard.entry import Entry, Kind, Verification
from leaderboard.tracks import Track

if TYPE_CHECKING:
    from ident3d.dataset import ThreeDIdent

__all__ = ["Checksummed", "MeasuredR2", "VerificationError", "sealed_rows_needed", "sealed_tolerance", "verify"]

_BATCH_SIZE = 64  # images, of which a limit of time or memory speaks
_HALF_WIDTHS = 2.0  # of 95% intervals: four standard deviations, because the maps are fitted to other rows too
_ROUNDING = 0.001
_MOST_ROWS = 1 << 24


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
    largest_fall: float = 0.03,
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
        largest_fall: the largest tolerance for the sealed split that a verification may need; it decides how many
            images the sealed split has to have.

    Returns:
        The entry with its verification.

    Raises:
        VerificationError: if a score does not hold, the sealed split is too small, or entry, datasets and track do not
            belong together.
        EncoderError: if the encoder fails.
    """
    _check_belongs(entry, data, sealed, track)
    protocol = entry.protocol or DEFAULT_PROTOCOL
    found = _measured(encoder, data, protocol)
    result = entry.results["r2"]
    allowed = tolerance + 2 * (result.std or 0)
    if abs(found.r2 - result.mean) > allowed:
        raise VerificationError(
            f"not verified: the encoder's R2 on the track's split is {found.r2:.4f}, the entry's {result.mean:.4f}; "
            f"at most {allowed:.4f} apart is allowed"
        )
    needed = sealed_rows_needed(found, largest_fall)
    if len(sealed) < needed:
        raise VerificationError(
            f"not verified: the sealed split has {len(sealed)} images, and with this encoder it takes {needed} to tell "
            f"a fall of {largest_fall:.4f} from chance; render more of them (--test {needed}), or allow a larger fall"
        )
    hidden = _measured(encoder, sealed, protocol)
    may_fall = sealed_tolerance(found, hidden)
    if hidden.r2 < found.r2 - may_fall:
        raise VerificationError(
            f"not verified: the encoder's R2 falls from {found.r2:.4f} on the track's split to {hidden.r2:.4f} on the "
            f"sealed one; {may_fall:.4f} is allowed by their intervals"
        )
    mark = Verification(date, encoder.sha256, found.r2, hidden.r2, len(sealed), may_fall)
    return replace(entry, verification=mark)


@dataclass(frozen=True)
class MeasuredR2:
    """R2 of an encoder on a split.

    Attributes:
        r2: the mean over factors.
        half_width: half the width of its 95% interval.
        rows: number of images.
        width: number of embedding dimensions.
    """

    r2: float
    half_width: float
    rows: int
    width: int

    @property
    def lost_to_fitting(self) -> float:
        """What R2 lacks because its affine map was fitted on half of the rows, d + 1 parameters a factor.

        Least squares loses (1 - R2) (d + 1) / (n - d - 2) with n rows of normal regressors; infinite for too few.
        """
        spare = self.rows // 2 - self.width - 2
        return (1 - self.r2) * (self.width + 1) / spare if spare > 0 else math.inf


def sealed_tolerance(found: MeasuredR2, sealed: MeasuredR2) -> float:
    """Return how far R2 may be lower on a sealed split than on the track's, if the encoder is an honest one.

    Args:
        found: R2 on the track's split.
        sealed: R2 on the sealed one.
    """
    fitting = max(0.0, replace(sealed, r2=found.r2).lost_to_fitting - found.lost_to_fitting)
    return _HALF_WIDTHS * math.hypot(found.half_width, sealed.half_width) + fitting + _ROUNDING


def sealed_rows_needed(found: MeasuredR2, largest_fall: float) -> int:
    """Return how many sealed images it takes for a tolerance that is no larger than a fall that has to show.

    Args:
        found: R2 on the track's split; the half-width of the interval goes with one over the square root of the rows.
        largest_fall: the fall.

    Raises:
        VerificationError: if no number of images is enough, because the track's own interval is too wide.
    """

    def is_enough(rows: int) -> bool:
        expected = replace(found, rows=rows, half_width=found.half_width * math.sqrt(found.rows / rows))
        return sealed_tolerance(found, expected) <= largest_fall

    if not is_enough(_MOST_ROWS):
        least = sealed_tolerance(found, replace(found, rows=_MOST_ROWS, half_width=0.0))
        raise VerificationError(
            f"not verified: the 95% interval on the track's {found.rows} images is {2 * found.half_width:.4f} wide, so "
            f"that no sealed split can show a fall of {largest_fall:.4f}; allow {least:.4f} or more"
        )
    low, high = 0, _MOST_ROWS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _measured(encoder: Checksummed, split: ThreeDIdent, protocol: str) -> MeasuredR2:
    embeddings = embed(encoder, split, batch_size=_BATCH_SIZE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateEmbeddingWarning)  # the entry names what is degenerate
        scores = score(split, embeddings, protocol=protocol)
    r2 = scores.metrics["r2"]
    return MeasuredR2(r2.value.mean, (r2.high.mean - r2.low.mean) / 2, len(split), embeddings.shape[1])


def _check_belongs(entry: Entry, data: ThreeDIdent, sealed: ThreeDIdent, track: Track) -> None:
    if entry.kind != Kind.RECOMPUTED:
        raise VerificationError("a reported entry cannot be verified: hand in its embeddings first")
    faults = track.mismatches(data)
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
