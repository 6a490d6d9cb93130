"""What an encoder is, to the rest of the project."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor
from torch.nn import Parameter

__all__ = ["Encoder"]


@runtime_checkable
class Encoder(Protocol):
    """A map from observations to embeddings with parameters that can be trained and stored.

    Any ``torch.nn.Module`` with one input and one output is one. Encoders of images take (B, 3, H, W) float RGB in
    [0, 1] and do whatever normalisation they need themselves, so an exported encoder is complete.
    """

    def __call__(self, x: Tensor) -> Tensor:
        """Map (B, ...) observations to (B, d) embeddings."""

    def parameters(self) -> Iterator[Parameter]:
        """Return what is trained."""

    def state_dict(self) -> dict[str, Any]:
        """Return all tensors by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Take the tensors that :meth:`state_dict` returned."""

    def train(self, mode: bool = True) -> Self:
        """Switch to training, or to evaluation: running statistics in batch norm, no dropout."""
