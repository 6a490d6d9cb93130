"""Images that tell which row they are of, for tests of pair streams."""

import torch
from torch import Tensor

from ident3d import FACTORS, Factors, sample_latents


class NumberedImages:
    """N images whose first pixel spells the row, and whose exact positives spell it inverted."""

    def __init__(self, n: int, *, pairs: bool = False, size: int = 8, factors: Factors = FACTORS) -> None:
        self.size = size
        self.factors = factors
        self.latents = torch.from_numpy(sample_latents(n, seed=1, factors=factors))
        self.positives = InvertedImages(self) if pairs else None

    def __len__(self) -> int:
        return len(self.latents)

    def pixels(self, rows: Tensor) -> Tensor:
        images = torch.zeros(len(rows), self.size, self.size, 3, dtype=torch.uint8, device="cpu")
        images[:, 0, 0, 0], images[:, 0, 0, 1] = (rows % 256).to(torch.uint8), (rows // 256).to(torch.uint8)
        return images


class InvertedImages:
    """The exact positives of numbered images."""

    def __init__(self, data: NumberedImages) -> None:
        self.data = data
        self.factors = data.factors
        self.latents = data.latents.flip(1).contiguous()

    def __len__(self) -> int:
        return len(self.data)

    def pixels(self, rows: Tensor) -> Tensor:
        return 255 - self.data.pixels(rows)


def as_floats(x: Tensor) -> Tensor:
    """A transform that other processes can import: to floats in [-1, 1]."""
    return x.float() / 127.5 - 1


def rows_of(x: Tensor) -> Tensor:
    """Read the rows back from (B, 3, H, W) images."""
    return x[:, 0, 0, 0].long() + 256 * x[:, 1, 0, 0].long()
