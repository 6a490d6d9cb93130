"""Scores of an encoder during training."""

import logging
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from baselines.pairs import DatasetPart
from ident3d.embedding import embed
from ident3d.factors import Factors
from ident3d.metrics import DEFAULT_PROTOCOL, point_scores

__all__ = ["check_can_evaluate", "evaluate", "score_factors"]

_LOG = logging.getLogger(__name__)


def score_factors(
    latents: Tensor | npt.NDArray[np.float32],
    embeddings: Tensor | npt.NDArray[np.float32],
    *,
    factors: Factors,
    ids: npt.NDArray[np.int64] | None = None,
    protocol: str = DEFAULT_PROTOCOL,
) -> dict[str, dict[str, float]]:
    """Score embeddings by R2 and MCC, the metrics that are watched during training.

    Degenerate embeddings are a stage that trainings go through: they are logged, and no warning.

    Args:
        latents: (N, k) latents.
        embeddings: (N, d) embeddings of the same rows.
        factors: the factors that the columns of the latents hold.
        ids: (N,) ids that determine the halves; the row numbers where None.
        protocol: name of the protocol.

    Returns:
        "r2" and "mcc", each with a number per factor by name.

    Raises:
        ValueError: if an embedding is not finite, or there are too few rows.
    """
    found, faults = point_scores(latents, embeddings, ids, factors=factors, protocol=protocol)
    if faults:
        _LOG.info("the embeddings are degenerate: %s", "; ".join(faults))
    return {"r2": found["r2"].per_factor, "mcc": found["mcc_pearson"].per_factor}


def check_can_evaluate(part: DatasetPart) -> None:
    """Raise ValueError if a part is too small to be scored: before a training, not at its first evaluation."""
    try:
        point_scores(part.latents, part.latents, part.rows.numpy(), factors=part.factors)
    except ValueError as error:
        raise ValueError(f"validation on {len(part)} images: {error}; hold out more with --validation") from error


def evaluate(
    encoder: nn.Module, part: DatasetPart, device: torch.device, groups: Mapping[str, Sequence[int]] | None = None
) -> dict[str, float]:
    """Score an encoder on a part of a dataset, in evaluation mode.

    Args:
        encoder: the encoder.
        part: the part.
        device: where the encoder is.
        groups: columns of groups of factors whose means are returned too, by names that no factor has.

    Returns:
        "r2" and "mcc", means over the factors, and "r2/NAME" and "mcc/NAME" of each group and factor.
    """
    embeddings = embed(encoder, part, device=device)
    found = score_factors(part.latents, embeddings, factors=part.factors, ids=part.rows.numpy())
    scores = {name: fmean(per_factor.values()) for name, per_factor in found.items()}
    for name, per_factor in found.items():
        values = list(per_factor.values())
        scores |= {f"{name}/{group}": fmean(values[k] for k in own) for group, own in (groups or {}).items()}
        scores |= {f"{name}/{factor}": value for factor, value in per_factor.items()}
    return scores
