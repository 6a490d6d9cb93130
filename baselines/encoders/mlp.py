"""The multi-layer perceptron of the synthetic experiments."""

import itertools

from torch import Tensor, nn

from baselines.encoders.outputs import OutputSpace, output_for

__all__ = ["MLPEncoder"]

_WIDTHS = (10, 50, 50, 50, 50, 10)  # of the hidden layers, in units of the number of latents


class MLPEncoder(nn.Module):
    """Six hidden layers with LeakyReLU of slope 0.01, their widths 10, 50, 50, 50, 50, 10 times the number of latents.

    Args:
        space: the space of the embeddings; its dimension N is the number of latents.
        observed: number of observed dimensions; None: N.
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
        widths = [inputs, *(space.dim * factor for factor in _WIDTHS)]
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), nn.LeakyReLU(0.01)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], space.dim))
        self.output = output_for(space, learn_scale=learn_scale)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, observed) observations to (B, N) embeddings."""
        embeddings: Tensor = self.output(self.layers(x))
        return embeddings
