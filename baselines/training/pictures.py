"""Pictures on their way into an encoder."""

import torch
from torch import Tensor

__all__ = ["as_input"]


def as_input(*pictures: Tensor, device: torch.device) -> Tensor:
    """Return pictures as one batch of an encoder's input.

    Args:
        *pictures: each (B, 3, H, W) uint8, on any device.
        device: where the encoder is.

    Returns:
        (sum of B, 3, H, W) float32 in [0, 1] on the device, channels last in memory, which convolutions like.
    """
    moved = [part.to(device, non_blocking=True) for part in pictures]
    joined = moved[0] if len(moved) == 1 else torch.cat(moved)
    return joined.to(torch.float32, memory_format=torch.channels_last).div_(255)
