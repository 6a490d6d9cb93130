"""Batch norm over the batches of all processes.

The statistics of a process's own batch would tell its pictures, a positive pair's among them, from the negatives of
other processes. On GPUs torch's SyncBatchNorm joins them; this does the same on CPUs.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["JointBatchNorm2d", "join_batch_norm"]


class JointBatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose statistics in training are those of the batches of all processes, which are equally large."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (B, C, H, W) activations per channel."""
        if not self.training:
            return super().forward(x)
        count = x.numel() // x.shape[1] * dist.get_world_size()
        x_full = x.float()
        mean = _sum_over_processes(x_full.sum((0, 2, 3))) / count
        centred = x_full - mean[:, None, None]
        variance = _sum_over_processes(centred.square().sum((0, 2, 3))) / count
        self._remember(mean.detach(), variance.detach() * (count / (count - 1)))
        normalised = centred * (variance + self.eps).rsqrt()[:, None, None]
        if self.affine:
            normalised = normalised * self.weight[:, None, None] + self.bias[:, None, None]
        return normalised.to(x.dtype)

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance, momentum)


def join_batch_norm(module: nn.Module, device: torch.device) -> nn.Module:
    """Return a module whose batch norm is over all processes; names and tensors of its state stay as they are.

    Args:
        module: the module, whose batch norms are replaced where they are.
        device: where it is trained.
    """
    if device.type == "cuda":
        joined: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        return joined
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, _joint(child))
        else:
            join_batch_norm(child, device)
    return module


def _joint(norm: nn.BatchNorm2d) -> JointBatchNorm2d:
    joint = JointBatchNorm2d(
        norm.num_features, norm.eps, norm.momentum, affine=norm.affine, track_running_stats=norm.track_running_stats
    )
    joint.load_state_dict(norm.state_dict())
    return joint


def _sum_over_processes(values: Tensor) -> Tensor:
    total: Tensor = _SumOverProcesses.apply(values)
    return total


class _SumOverProcesses(torch.autograd.Function):
    """A sum over processes. What any process does with it comes back to all of them, who each had a part in it."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:  # noqa: ARG004 - torch's signature
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ARG004 - torch's signature
        total = grad.contiguous().clone()
        dist.all_reduce(total)
        return total
