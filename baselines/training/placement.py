"""Where a run happens: device, precision, and processes.

Plain torch does this, started by torchrun if there are several processes. A framework would replace a few lines
(autocast, DistributedDataParallel, SyncBatchNorm). Without one, a checkpoint holds the modules' own names, and a
machine with a GPU needs nothing but torch.

A run that is resumed computes what it would have computed, from the same batches. On a CPU it is the same bit for bit,
with the same number of threads; on a GPU with ``deterministic`` only, because its fastest kernels add in any order.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from baselines.training.options import Precision
from ident3d.device import named_device, usable_device

__all__ = ["JointBatchNorm", "Placement", "is_first_process", "join_batch_norm", "place"]


class JointBatchNorm(_BatchNorm):
    """Batch norm whose training statistics are over the batches of all processes, which have the same size."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (B, C) or (B, C, ...) activations per channel."""
        if not self.training:
            return super().forward(x)
        others = [axis for axis in range(x.ndim) if axis != 1]
        count = x.numel() // x.shape[1] * dist.get_world_size()
        x_full = x.float()
        mean = _sum_over_processes(x_full.sum(others)) / count
        centred = x_full - _per_channel(mean, x)
        variance = _sum_over_processes(centred.square().sum(others)) / count
        self._remember(mean.detach(), variance.detach() * (count / (count - 1)))
        normalised = centred * _per_channel((variance + self.eps).rsqrt(), x)
        if self.affine:
            normalised = normalised * _per_channel(self.weight, x) + _per_channel(self.bias, x)
        return normalised.to(x.dtype)

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 - torch's name
        if input.ndim < 2:
            raise ValueError(f"batch norm takes (B, C) or (B, C, ...), not {tuple(input.shape)}")

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance, momentum)


def join_batch_norm(module: nn.Module, device: torch.device) -> nn.Module:
    """Return a module whose batch norm is over all processes; its state dict stays the same.

    Args:
        module: the module, whose batch norms of one, two and three dimensions are replaced in place; if it is a batch
            norm itself, its replacement is returned.
        device: device that it is trained on.
    """
    if device.type == "cuda":
        joined: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        return joined
    if isinstance(module, _BatchNorm):
        return _joint(module)
    for name, child in module.named_children():
        setattr(module, name, join_batch_norm(child, device))
    return module


def _joint(norm: _BatchNorm) -> JointBatchNorm:
    joint = JointBatchNorm(
        norm.num_features, norm.eps, norm.momentum, affine=norm.affine, track_running_stats=norm.track_running_stats
    )
    joint.load_state_dict(norm.state_dict())
    return joint


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    """Return (C,) numbers in the shape that goes with (B, C, ...) activations."""
    return values.view(-1, *(1,) * (x.ndim - 2))


def _sum_over_processes(values: Tensor) -> Tensor:
    total: Tensor = _SumOverProcesses.apply(values)
    return total


class _SumOverProcesses(torch.autograd.Function):
    """A sum over processes; its gradient is the sum of the gradients in all processes."""

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


@dataclass(frozen=True)
class Placement:
    """The device, precision and place among processes of this process.

    Attributes:
        device: device of the encoder.
        half: whether the encoder computes in bfloat16; its parameters stay in float32.
        tf32: whether a GPU's convolutions round their float32 factors to ten bits.
        deterministic: whether a GPU's kernels are chosen for giving the same bits again.
        rank: rank of this process.
        world_size: number of processes.
        local_size: number of processes on this machine.
        step_bytes: memory that a training step takes, estimated; see :func:`~baselines.training.memory.step_memory`.
    """

    device: torch.device
    half: bool = False
    rank: int = 0
    world_size: int = 1
    local_size: int = 1
    step_bytes: int = 0
    tf32: bool = False
    deterministic: bool = False

    @property
    def precision(self) -> Precision:
        """What the encoder computes in: "bfloat16", "tf32" or "float32"."""
        if self.half:
            return "bfloat16"
        return "tf32" if self.tf32 else "float32"

    @property
    def is_first(self) -> bool:
        """Whether this process writes and evaluates."""
        return self.rank == 0

    def autocast(self) -> torch.autocast:
        """Return the context to run the encoder in."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.half)


def is_first_process() -> bool:
    """Return whether this is the process that writes, prints and evaluates, if torchrun started several."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def place(device: str = "auto", precision: Precision = "auto", *, deterministic: bool = False) -> Iterator[Placement]:
    """Find the device and precision of this process, and join the others if torchrun started several.

    Within the context torch computes as the placement says: TF32 only where it is asked for, deterministic algorithms
    only, where they are.

    Args:
        device: "auto" (a CUDA device if one is available), "cpu", "cuda" or "cuda:N". Under torchrun, a CUDA device is
            that of the local rank.
        precision: "auto" is bfloat16 on a CUDA device that computes in it, and float32 elsewhere.
        deterministic: whether a CUDA device is to give the same bits again: torch then raises RuntimeError at an
            operation that cannot. On a CPU training always gives the same bits.

    Yields:
        The placement; the process group ends with the context.

    Raises:
        ValueError: if the device is not available, or does not compute in bfloat16.
    """
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = _device(device, int(os.environ.get("LOCAL_RANK", "0")) if world_size > 1 else None)
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", str(world_size)))
    is_cuda = chosen.type == "cuda"
    placement = Placement(
        chosen,
        _is_half(chosen, precision),
        rank,
        world_size,
        local_size,
        tf32=precision == "tf32",
        deterministic=deterministic and is_cuda,
    )
    with _arithmetic(placement):
        if world_size == 1:
            yield placement
            return
        dist.init_process_group("nccl" if is_cuda else "gloo")
        try:
            yield placement
        finally:
            dist.destroy_process_group()


@contextmanager
def _arithmetic(placement: Placement) -> Iterator[None]:
    """Let torch compute as a placement says, and as before afterwards."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32, torch.are_deterministic_algorithms_enabled()
    # Products of matrices stay in float32: distances of embeddings would lose their digits.
    cudnn.allow_tf32, matmul.allow_tf32 = placement.tf32, False
    if placement.deterministic:
        # cuBLAS reads it when it starts: one of two sizes of workspace with which it gives the same bits again.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(mode=True)
    try:
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = before[:2]
        torch.use_deterministic_algorithms(mode=before[2])


def _device(name: str, local_rank: int | None) -> torch.device:
    wanted = named_device(name)
    if wanted.type not in ("cpu", "cuda"):
        raise ValueError(f"unknown device {name!r} to train on; choose from auto, cpu, cuda, cuda:N")
    if wanted.type == "cuda" and local_rank is not None:
        wanted = torch.device("cuda", local_rank)
    device = usable_device(wanted)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def _is_half(device: torch.device, precision: Precision) -> bool:
    if precision == "tf32" and device.type != "cuda":
        raise ValueError(f"tf32 is a way of NVIDIA's GPUs to multiply, not of {device}; choose --precision float32")
    if precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    if precision == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ValueError(
            f"{torch.cuda.get_device_name(device)} does not compute in bfloat16; choose --precision float32"
        )
    return precision == "bfloat16"
