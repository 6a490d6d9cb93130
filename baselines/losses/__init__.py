"""Losses, as functions of embeddings and as thin modules around them.

:data:`LOSSES` holds the losses that a recipe can name. Your own is a class derived from :class:`Loss`, named as
``package.module:Mine``, or by a short name after ``LOSSES.register("mine", Mine)``.
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
        ValueError: if the name is unknown, or what it names is not a class derived from :class:`Loss`.
    """
    found: object = LOSSES.find(name)
    if not (isinstance(found, type) and issubclass(found, Loss)):
        raise ValueError(f"the loss {name!r} is {found!r}, expected a class derived from baselines.losses.Loss")  # noqa: TRY004 - a name is wrong
    return found
