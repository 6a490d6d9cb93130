"""Example calls for losses."""

import torch

from baselines.losses import AnInfoNCE, DeltaInfoNCE, InfoNCE, Loss, SupervisedMSE
from baselines.losses.costs import NegativeDot

HOME = "baselines.losses"


def pairs():
    return tuple(torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)))


def negatives(*shape):
    return torch.ones(*shape, 3)


EXAMPLES = {
    f"{HOME}.loss.Loss.precision": lambda: (Loss(),),
    f"{HOME}.info_nce.info_nce": lambda: (*pairs(), negatives(7), torch.tensor(0.5)),
    f"{HOME}.info_nce.InfoNCE.forward": lambda: (InfoNCE(reduction="none"), *pairs()),
    f"{HOME}.delta_info_nce.delta_info_nce": lambda: (*pairs(), negatives(5, 7), 3.0),
    f"{HOME}.delta_info_nce.DeltaInfoNCE.forward": lambda: (DeltaInfoNCE(symmetric=True), *pairs()),
    f"{HOME}.an_info_nce.an_info_nce": lambda: (*pairs(), None, torch.ones(3)),
    f"{HOME}.an_info_nce.AnInfoNCE.forward": lambda: (AnInfoNCE(3), *pairs()),
    f"{HOME}.an_info_nce.AnInfoNCE.precision": lambda: (AnInfoNCE(3),),
    f"{HOME}.supervised.supervised_mse": pairs,
    f"{HOME}.supervised.SupervisedMSE.forward": lambda: (SupervisedMSE(), *pairs()),
    f"{HOME}.contrast.gather_batch": lambda: (pairs()[0],),
    f"{HOME}.contrast.log_partition": lambda: (NegativeDot(), *pairs(), torch.arange(5)[:, None]),
}
