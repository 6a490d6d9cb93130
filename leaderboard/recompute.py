"""Recomputation: an entry from the embeddings of a submission, with scores that are computed here."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ident3d.codec import to_json
from ident3d.factors import FACTORS, Factors
from ident3d.latents import sample_latents
from ident3d.metrics import METRICS, DegenerateEmbeddingWarning, MetricScores, protocol_for
from ident3d.storage.manifest import Manifest
from ident3d.submission import Spread, Submission, SubmissionScores, score_submission
from leaderboard.entry import Entry, Kind, Result
from leaderboard.tracks import Track, TrackError

if TYPE_CHECKING:
    from ident3d.dataset import ThreeDIdent

__all__ = ["differences", "images_sha256", "recompute"]

_SAME = 1e-6  # how far the sums of two machines may differ


def recompute(
    submission: Submission, data: ThreeDIdent, track: Track, added: str, *, extras: Collection[str] = ()
) -> Entry:
    """Score a submission on a track's split and make an entry of it, by the protocol for embeddings of its width.

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
    faults = track.mismatches(data)
    if faults:
        raise TrackError("\n  - ".join([f"{data.root} is not the dataset of the track {track.name}:", *faults]))
    split = _Split(data.latents.numpy(), data.ids, data.fingerprint, data.factors)
    return _entry(
        submission, split, track, added=added, pictures=images_sha256(data.provenance, track.split), extras=extras
    )


def differences(entry: Entry, submission: Submission, track: Track, data: ThreeDIdent | None = None) -> list[str]:
    """Score a submission once more, and return in what its entry differs from what is found.

    Args:
        entry: the recomputed entry.
        submission: the submission that it was made of.
        track: its track.
        data: the track's split. Where None, the latents are drawn again from the track's seed, and no image is needed:
            the fingerprint of the submission decides that it is of this dataset.

    Returns:
        A line for each difference; numbers that are closer than 1e-6 are the same.

    Raises:
        TrackError: if the dataset is not the track's; without one, if the track's latents follow from no seed.
        SubmissionError: if the submission does not fit the dataset.
    """
    if data is not None:
        faults = track.mismatches(data)
        if faults:
            raise TrackError("\n  - ".join([f"{data.root} is not the dataset of the track {track.name}:", *faults]))
        split = _Split(data.latents.numpy(), data.ids, data.fingerprint, data.factors)
    elif track.seed is None:
        raise TrackError(f"the latents of the track {track.name} follow from no seed: give its dataset with --data")
    else:
        latents = sample_latents(track.rows, track.seed, split=track.split)
        split = _Split(latents, np.arange(track.rows), submission.metadata.fingerprint, FACTORS)
    extras = tuple(name for name in entry.results if name in METRICS and METRICS[name].is_extra)
    found = to_json(_entry(submission, split, track, added=entry.added, pictures=entry.pictures_sha256, extras=extras))
    held = to_json(entry)
    for data_ in (found, held):
        for name in ("digest", "verification", "version"):  # of a maintainer, and of another day's ident3d
            del data_[name]
    return list(_differing(held, found, "entry"))


@dataclass(frozen=True)
class _Split:
    """What of a split scores depend on."""

    latents: npt.NDArray[np.float32]
    ids: npt.NDArray[np.int64]
    fingerprint: str
    factors: Factors


def _differing(held: Any, found: Any, where: str) -> Iterator[str]:
    if isinstance(held, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*held, *found]):
            yield from _differing(held.get(key), found.get(key), f"{where}.{key}")
    elif isinstance(held, float) and isinstance(found, float):
        if abs(held - found) > _SAME:
            yield f"{where} is {held:.6f} in the entry, {found:.6f} from the submission"
    elif held != found:
        yield f"{where} is {held!r} in the entry, {found!r} from the submission"


def _entry(
    submission: Submission, split: _Split, track: Track, *, added: str, pictures: str | None, extras: Collection[str]
) -> Entry:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateEmbeddingWarning)  # the entry says the same
        protocol = protocol_for(submission.embeddings[0].shape[1], split.ids)
        scores = score_submission(
            submission,
            split.latents,
            split.ids,
            split.fingerprint,
            factors=split.factors,
            protocol=protocol,
            extras=extras,
        )
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
        fingerprint=split.fingerprint,
        pictures_sha256=pictures,
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
