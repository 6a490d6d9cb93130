"""The networks of many runs side by side: the mixing network that makes observations, and the encoder that inverts it.

Every tensor has a leading axis of runs, so that one matrix product a layer serves all of them; a run's weights depend
on its own seed only. A CPU multiplies float32 layers with oneDNN where torch would use MKL (:func:`stacked_layer`).
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from baselines.encoders.networks import MLP_WIDTHS
from baselines.encoders.outputs import OutputSpace, output_for
from baselines.synthetic.experiments import ModelSpace
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Sphere, Unbounded

__all__ = [
    "Initialisation",
    "MixingLaw",
    "MixingNetwork",
    "StackedEncoder",
    "condition_numbers",
    "draw_weights",
    "stacked_layer",
]

CANDIDATES = 25_000
LAYERS = 3
NEGATIVE_SLOPE = 0.2

Initialisation = Literal["torch", "he"]

MixingLaw = Literal["best", "published"]
"""How a layer's weight matrix is drawn; its entries are uniform, and its columns have length one.

"best" takes the best conditioned of 25,000 matrices, which row vectors of latents are multiplied with: the rows of the
map have length one. "published" is what the authors' code does: it takes the least condition number among 25,000
matrices as a threshold, draws matrices until one is at or below it, and multiplies column vectors: the columns of the
map have length one. In ten dimensions the mean condition number of a layer is 3.87 under the first law and 3.64 under
the second, over 40 networks.
"""

_SPACES: dict[ModelSpace, Callable[[int], OutputSpace]] = {
    "sphere": Sphere,
    "box": lambda dim: Box(dim, 0.0, 1.0),
    "unbounded": Unbounded,
}


class MixingNetwork:
    """One invertible mixing network for each run, side by side: three linear maps, leaky ReLU between them.

    How a weight matrix is drawn is a law of its own, see :data:`MixingLaw`. The last map has no nonlinearity after it:
    only so do the observations score against the latents near what the paper reports for the identity model. Their R2
    in ten dimensions, mean and standard error over 40 networks: 63.4 (0.4) on the sphere and 69.3 (0.8) in the box;
    under the published law 64.5 (0.3) and 69.4 (0.9). The paper reports 66.98 and 67.93; with a third nonlinearity it
    would be 51 to 55.

    Args:
        seeds: the runs' seeds; a run's network depends on its own seed only.
        dim: number of latents and of observations.
        device: where the weights are kept.
        law: how the weight matrices are drawn.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, appendix A.3.
    """

    def __init__(
        self, seeds: Sequence[int], dim: int, device: torch.device | str = "cpu", *, law: MixingLaw = "best"
    ) -> None:
        stacked = torch.stack([draw_weights(dim, seed, law=law) for seed in seeds])
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
def draw_weights(dim: int, seed: int, candidates: int = CANDIDATES, law: MixingLaw = "best") -> Tensor:
    """Draw the weights of one mixing network.

    All candidates of a layer are drawn and judged at once, which takes about a tenth of a second in ten dimensions. The
    published law draws as many again and again until one is good enough: once more in half of all layers, but there is
    no bound, for the mean number of draws is infinite.

    Args:
        dim: rows and columns of a matrix.
        seed: seed of the run.
        candidates: how many matrices the least condition number is sought among.
        law: how a layer's matrix is chosen.

    Returns:
        (3, dim, dim) float64; a row vector of latents is multiplied from the right.

    Raises:
        ValueError: if dim or candidates is not positive, or there is no such law.
    """
    if dim < 1 or candidates < 1:
        raise ValueError(f"a mixing network has dim >= 1 and candidates >= 1, not {dim} and {candidates}")
    if law not in get_args(MixingLaw):
        raise ValueError(f"unknown mixing law {law!r}; choose from {', '.join(get_args(MixingLaw))}")
    layers = []
    for layer in range(LAYERS):
        generator = torch_generator(seed, "synthetic/mixing", layer)
        drawn, numbers = _candidates(candidates, dim, generator)
        if law == "best":
            layers.append(drawn[numbers.argmin()])
            continue
        threshold = numbers.min()
        drawn, numbers = _candidates(candidates, dim, generator)
        while not bool((good := numbers <= threshold).any()):
            drawn, numbers = _candidates(candidates, dim, generator)
        layers.append(drawn[good.nonzero()[0, 0]].mT)
    return torch.stack(layers)


def _candidates(count: int, dim: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw (count, dim, dim) matrices with uniform entries and columns of length one; give their condition numbers."""
    drawn = torch.rand(count, dim, dim, dtype=torch.float64, generator=generator) * 2 - 1
    drawn /= torch.linalg.vector_norm(drawn, dim=1, keepdim=True)
    return drawn, condition_numbers(drawn)


