"""Recomputation: an entry from the embeddings of a submission, with scores that are computed here."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection
from statistics import fmean
from typing import TYPE_CHECKING

from ident3d.metrics import DegenerateEmbeddingWarning, MetricScores
from ident3d.storage.manifest import Manifest
from ident3d.submission import Spread, Submission, SubmissionScores, score_on
from leaderboard.entry import Entry, Kind, Result
from leaderboard.tracks import Track, TrackError

if TYPE_CHECKING:
    from ident3d.dataset import ThreeDIdent

__all__ = ["images_sha256", "recompute"]


def recompute(
    submission: Submission, data: ThreeDIdent, track: Track, added: str, *, extras: Collection[str] = ()
) -> Entry:
    """Score a submission on a track's split and make an entry of it.

    Args:
        submission: the submission.
        data: the split.
        track: the track.
        added: the day, as YYYY-MM-DD.
        extras: names of further metrics for the entry to hold, see :func:`ident3d.metrics.score`; none above 1.

    Returns:
        The entry, with its digest.

    Raises:
        TrackError: if the dataset is not the track's; everything in which it differs is named.
        SubmissionError: if the submission does not fit the dataset.
    """
    faults = track.mismatches(data.provenance, data.fingerprint)
    if faults:
        raise TrackError("\n  - ".join([f"{data.root} is not the dataset of the track {track.name}:", *faults]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateEmbeddingWarning)  # the entry says the same
        scores = score_on(submission, data, extras=extras)
    about = submission.metadata
    first = scores.scores[0]
    return Entry(
        kind=Kind.RECOMPUTED,
        track=track.name,
        name=about.name,
        revision=about.revision,
        added=added,
        authors=about.authors,
        method=about.method,
        encoder=about.encoder,
        training_data=about.training_data,
        conditional=about.conditional,
        results={name: _result(scores, name) for name in first.metrics},
        role=about.role,
        links=about.links,
        steps=about.steps,
        compute=about.compute,
        runs=len(scores.scores),
        claimed=about.claimed,
        protocol=first.protocol,
        version=first.version,
        fingerprint=data.fingerprint,
        pictures_sha256=images_sha256(data.provenance, track.split),
        embeddings_sha256=submission.embeddings_sha256,
        width=first.width,
        warnings=tuple(dict.fromkeys(text for one in scores.scores for text in one.warnings)),
    ).sealed()


def images_sha256(manifest: Manifest, split: str) -> str | None:
    """Return a checksum of the checksums of the split's shards; None where there are none."""
    sums = [record.sha256 for record in manifest.shards if record.split == split]
    return hashlib.sha256("".join(sums).encode()).hexdigest() if sums else None


def _result(scores: SubmissionScores, name: str) -> Result:
    runs: list[MetricScores] = [one.metrics[name] for one in scores.scores]
    spread = Spread.of([run.value.mean for run in runs])
    first = runs[0].value
    return Result(
        mean=spread.mean,
        std=spread.std,
        low=fmean(run.low.mean for run in runs),
        high=fmean(run.high.mean for run in runs),
        chance=fmean(run.chance.mean for run in runs),
        per_group={group: fmean(run.value.per_group[group] for run in runs) for group in first.per_group},
        per_factor={factor: fmean(run.value.per_factor[factor] for run in runs) for factor in first.per_factor},
    )
