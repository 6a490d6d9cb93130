"""The log partition over negatives, in blocks: memory stays flat however large the batch."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from baselines.losses.costs import Cost

__all__ = ["log_partition"]

_NUMBERS_PER_BLOCK = {"cpu": 2**19, "cuda": 2**26}  # what a CPU's cache holds; what keeps a GPU busy
_NUMBERS_KEPT = {"cpu": 2**22, "cuda": 2**26}  # shares that are kept for the backward pass: 16 and 256 MiB in float32


def log_partition(cost: Cost, anchors: Tensor, candidates: Tensor, own: Tensor | None = None) -> Tensor:
    """Return log sum_j exp(-cost(anchor_i, candidate_j)), the anchor's own candidates left out.

    The matrix of costs is walked in blocks of anchors, so no (B, M, d) tensor is ever kept. Shares of the partition are
    kept for the backward pass up to 2,048 x 2,048 of them on a CPU and 8,192 x 8,192 on a GPU, and computed again where
    there are more. First derivatives only.

    A candidate's share of less than the square root of the smallest normal number, 1e-19 in float32 and 1e-154 in
    float64, counts as that much. No sum has digits for either, and exponentials that underflow take ten times as long
    on a CPU.

    Args:
        cost: the cost of a pair.
        anchors: (B, d) float32 or float64.
        candidates: (M, d) of the same type.
        own: (B, k) int64 indices of the candidates that are no negatives of an anchor; None leaves none out.

    Returns:
        (B,) of the same type.
    """
    value: Tensor = _LogPartition.apply(anchors, candidates, own, cost)
    return value


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchors: Tensor, candidates: Tensor, own: Tensor | None, cost: Cost) -> Tensor:
        rows = _rows_per_block(cost, anchors, candidates)
        value = anchors.new_empty(len(anchors))
        keeps = any(ctx.needs_input_grad) and len(anchors) * len(candidates) <= _of(_NUMBERS_KEPT, anchors)
        kept: list[Tensor] = []
        for start in range(0, len(anchors), rows):
            block = slice(start, start + rows)
            logits = _logits(cost, anchors[block], candidates, _rows(own, block))
            # A largest logit that is infinite is not to turn the others into NaN.
            largest = logits.amax(1, keepdim=True).nan_to_num_(nan=math.nan)
            shares = _exp(logits.sub_(largest))
            total = shares.sum(1, keepdim=True)
            value[block] = total.log().add_(largest).squeeze(1)
            if keeps:
                kept.append(shares.div_(total))
        ctx.save_for_backward(anchors, candidates, own, value, *kept)
        ctx.cost, ctx.rows = cost, rows
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        anchors, candidates, own, value, *kept = ctx.saved_tensors
        grad_anchors, grad_candidates = torch.empty_like(anchors), torch.zeros_like(candidates)
        # A backward pass may be called where autocast is on, which would multiply in half precision.
        with torch.autocast(anchors.device.type, enabled=False):
            for number, start in enumerate(range(0, len(anchors), ctx.rows)):
                block = slice(start, start + ctx.rows)
                slopes = -grad[block].unsqueeze(1)
                if kept:
                    weights = kept[number] * slopes
                else:
                    logits = _logits(ctx.cost, anchors[block], candidates, _rows(own, block))
                    weights = _exp(logits.sub_(value[block].unsqueeze(1))).mul_(slopes)
                grad_anchors[block], part = ctx.cost.pull(weights, anchors[block], candidates)
                grad_candidates += part
        return grad_anchors, grad_candidates, None, None


def _rows_per_block(cost: Cost, anchors: Tensor, candidates: Tensor) -> int:
    return max(1, _of(_NUMBERS_PER_BLOCK, anchors) // (len(candidates) * cost.numbers_per_pair(anchors.shape[1])))


def _of(numbers: dict[str, int], anchors: Tensor) -> int:
    """Return the number for the anchors' device; any accelerator counts as a GPU."""
    return numbers.get(anchors.device.type, numbers["cuda"])


def _rows(own: Tensor | None, block: slice) -> Tensor | None:
    return None if own is None else own[block]


def _logits(cost: Cost, anchors: Tensor, candidates: Tensor, own: Tensor | None) -> Tensor:
    logits = cost.matrix(anchors, candidates).neg_()
    return logits if own is None else logits.scatter_(1, own, -torch.inf)


def _exp(exponents: Tensor) -> Tensor:
    """Return the exponentials of exponents that are at most about 0, none smaller than the root of the smallest."""
    return exponents.clamp_min_(math.log(torch.finfo(exponents.dtype).tiny) / 2).exp_()