def condition_numbers(matrices: Tensor) -> Tensor:
    """Return the ratio of the largest to the smallest singular value of (N, d, d) matrices: (N,) float64.

    They come from the Gram matrices' eigenvalues, which is quicker and exact where it matters: for small ratios.
    """
    eigenvalues = torch.linalg.eigvalsh(matrices.mT @ matrices)
    ratio = eigenvalues[:, -1] / eigenvalues[:, 0].clamp_min(0)
    numbers: Tensor = ratio.nan_to_num(nan=math.inf).sqrt()
    return numbers


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
        widths = [dim, *(dim * width for width in MLP_WIDTHS), dim]
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


def stacked_layer(x: Tensor, weight: Tensor, bias: Tensor, slope: float) -> Tensor:
    """Return leaky_relu(x @ weight + bias) of every run.

    On a CPU, torch gives float32 products to MKL, which reaches less than half of what other makers' processors with
    AVX-512 can do: 86 of 206 GFLOP/s on a core of an AMD EPYC. There oneDNN multiplies instead.

    Args:
        x: (S, B, fan_in).
        weight: (S, fan_in, fan_out), of the same type.
        bias: (S, 1, fan_out), of the same type.
        slope: the leaky ReLU's on the negative side; 1 for none.

    Returns:
        (S, B, fan_out) of the same type.
    """
    if x.device.type == "cpu" and x.dtype == torch.float32 and _has_onednn():
        value: Tensor = _OneDNNLayer.apply(x, weight, bias, slope)
        return value
    out = torch.baddbmm(bias, x, weight)
    return out if slope == 1 else F.leaky_relu_(out, slope)


class _OneDNNLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, slope: float) -> Tensor:
        activation = ("none", []) if slope == 1 else ("leaky_relu", [slope])
        out = _stack([_product(x[run], weight[run].T, bias[run, 0], *activation) for run in range(len(x))])
        ctx.save_for_backward(x, weight, out)
        ctx.slope = slope
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        x, weight, out = ctx.saved_tensors
        grad = grad.contiguous()
        if ctx.slope != 1:
            grad = torch.ops.aten.leaky_relu_backward(grad, out, ctx.slope, self_is_result=True)
        runs = range(len(x))
        grad_x = _stack([_product(grad[run], weight[run]) for run in runs]) if ctx.needs_input_grad[0] else None
        grad_weight = _stack([_product(x[run].T, grad[run].T) for run in runs])
        return grad_x, grad_weight, grad.sum(1, keepdim=True), None


def _product(
    a: Tensor, b: Tensor, bias: Tensor | None = None, activation: str = "none", numbers: list[float] | None = None
) -> Tensor:
    """Return activation(a @ b.T + bias) of a single run."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, bias, activation, numbers or [], "")  # noqa: SLF001 - torch's only way to oneDNN for float32
    return product


def _stack(runs: list[Tensor]) -> Tensor:
    return runs[0].unsqueeze(0) if len(runs) == 1 else torch.stack(runs)


def _has_onednn() -> bool:
    built: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return built and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _bounds(initialisation: Initialisation, fan_in: int, *, last: bool) -> tuple[float, float]:
    """Return the bounds of a layer's uniform weights and biases."""
    if initialisation == "torch":
        return 1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in)
    return math.sqrt((3 if last else 6) / fan_in), 0.0


def _uniform(shape: tuple[int, int], bound: float, generators: Sequence[torch.Generator]) -> nn.Parameter:
    return nn.Parameter(torch.stack([(2 * torch.rand(shape, generator=drawn) - 1) * bound for drawn in generators]))
