"""Losses, as functions of embeddings and as thin modules; one idea a file.

:data:`LOSSES` holds those that a recipe can name. One more is a class derived from :class:`Loss` and an entry:
``LOSSES.register("mine", Mine)``; or no entry, and it is named as ``package.module:Mine``.
"""

from baselines.losses.an_info_nce import AnInfoNCE, an_info_nce
from baselines.losses.contrast import BatchNegatives, ContrastOptions, gather_batch
from baselines.losses.delta_info_nce import DeltaInfoNCE, delta_info_nce
from baselines.losses.info_nce import InfoNCE, info_nce
from baselines.losses.loss import Loss
from baselines.losses.supervised import SupervisedMSE, supervised_mse
from ident3d.registry import Registry

__all__ = [
    "LOSSES",
    "AnInfoNCE",
    "BatchNegatives",
    "ContrastOptions",
    "DeltaInfoNCE",
    "InfoNCE",
    "Loss",
    "SupervisedMSE",
    "an_info_nce",
    "delta_info_nce",
    "find_loss",
    "gather_batch",
    "info_nce",
    "supervised_mse",
]

LOSSES: Registry[type[Loss]] = Registry(
    "loss",
    {"supervised": SupervisedMSE, "info_nce": InfoNCE, "delta_info_nce": DeltaInfoNCE, "an_info_nce": AnInfoNCE},
)
"""The losses by name."""


def find_loss(name: str) -> type[Loss]:
    """Return a loss by its name in :data:`LOSSES`, or as ``package.module:Class``.

    Raises:
        ValueError: if there is none, or it is not a class derived from :class:`Loss`.
    """
    found: object = LOSSES.find(name)
    if not (isinstance(found, type) and issubclass(found, Loss)):
        raise ValueError(f"the loss {name!r} is {found!r}, expected a class derived from baselines.losses.Loss")  # noqa: TRY004 - a name is wrong
    return found
