"""Losses, as functions of embeddings and as thin modules; one idea a file."""

from baselines.losses.an_info_nce import AnInfoNCE, an_info_nce
from baselines.losses.contrast import BatchNegatives, ContrastOptions, gather_batch
from baselines.losses.delta_info_nce import DeltaInfoNCE, delta_info_nce
from baselines.losses.info_nce import InfoNCE, info_nce
from baselines.losses.supervised import SupervisedMSE, supervised_mse

__all__ = [
    "AnInfoNCE",
    "BatchNegatives",
    "ContrastOptions",
    "DeltaInfoNCE",
    "InfoNCE",
    "SupervisedMSE",
    "an_info_nce",
    "delta_info_nce",
    "gather_batch",
    "info_nce",
    "supervised_mse",
]
