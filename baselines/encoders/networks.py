"""The encoders of the baselines: an MLP for mixed latents; for images a ResNet, a CNN and the coarse image itself."""

import itertools
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from baselines.encoders.outputs import OutputSpace, output_for
from ident3d.errors import MissingDependencyError

__all__ = ["MLP_WIDTHS", "CNNEncoder", "Depth", "MLPEncoder", "Pixels", "ResNetEncoder"]

MLP_WIDTHS = (10, 50, 50, 50, 50, 10)
"""Widths of the hidden layers of :class:`MLPEncoder`, in units of the number of latents."""

Depth = Literal[18, 34, 50, 101]

_HIDDEN_PER_LATENT = 10
_SMALLEST_HALVED = 16


class MLPEncoder(nn.Module):
    """Six hidden layers with LeakyReLU of slope 0.01, their widths 10, 50, 50, 50, 50, 10 times the number of latents.

    Args:
        space: the space of the embeddings; its dimension N is the number of latents.
        observed: number of observed dimensions; N where None.
        learn_scale: see :func:`~baselines.encoders.outputs.output_for`.

    Raises:
        ValueError: if ``observed`` is not positive.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, appendix A.3.
    """

    def __init__(self, space: OutputSpace, observed: int | None = None, *, learn_scale: bool | None = None) -> None:
        super().__init__()
        inputs = space.dim if observed is None else observed
        if inputs < 1:
            raise ValueError(f"an encoder needs at least one observed dimension, not {inputs}")
        widths = [inputs, *(space.dim * width for width in MLP_WIDTHS)]
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), nn.LeakyReLU(0.01)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], space.dim))
        self.output = output_for(space, learn_scale=learn_scale)

    def forward(self, x: Float[Tensor, "batch observed"]) -> Float[Tensor, "batch dim"]:
        """Map (B, observed) observations to (B, N) embeddings."""
        embeddings: Tensor = self.output(self.layers(x))
        return embeddings


class ResNetEncoder(nn.Module):
    """A ResNet without pretrained weights, a hidden layer of ten units per latent with LeakyReLU, and a linear layer.

    Images are shifted and scaled to [-1, 1] first. Everything after the convolutions runs in float32 even under
    autocast, because embeddings of half precision have too few digits to be compared.

    Args:
        space: the space of the embeddings; its dimension is their number d.
        depth: layers of the ResNet: 18 (the paper's), 34, 50 or 101.
        learn_scale: see :func:`~baselines.encoders.outputs.output_for`.

    Attributes:
        architecture: its description in submissions.

    Raises:
        ValueError: if the depth is unknown.
        MissingDependencyError: if torchvision is not installed.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, section 4.2.2 and appendix A.3.
    """

    def __init__(self, space: OutputSpace, depth: Depth = 18, *, learn_scale: bool | None = None) -> None:
        super().__init__()
        if depth not in get_args(Depth):
            raise ValueError(f"unknown depth {depth} of a ResNet; choose from {', '.join(map(str, get_args(Depth)))}")
        try:
            from torchvision.models import resnet  # type: ignore[import-untyped]  # torchvision carries no types
        except ImportError as error:
            raise MissingDependencyError("torchvision", "build a ResNet encoder", "train") from error
        self.architecture = f"ResNet{depth}, hidden layer"
        self.backbone: nn.Module = getattr(resnet, f"resnet{depth}")(weights=None)
        width: int = self.backbone.fc.in_features
        self.backbone.fc = nn.Identity()
        self.hidden = nn.Linear(width, _HIDDEN_PER_LATENT * space.dim)
        self.head = nn.Linear(_HIDDEN_PER_LATENT * space.dim, space.dim)
        self.output = output_for(space, learn_scale=learn_scale)

    def forward(self, x: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """Map (B, 3, H, W) float RGB images in [0, 1] to (B, d) float32 embeddings."""
        features = self.backbone(2 * x - 1)
        with torch.autocast(x.device.type, enabled=False):
            hidden = F.leaky_relu(self.hidden(features.float()), 0.01)
            embeddings: Tensor = self.output(self.head(hidden))
        return embeddings


class CNNEncoder(nn.Module):
    """Four convolutions that halve the image, a hidden layer and a linear layer: for trainings on a few cores.

    The convolutions are 4x4 with stride 2, batch norm and ReLU, and have ``width``, 2, 4 and 4 ``width`` channels. No
    place is averaged away before the hidden layer, so that positions are not lost. At 64x64 it has a million
    parameters. Images are shifted and scaled to [-1, 1] first, and the last layer runs in float32 even under autocast.

    Args:
        space: the space of the embeddings; its dimension is their number d.
        resolution: width and height of the images in pixels, 16 or more.
        width: channels of the first convolution.
        hidden: units of the hidden layer.
        learn_scale: see :func:`~baselines.encoders.outputs.output_for`.

    Attributes:
        architecture: its description in submissions.

    Raises:
        ValueError: if the images are too small to be halved four times, or there are no channels or units.
    """

    def __init__(
        self,
        space: OutputSpace,
        resolution: int,
        width: int = 32,
        hidden: int = 256,
        *,
        learn_scale: bool | None = None,
    ) -> None:
        super().__init__()
        if resolution < _SMALLEST_HALVED:
            raise ValueError(
                f"a CNN that halves images four times needs {_SMALLEST_HALVED} or more pixels a side, not {resolution}"
            )
        if min(width, hidden) < 1:
            raise ValueError(f"expected one or more channels and hidden units, not width={width}, hidden={hidden}")
        self.architecture = f"CNN of 4 convolutions, width {width}, hidden layer of {hidden}"
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise((3, width, 2 * width, 4 * width, 4 * width)):
            layers += [
                nn.Conv2d(fan_in, fan_out, 4, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(fan_out),
                nn.ReLU(),
            ]
        self.convolutions = nn.Sequential(*layers)
        self.hidden = nn.Linear(4 * width * (resolution // 16) ** 2, hidden)
        self.head = nn.Linear(hidden, space.dim)
        self.output = output_for(space, learn_scale=learn_scale)

    def forward(self, x: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """Map (B, 3, H, W) float RGB images in [0, 1] to (B, d) float32 embeddings."""
        hidden = F.relu(self.hidden(self.convolutions(2 * x - 1).flatten(1)))
        with torch.autocast(x.device.type, enabled=False):
            embeddings: Tensor = self.output(self.head(hidden.float()))
        return embeddings


class Pixels(nn.Module):
    """The coarse image: the mean colour of each cell of a grid.

    The 12,288 values of a 64x64 image are more than the rows that an affine map is fitted on. A grid of 8x8 cells has
    192, few enough to be scored on 2,000 images.

    Args:
        cells: cells per side.
    """

    def __init__(self, cells: int = 8) -> None:
        super().__init__()
        if cells < 1:
            raise ValueError(f"expected one or more cells per side, not {cells}")
        self.cells = cells

    def forward(self, x: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch means"]:
        """Map (B, 3, H, W) images to (B, 3 cells^2) means: all cells of red, then of green, then of blue."""
        return F.adaptive_avg_pool2d(x, self.cells).flatten(1)
