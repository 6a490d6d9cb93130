"""The mixing network g: what turns latents into observations, invertibly."""

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from ident3d.randomness import torch_generator

__all__ = ["MixingNetwork", "condition_numbers", "draw_weights"]

CANDIDATES = 25_000
LAYERS = 3
NEGATIVE_SLOPE = 0.2


class MixingNetwork:
    """One invertible mixing network for each run, side by side: three linear maps, leaky ReLU between them.

    Each weight matrix is the best conditioned of 25,000 matrices with uniform entries and columns of length one. The
    last map has no nonlinearity after it: only so do the observations score against the latents what the paper reports
    for the identity model (R2 of 64 to 68% on the sphere and the box; with a third nonlinearity it is 52 to 55%).

    Args:
        seeds: the runs' seeds; a run's network depends on its own seed only.
        dim: number of latents and of observations.
        device: where the weights are kept.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, appendix A.3.
    """

    def __init__(self, seeds: Sequence[int], dim: int, device: torch.device | str = "cpu") -> None:
        stacked = torch.stack([draw_weights(dim, seed) for seed in seeds])
        self.weights = stacked.to(device=device, dtype=torch.float32)

    def __call__(self, z: Tensor) -> Tensor:
        """Map (S, B, dim) latents of S runs to (S, B, dim) observations, in float32."""
        x = z.float()
        for layer in range(LAYERS):
            x = x if layer == 0 else F.leaky_relu(x, NEGATIVE_SLOPE)
            x = torch.bmm(x, self.weights[:, layer])
        return x

    def invert(self, x: Tensor) -> Tensor:
        """Return the (S, B, dim) latents of (S, B, dim) observations, in float64."""
        z = x.double()
        for layer in reversed(range(LAYERS)):
            z = torch.linalg.solve(self.weights[:, layer].double(), z, left=False)
            z = z if layer == 0 else F.leaky_relu(z, 1 / NEGATIVE_SLOPE)
        return z


@lru_cache(maxsize=64)
def draw_weights(dim: int, seed: int, candidates: int = CANDIDATES) -> Tensor:
    """Draw the weights of one mixing network.

    All candidates of a layer are drawn and judged at once, which takes about a tenth of a second in ten dimensions.
    The published code takes the same minimum as a threshold and then draws matrices one at a time until one is
    below it.

    Args:
        dim: rows and columns of a matrix.
        seed: seed of the run.
        candidates: how many matrices each layer's is the best of.

    Returns:
        (3, dim, dim) float64; a row vector of latents is multiplied from the right.

    Raises:
        ValueError: if dim or candidates is not positive.
    """
    if dim < 1 or candidates < 1:
        raise ValueError(f"a mixing network has dim >= 1 and candidates >= 1, not {dim} and {candidates}")
    layers = []
    for layer in range(LAYERS):
        generator = torch_generator(seed, "synthetic/mixing", layer)
        drawn = torch.rand(candidates, dim, dim, dtype=torch.float64, generator=generator) * 2 - 1
        drawn /= torch.linalg.vector_norm(drawn, dim=1, keepdim=True)
        layers.append(drawn[condition_numbers(drawn).argmin()])
    return torch.stack(layers)


def condition_numbers(matrices: Tensor) -> Tensor:
    """Return the ratio of the largest to the smallest singular value of (N, d, d) matrices: (N,) float64.

    They come from the Gram matrices' eigenvalues, which is quicker and exact where it matters: for small ratios.
    """
    eigenvalues = torch.linalg.eigvalsh(matrices.mT @ matrices)
    ratio = eigenvalues[:, -1] / eigenvalues[:, 0].clamp_min(0)
    numbers: Tensor = ratio.nan_to_num(nan=math.inf).sqrt()
    return numbers
