"""A contrastive loss written as slowly and plainly as possible."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

SlowLoss = Callable[..., Tensor]


def _slow_loss(cost, z, z_pos, z_neg=None, *, negatives="anchors", symmetric=False):
    directions = [(z, z_pos), (z_pos, z)] if symmetric else [(z, z_pos)]
    losses = []
    for i in range(len(z)):
        per_direction = []
        for anchors, positives in directions:
            if z_neg is not None:
                others = list(z_neg if z_neg.ndim == 2 else z_neg[i])
            else:
                others = [anchors[j] for j in range(len(z)) if j != i and negatives in {"anchors", "both"}]
                others += [positives[j] for j in range(len(z)) if j != i and negatives in {"positives", "both"}]
            numerator = torch.exp(-cost(anchors[i], positives[i]))
            denominator = numerator + sum(torch.exp(-cost(anchors[i], other)) for other in others)
            per_direction.append(-torch.log(numerator / denominator))
        losses.append(sum(per_direction) / len(per_direction))
    return torch.stack(losses)


@pytest.fixture
def slow_loss() -> SlowLoss:
    """The loss of each item: ``slow_loss(cost, z, z_pos, z_neg=None, *, negatives="anchors", symmetric=False)``."""
    return _slow_loss
