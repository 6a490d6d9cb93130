"""The encoders f of many runs, side by side: one matrix multiplication a layer serves all of them."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from baselines.encoders.outputs import OutputSpace, output_for
from baselines.synthetic.experiments import ModelSpace
from baselines.synthetic.layers import stacked_layer
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Sphere, Unbounded

__all__ = ["Initialisation", "StackedEncoder"]

_SPACES: dict[ModelSpace, Callable[[int], OutputSpace]] = {
    "sphere": Sphere,
    "box": lambda dim: Box(dim, 0.0, 1.0),
    "unbounded": Unbounded,
}

Initialisation = Literal["torch", "he"]

HIDDEN = (10, 50, 50, 50, 50, 10)
"""Widths of the hidden layers in units of the number of latents."""


class StackedEncoder(nn.Module):
    """The encoder of appendix A.3 for each of S runs: six hidden layers, leaky ReLU of slope 0.01.

    It computes what :class:`baselines.encoders.MLPEncoder` does for each run: the output is projected onto the unit
    sphere, squashed into a box whose size is learned for each dimension, or left as it is.

    Args:
        seeds: the runs' seeds; a run's initial weights depend on its own seed only.
        dim: number of observations and of embedding dimensions.
        space: the space of the embeddings.
        hidden_type: what the hidden layers multiply in; the first and the last layer, the weights and everything
            after them stay in float32.
        initialisation: "torch", torch's own for linear layers; or "he", which keeps the variance from layer to layer
            and has no biases. Under the first the embeddings of all observations start almost at one point.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, appendix A.3.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        dim: int,
        space: ModelSpace,
        *,
        hidden_type: torch.dtype = torch.float32,
        initialisation: Initialisation = "torch",
    ) -> None:
        super().__init__()
        self.space = space
        self.hidden_type = hidden_type
        widths = [dim, *(dim * factor for factor in HIDDEN), dim]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        generators = [torch_generator(seed, "synthetic/encoder") for seed in seeds]
        for layer, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
            last = layer == len(widths) - 2
            weight_bound, bias_bound = _bounds(initialisation, fan_in, last=last)
            self.weights.append(_uniform((fan_in, fan_out), weight_bound, generators))
            self.biases.append(_uniform((1, fan_out), bias_bound, generators))
        self.outputs = nn.ModuleList(output_for(_SPACES[space](dim)) for _ in seeds)

    def forward(self, x: Tensor) -> Tensor:
        """Map (S, B, dim) observations to (S, B, dim) float32 embeddings."""
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            kind = torch.float32 if layer in {0, last} else self.hidden_type
            slope = 1.0 if layer == last else 0.01
            x = stacked_layer(x.to(kind), weight.to(kind), bias.to(kind), slope)
        return x if self.space == "unbounded" else torch.stack([o(h) for o, h in zip(self.outputs, x, strict=True)])


def _bounds(initialisation: Initialisation, fan_in: int, *, last: bool) -> tuple[float, float]:
    """Return the bounds of a layer's uniform weights and biases."""
    if initialisation == "torch":
        return 1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in)
    return math.sqrt((3 if last else 6) / fan_in), 0.0


def _uniform(shape: tuple[int, int], bound: float, generators: Sequence[torch.Generator]) -> nn.Parameter:
    return nn.Parameter(torch.stack([(2 * torch.rand(shape, generator=drawn) - 1) * bound for drawn in generators]))
