"""Changes of a picture's colours, each picture of a batch by its own amount.

Pictures are (B, 3, H, W) float RGB in [0, 1]; amounts broadcast against them. The formulas are those of torchvision's
colour jitter.
"""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["CHANGES", "brightness", "contrast", "hue", "luminance", "saturation"]


def luminance(pictures: Tensor) -> Tensor:
    """Return (B, 1, H, W): the grey value, weighted as in ITU-R 601."""
    weights = pictures.new_tensor([0.2989, 0.587, 0.114])[:, None, None]
    return (pictures * weights).sum(dim=1, keepdim=True)


def brightness(pictures: Tensor, factor: Tensor) -> Tensor:
    """Multiply every value by ``factor``."""
    return _blend(pictures, torch.zeros_like(pictures), factor)


def contrast(pictures: Tensor, factor: Tensor) -> Tensor:
    """Scale values about the picture's mean grey by ``factor``."""
    return _blend(pictures, luminance(pictures).mean(dim=(1, 2, 3), keepdim=True), factor)


def saturation(pictures: Tensor, factor: Tensor) -> Tensor:
    """Scale values about the pixel's grey by ``factor``."""
    return _blend(pictures, luminance(pictures), factor)


def hue(pictures: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue of every pixel by ``turn``, in turns of the circle, keeping HSV saturation and value."""
    value, brightest = pictures.max(dim=1, keepdim=True)
    chroma = value - pictures.amin(dim=1, keepdim=True)
    red, green, blue = pictures[:, 0:1], pictures[:, 1:2], pictures[:, 2:3]
    # Sixths of a turn, counted from the brightest channel.
    offsets = torch.cat([green - blue, blue - red, red - green], dim=1).gather(1, brightest)
    sextant = offsets / chroma.clamp(min=torch.finfo(pictures.dtype).tiny) + 2 * brightest + 6 * turn
    # A channel falls from full to nothing between one and two sixths of a turn away from its own hue.
    own = pictures.new_tensor([5.0, 3.0, 1.0])[:, None, None]
    distance = (own + sextant) % 6
    return value - chroma * torch.minimum(distance, 4 - distance).clamp(0, 1)


def _blend(pictures: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return (factor * pictures + (1 - factor) * other).clamp(0, 1)


CHANGES: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (brightness, contrast, saturation, hue)
"""The changes of SimCLR's colour jitter."""
