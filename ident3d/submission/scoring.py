"""Scores of a submission: its embeddings joined to a dataset by id, scored for each seed, and summed up."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ident3d.errors import SubmissionError
from ident3d.factors import Factors
from ident3d.metrics import DEFAULT_PROTOCOL, Scores
from ident3d.metrics import score as score_embeddings
from ident3d.submission.submission import Submission, named

if TYPE_CHECKING:
    from ident3d.dataset import ThreeDIdent

__all__ = ["Spread", "SubmissionScores", "score_on", "score_submission"]


@dataclass(frozen=True)
class Spread:
    """A score over the seeds of an entry.

    Attributes:
        mean: mean over seeds.
        std: standard deviation over seeds, with N - 1; None for a single seed.
    """

    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Collection[float]) -> Spread:
        """Return mean and standard deviation of one or more values."""
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return cls(mean, None)
        return cls(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)))

    def __str__(self) -> str:
        return f"{self.mean:.4f}" if self.std is None else f"{self.mean:.4f} ± {self.std:.4f}"


@dataclass(frozen=True)
class SubmissionScores:
    """The scores of a submission.

    Attributes:
        seeds: the seeds of the training runs.
        scores: the scores of each.
    """

    seeds: tuple[int, ...]
    scores: tuple[Scores, ...]

    @property
    def summary(self) -> dict[str, Spread]:
        """Each metric's mean over factors, over the seeds."""
        return {
            name: Spread.of([scores.metrics[name].value.mean for scores in self.scores])
            for name in self.scores[0].metrics
        }

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain data for strict JSON."""
        return {
            "summary": {name: {"mean": spread.mean, "std": spread.std} for name, spread in self.summary.items()},
            "seeds": [
                {"seed": seed, "scores": scores.to_json()} for seed, scores in zip(self.seeds, self.scores, strict=True)
            ],
        }

    def table(self) -> str:
        """Return the tables of all seeds, and below several their mean and standard deviation."""
        tables = [f"seed {seed}\n{scores.table()}" for seed, scores in zip(self.seeds, self.scores, strict=True)]
        if len(tables) > 1:
            lines = [f"{name}: {spread}" for name, spread in self.summary.items()]
            tables.append("\n".join([f"mean and standard deviation of {len(self.seeds)} seeds", *lines]))
        return "\n\n".join(tables)


def score_submission(
    submission: Submission,
    latents: npt.NDArray[np.float32],
    ids: npt.NDArray[np.int64],
    fingerprint: str,
    *,
    factors: Factors | None = None,
    protocol: str = DEFAULT_PROTOCOL,
    extras: Collection[str] = (),
    ceiling: Scores | None = None,
) -> SubmissionScores:
    """Score a submission against the latents of a split.

    Args:
        submission: the submission.
        latents: (N, k) raw latents of the split.
        ids: (N,) the ids of its samples.
        fingerprint: fingerprint of the split.
        factors: what the columns of the latents are.
        protocol: name of the protocol.
        extras: names of further metrics; see :func:`ident3d.metrics.score`.
        ceiling: scores of a supervised encoder.

    Returns:
        The scores of every seed.

    Raises:
        SubmissionError: if the submission is for another dataset, or lacks samples, or has unknown ones; everything
            that is wrong at once.
    """
    faults = []
    if submission.metadata.fingerprint != fingerprint:
        faults.append(
            f"it embeds the split with the fingerprint {submission.metadata.fingerprint}, but this one has "
            f"{fingerprint}: embed this dataset's split, or score against the dataset that was embedded"
        )
    missing, unknown = np.setdiff1d(ids, submission.ids), np.setdiff1d(submission.ids, ids)
    if len(missing):
        faults.append(f"{named(missing, 'sample is', 'samples are')} missing: every sample of the split is needed")
    if len(unknown):
        faults.append(f"{named(unknown, 'id is', 'ids are')} of no sample in the split")
    if faults:
        raise SubmissionError("\n  - ".join(["the submission does not fit the dataset:", *faults]))
    scores = tuple(
        score_embeddings(
            latents,
            run,
            submission.ids,
            latent_ids=ids,
            factors=factors,
            protocol=protocol,
            extras=extras,
            ceiling=ceiling,
            fingerprint=fingerprint,
        )
        for run in submission.embeddings
    )
    return SubmissionScores(submission.metadata.seeds, scores)


def score_on(
    submission: Submission,
    data: ThreeDIdent,
    *,
    protocol: str = DEFAULT_PROTOCOL,
    extras: Collection[str] = (),
    ceiling: Scores | None = None,
) -> SubmissionScores:
    """Score a submission on a dataset's split; see :func:`score_submission`."""
    return score_submission(
        submission,
        data.latents.numpy(),
        data.ids,
        data.fingerprint,
        factors=data.factors,
        protocol=protocol,
        extras=extras,
        ceiling=ceiling,
    )
