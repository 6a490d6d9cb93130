"""Submissions: embeddings that somebody hands in to be scored."""

from ident3d.submission.scoring import Spread, SubmissionScores, score_on, score_submission
from ident3d.submission.submission import Compute, Metadata, Role, Submission

__all__ = [
    "Compute",
    "Metadata",
    "Role",
    "Spread",
    "Submission",
    "SubmissionScores",
    "score_on",
    "score_submission",
]
