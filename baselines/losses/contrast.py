"""What the contrastive losses share: the choice of negatives, and the loss as a function of the costs.

For an anchor a with its positive b and negatives b_1 .. b_M, every loss is
``-log(exp(-c(a, b)) / (exp(-c(a, b)) + sum_j exp(-c(a, b_j))))``, with a cost c of a pair.
"""

import math
from typing import Any, Literal, TypedDict, cast, get_args

import torch
import torch.distributed as dist
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from baselines.losses.costs import Cost

__all__ = [
    "BatchNegatives",
    "ContrastOptions",
    "contrast",
    "gather_batch",
    "log_partition",
    "process_rank",
    "temperature_scale",
]

BatchNegatives = Literal["anchors", "positives", "both"]
Reduction = Literal["mean", "none"]

_NUMBERS_PER_BLOCK = {"cpu": 2**19, "cuda": 2**26}  # what fits into the cache of a CPU; what keeps a GPU busy
_NUMBERS_KEPT = {"cpu": 2**22, "cuda": 2**26}  # shares kept for the backward pass: 16 and 256 MiB in float32


def process_rank() -> int:
    """Return this process's rank; 0 outside a process group."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def gather_batch(z: Float[Tensor, "batch dim"]) -> Float[Tensor, "joined dim"]:
    """Join the batches of all processes in the order of their ranks.

    Each process gets the gradients of its own rows, summed over what all processes do with the joined batch. With a
    mean loss in each process and gradients averaged over processes, as DistributedDataParallel does, the result is the
    gradient of the joined batch's mean loss.

    Args:
        z: (B, d), of the same shape in every process.

    Returns:
        (world size * B, d); z itself outside a process group.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return z
    joined: Tensor = _GatherBatch.apply(z)
    return joined


