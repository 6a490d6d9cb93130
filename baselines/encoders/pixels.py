"""The image itself as an embedding."""

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Pixels"]


class Pixels(nn.Module):
    """The identity, coarsened: the mean colour of each cell of a grid laid over the image.

    All 12,288 numbers of a 64x64 image would be more than the rows that an affine map is fitted on. A grid of 8x8
    cells leaves 192, few enough to be scored on 2,000 images.

    Args:
        cells: cells a side.
    """

    def __init__(self, cells: int = 8) -> None:
        super().__init__()
        if cells < 1:
            raise ValueError(f"a grid has at least one cell a side, not {cells}")
        self.cells = cells

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, 3, H, W) images to (B, 3 cells^2) means: all cells of red, then of green, then of blue."""
        return F.adaptive_avg_pool2d(x, self.cells).flatten(1)
