"""Encoders that nobody trains: the floor under every trained one, by name.

* ``pixels``: the image itself, averaged over a grid of 8x8 cells.
* ``random-resnet18``: the ResNet18 with its head as training finds it, with an unbounded output. Batch norm is in
  evaluation mode with the statistics it starts with, mean 0 and variance 1: then the seed alone decides what the
  encoder is. Statistics of the train split would be a first piece of training, and another encoder on each dataset.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from baselines.encoders.encoder import seeded_weights
from baselines.encoders.networks import Pixels, ResNetEncoder
from ident3d.registry import Registry
from ident3d.spaces import Unbounded

__all__ = ["UNTRAINED", "UntrainedEncoder"]


@dataclass(frozen=True)
class UntrainedEncoder:
    """An encoder that is not trained, and what a submission says about it.

    Attributes:
        title: name of its entry.
        method: what it is, in a sentence.
        architecture: its architecture.
        build: takes the number of factors and a seed, and returns the encoder in evaluation mode.
        is_random: whether the seed decides anything.
    """

    title: str
    method: str
    architecture: str
    build: Callable[[int, int], nn.Module]
    is_random: bool

    def check_seed(self, seed: int) -> None:
        """Raise ValueError where a seed is given to what has none."""
        if seed and not self.is_random:
            raise ValueError(f"{self.title} depends on no seed; leave --seed {seed} out")


def _random_resnet18(dim: int, seed: int) -> nn.Module:
    with seeded_weights(seed):
        return ResNetEncoder(Unbounded(dim), depth=18).eval()


UNTRAINED: Registry[UntrainedEncoder] = Registry(
    "encoder that is not trained",
    {
        "pixels": UntrainedEncoder(
            "identity (pixels)",
            "The image itself, averaged over a grid of 8x8 cells: what an affine map reads off without an encoder.",
            "none: the mean colours of 8x8 cells",
            lambda dim, seed: Pixels().eval(),  # noqa: ARG005 - it depends on neither
            is_random=False,
        ),
        "random-resnet18": UntrainedEncoder(
            "random ResNet18",
            "An encoder before its first training step; batch norm in evaluation mode with mean 0 and variance 1.",
            "ResNet18, hidden layer, unbounded output",
            _random_resnet18,
            is_random=True,
        ),
    },
)
"""The encoders that nobody trains, by the name that ``python -m baselines embed`` takes."""