class _GatherBatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.length = len(z)
        parts = [torch.empty_like(z, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, z.contiguous())
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.contiguous().clone()
        dist.all_reduce(total)
        start = dist.get_rank() * ctx.length
        return total[start : start + ctx.length]


def log_partition(
    cost: Cost,
    anchors: Float[Tensor, "batch dim"],
    candidates: Float[Tensor, "candidates dim"],
    own: Int64[Tensor, "batch own"] | None = None,
) -> Float[Tensor, " batch"]:
    """Return log sum_j exp(-cost(anchor_i, candidate_j)), without each anchor's own candidates.

    The matrix of costs is computed in blocks of anchors, so no (B, M, d) tensor is ever kept. Shares of the partition
    are kept for the backward pass up to 2,048 x 2,048 on a CPU and 8,192 x 8,192 on a GPU, and computed again if there
    are more. Only first derivatives are supported.

    A share below the square root of the smallest normal number, 1e-19 in float32 and 1e-154 in float64, counts as that
    number. Both are below the precision of any sum, and exponentials that underflow take ten times as long on a CPU.

    Args:
        cost: the cost of a pair.
        anchors: (B, d) float32 or float64.
        candidates: (M, d) of the same type.
        own: (B, k) int64 indices of the candidates that are not negatives of an anchor; None leaves out nothing.

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
            # An infinite largest logit must not turn the others into NaN.
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
        # A backward pass may run under autocast, which would multiply in half precision.
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
    """Return the number for the device of the anchors; every accelerator counts as a GPU."""
    return numbers.get(anchors.device.type, numbers["cuda"])


def _rows(own: Tensor | None, block: slice) -> Tensor | None:
    return None if own is None else own[block]


def _logits(cost: Cost, anchors: Tensor, candidates: Tensor, own: Tensor | None) -> Tensor:
    logits = cost.matrix(anchors, candidates).neg_()
    return logits if own is None else logits.scatter_(1, own, -torch.inf)


def _exp(exponents: Tensor) -> Tensor:
    """Return exponentials of exponents of at most about 0, none below the root of the smallest normal number."""
    return exponents.clamp_min_(math.log(torch.finfo(exponents.dtype).tiny) / 2).exp_()


class ContrastOptions(TypedDict, total=False):
    """Keyword options of every contrastive loss.

    Attributes:
        negatives: which of the batch's other items are negatives if none are given: the other anchors (default; they
            are independent draws from the marginal, as in the papers' equations), the other positives, or both. An
            anchor is never its own negative, and its positive never counts twice.
        symmetric: whether each positive is also an anchor, with its anchor as the positive; both directions are
            computed, each with its own negatives, and averaged. Default False.
        across_processes: whether the batches of all processes serve as negatives, gradients included; they must have
            the same shape. Default False.
        reduction: "mean" over the batch (default), or "none" for the loss of each item.
    """

    negatives: BatchNegatives
    symmetric: bool
    across_processes: bool
    reduction: Reduction


def contrast(
    cost: Cost,
    scale: float | Tensor,
    z: Tensor,
    z_pos: Tensor,
    z_neg: Tensor | None,
    *,
    options: ContrastOptions,
) -> Tensor:
    """Return the contrastive loss under a cost, computed in float32 or wider, even under autocast.

    Args:
        cost: the cost of a pair.
        scale: factor on the embeddings; a number, a scalar tensor or (d,).
        z: (B, d) embeddings of the anchors.
        z_pos: (B, d) embeddings of their positives.
        z_neg: (M, d) negatives of every anchor, (B, M, d) negatives of each anchor, or None for the other items.
        options: see :class:`ContrastOptions`.

    Returns:
        The scalar mean loss, or (B,) with the reduction "none".

    Raises:
        ValueError: if the shapes do not match, there is nothing to contrast with, or an option has an unknown value.
        TypeError: if the embeddings are not floating-point, or an option is unknown.
    """
    _check_options(options)
    _check_embeddings(z, z_pos, z_neg)
    with torch.autocast(z.device.type, enabled=False):
        views = [_full(z, z_pos), _full(z_pos, z)]
        given = None if z_neg is None else _full(z_neg, z)
        joined = [gather_batch(view) for view in views] if options.get("across_processes", False) else views
        if cost.translation_invariant:
            # Centred before anything is multiplied, which keeps the digits for the differences.
            centre = views[0].detach().mean(0)
            views, joined = [view - centre for view in views], [view - centre for view in joined]
            given = None if given is None else given - centre
        views, joined = [view * scale for view in views], [view * scale for view in joined]
        given = None if given is None else given * scale
        losses = _one_direction(cost, views, joined, given, options)
        if options.get("symmetric", False):
            losses = (losses + _one_direction(cost, views[::-1], joined[::-1], given, options)) / 2
        return losses if options.get("reduction", "mean") == "none" else losses.mean()


def temperature_scale(temperature: float | Tensor, power: float) -> float | Tensor:
    """Return the factor on embeddings that divides a cost of degree ``power`` by the temperature.

    Args:
        temperature: a positive number, or a scalar tensor that may be learned; the caller keeps it positive.
        power: the degree of homogeneity of the cost.

    Raises:
        ValueError: if the temperature is not positive and finite, or a tensor of more than one number.
    """
    if isinstance(temperature, Tensor):
        if temperature.numel() != 1:
            raise ValueError(f"expected one number as temperature, not a tensor of shape {tuple(temperature.shape)}")
        return _full(temperature, temperature).reshape(()) ** (-1 / power)
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"expected a positive, finite temperature, not {temperature}")
    return float(temperature ** (-1 / power))


def _one_direction(
    cost: Cost, views: list[Tensor], joined: list[Tensor], given: Tensor | None, options: ContrastOptions
) -> Tensor:
    anchors, positives = views
    if given is None:
        partition = _partition_over_batch(cost, anchors, joined, options)
    elif given.ndim == 2:
        partition = log_partition(cost, anchors, given)
    else:
        partition = torch.logsumexp(-cost.paired(anchors.unsqueeze(1), given), 1)
    # log(exp(-c) + exp(partition)) + c, written so that a small loss keeps its digits and a large one stays finite.
    return F.softplus(partition + cost.paired(anchors, positives), threshold=40.0)


def _partition_over_batch(cost: Cost, anchors: Tensor, joined: list[Tensor], options: ContrastOptions) -> Tensor:
    total = len(joined[0])
    if total < 2:
        raise ValueError("a batch of one pair has no negatives: give z_neg, or a batch of two or more pairs")
    columns = {"anchors": slice(0, 1), "positives": slice(1, 2), "both": slice(0, 2)}
    candidates = joined[columns[options.get("negatives", "anchors")]]
    first = process_rank() * len(anchors) if options.get("across_processes", False) else 0
    rows = torch.arange(first, first + len(anchors), device=anchors.device)
    own = torch.stack([rows + total * i for i in range(len(candidates))], dim=1)
    return log_partition(cost, anchors, torch.cat(candidates), own)


def _full(z: Tensor, partner: Tensor) -> Tensor:
    widest = torch.promote_types(torch.promote_types(z.dtype, partner.dtype), torch.float32)
    return z.to(widest)


def _check_embeddings(z: Tensor, z_pos: Tensor, z_neg: Tensor | None) -> None:
    for name, tensor in (("z", z), ("z_pos", z_pos), ("z_neg", z_neg)):
        if tensor is not None and not tensor.is_floating_point():
            raise TypeError(f"{name} must hold floating-point embeddings, not {tensor.dtype}")
    if z.ndim != 2 or z.shape != z_pos.shape or 0 in z.shape:
        raise ValueError(
            f"z and z_pos must be non-empty and of the same shape (B, d), not {tuple(z.shape)} and {tuple(z_pos.shape)}"
        )
    if z_neg is None:
        return
    length, dim = z.shape
    fits = z_neg.ndim == 2 or (z_neg.ndim == 3 and len(z_neg) == length)
    if not fits or z_neg.shape[-1] != dim or z_neg.shape[-2] == 0:
        raise ValueError(
            f"z_neg must be (M, {dim}), shared by all anchors, or ({length}, M, {dim}) with M of at least 1, "
            f"not {tuple(z_neg.shape)}"
        )


def _check_options(options: ContrastOptions) -> None:
    unknown = sorted(set(options) - set(ContrastOptions.__annotations__))
    if unknown:
        raise TypeError(f"unknown options {unknown}; choose from {sorted(ContrastOptions.__annotations__)}")
    for name, kind in (("negatives", BatchNegatives), ("reduction", Reduction)):
        value = cast("dict[str, object]", options).get(name)
        if value is not None and value not in get_args(kind):
            raise ValueError(f"unknown {name} {value!r}; choose from {', '.join(get_args(kind))}")
