"""Images as an encoder takes them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Normalise"]


@dataclass(frozen=True)
class Normalise:
    """A transform of (B, 3, H, W) uint8 images to floats: (x / 255 - mean) / std for each channel, where they are.

    Attributes:
        mean: one for each channel, in units of full brightness.
        std: one for each channel, positive.
        dtype: of the result.
    """

    mean: Sequence[float] = (0.5, 0.5, 0.5)
    std: Sequence[float] = (0.5, 0.5, 0.5)
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(s > 0 for s in self.std):
            raise ValueError(f"expected a mean and a positive std for each channel, not {self.mean} and {self.std}")

    def __call__(self, images: Tensor) -> Tensor:
        """Return (B, 3, H, W) normalised floats with the memory layout of the (B, 3, H, W) uint8 images."""
        mean = torch.tensor(self.mean, device=images.device)[:, None, None]
        std = torch.tensor(self.std, device=images.device)[:, None, None]
        # In place: a batch of floats is too large for the caches, so every copy of it costs as much as the arithmetic.
        return images.float().sub_(255 * mean).div_(255 * std).to(self.dtype)
