"""The interface of an encoder, and the seed of its initial weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor
from torch.nn import Parameter

from ident3d.randomness import integer_seed

__all__ = ["Encoder", "seeded_weights"]


@runtime_checkable
class Encoder(Protocol):
    """A map from observations to embeddings, with parameters that can be trained and stored.

    Any ``torch.nn.Module`` with one input and one output is an encoder. Encoders of images take (B, 3, H, W) float RGB
    in [0, 1] and normalise them as they need it, so that an exported encoder is complete.
    """

    def __call__(self, x: Tensor) -> Tensor:
        """Map (B, ...) observations to (B, d) embeddings."""

    def parameters(self) -> Iterator[Parameter]:
        """Return the parameters."""

    def state_dict(self) -> dict[str, Any]:
        """Return all tensors by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Load the tensors that :meth:`state_dict` returned."""

    def train(self, mode: bool = True) -> Self:
        """Switch to training, or to evaluation: running statistics in batch norm, no dropout."""


@contextmanager
def seeded_weights(seed: int) -> Iterator[None]:
    """Make the weights of modules that are created in a block depend on a seed alone.

    Modules of torch draw from its global generator, whose state is restored afterwards.

    Args:
        seed: seed of the run.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(integer_seed(seed, "training/encoder", 0, bits=63))
        yield
