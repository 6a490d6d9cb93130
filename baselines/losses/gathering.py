"""Batches joined across processes, gradients included."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["gather_batch", "process_rank"]


def process_rank() -> int:
    """Return this process's rank; 0 outside a process group."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def gather_batch(z: Tensor) -> Tensor:
    """Join the batches of all processes in the order of their ranks.

    The gradient of what any process does with the joined batch comes back to the process that its rows came from,
    summed. With a mean loss in each process and gradients averaged over processes, as DistributedDataParallel does,
    the result is the gradient of the joined batch's mean loss.

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
