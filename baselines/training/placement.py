"""Where a run happens: device, precision, and processes.

Plain torch does this, started by torchrun where there are several processes. What a run needs of a framework is a few
lines (autocast, DistributedDataParallel, SyncBatchNorm), and without one a checkpoint holds the names of the modules
themselves, a resumed run is the same bit for bit by construction, and a GPU machine needs nothing beside torch.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist

__all__ = ["Placement", "Precision", "place"]

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class Placement:
    """The device, precision and place among processes of this process.

    Attributes:
        device: where the encoder is trained.
        half: whether the encoder computes in bfloat16; its parameters stay in float32.
        rank: this process's number.
        world_size: number of processes.
    """

    device: torch.device
    half: bool = False
    rank: int = 0
    world_size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes and evaluates."""
        return self.rank == 0

    def autocast(self) -> torch.autocast:
        """Return the context that the encoder is run in."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.half)


@contextmanager
def place(device: str = "auto", precision: Precision = "auto") -> Iterator[Placement]:
    """Find this process's place, and join the others where torchrun started several.

    Args:
        device: "auto" (a CUDA device where there is one), "cpu", "cuda" or "cuda:N". Under torchrun a CUDA device is
            the one of this process's local rank.
        precision: "auto" is bfloat16 on a CUDA device that computes in it, and float32 elsewhere.

    Yields:
        The placement; the processes part again afterwards.

    Raises:
        ValueError: if there is no such device, or it does not compute in bfloat16.
    """
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = _device(device, int(os.environ.get("LOCAL_RANK", "0")) if world_size > 1 else None)
    placement = Placement(chosen, _is_half(chosen, precision), rank, world_size)
    if world_size == 1:
        yield placement
        return
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield placement
    finally:
        dist.destroy_process_group()


def _device(name: str, local_rank: int | None) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if name == "auto":
        name = "cuda" if has_cuda else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"a device is auto, cpu, cuda or cuda:N, not {name!r}") from error
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise ValueError(f"a device is auto, cpu, cuda or cuda:N, not {name!r}")
    if not has_cuda:
        raise ValueError(f"the device {name} was asked for, and torch sees no CUDA device; choose --device cpu")
    number = local_rank if local_rank is not None else (device.index or 0)
    if number >= torch.cuda.device_count():
        raise ValueError(f"there is no cuda:{number}: torch sees {torch.cuda.device_count()} CUDA devices")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def _is_half(device: torch.device, precision: Precision) -> bool:
    if precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    if precision == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ValueError(
            f"{torch.cuda.get_device_name(device)} does not compute in bfloat16; choose --precision float32"
        )
    return precision == "bfloat16"
