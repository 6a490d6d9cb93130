"""Untrained encoders, by name: the floor for every trained one.

* ``pixels``: the image itself, averaged over a grid of 8x8 cells.
* ``random-resnet18``: the ResNet18 with its head before the first step of a training, with an unbounded output. Batch
  norm is in evaluation mode with its initial statistics, mean 0 and variance 1, so that the encoder depends on the seed
  alone. Statistics of the train split would be a kind of training, and give another encoder on each dataset.
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
    """An untrained encoder, and its description in a submission.

    Attributes:
        title: name of its entry.
        method: description in a sentence.
        architecture: its architecture.
        build: maps the number of factors and a seed to the encoder, in evaluation mode.
        is_random: whether it depends on the seed.
    """

    title: str
    method: str
    architecture: str
    build: Callable[[int, int], nn.Module]
    is_random: bool

    def check_seed(self, seed: int) -> None:
        """Raise ValueError if a seed is given to an encoder that has none."""
        if seed and not self.is_random:
            raise ValueError(f"{self.title} does not depend on a seed; leave --seed {seed} out")


def _random_resnet18(dim: int, seed: int) -> nn.Module:
    with seeded_weights(seed):
        return ResNetEncoder(Unbounded(dim), depth=18).eval()


UNTRAINED: Registry[UntrainedEncoder] = Registry(
    "untrained encoder",
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
"""The untrained encoders, by the names that ``python -m baselines embed`` takes."""
