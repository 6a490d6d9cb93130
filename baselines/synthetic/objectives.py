"""What a model assumes of the positives, q_h, and the loss that goes with it."""

from dataclasses import dataclass
from typing import Protocol

from torch import nn

from baselines.losses import AnInfoNCE, DeltaInfoNCE, InfoNCE

__all__ = ["LearnedAnisotropic", "Objective", "Power", "VonMisesFisherModel"]


class Objective(Protocol):
    """An assumed conditional.

    Attributes:
        label: how tables write it.
    """

    @property
    def label(self) -> str:
        """How tables write it."""

    def loss(self, dim: int) -> nn.Module:
        """Return the loss of one run, a module called with the embeddings (B, dim) of anchors and positives."""


@dataclass(frozen=True)
class VonMisesFisherModel:
    """A von Mises-Fisher conditional, assumed by InfoNCE with temperature 1 / kappa.

    Attributes:
        kappa: its concentration.
    """

    kappa: float = 1.0

    @property
    def label(self) -> str:
        """How tables write it."""
        return f"vMF(κ={self.kappa:g})"

    def loss(self, dim: int) -> nn.Module:  # noqa: ARG002 - the protocol's signature
        """Return InfoNCE."""
        return InfoNCE(1 / self.kappa)


@dataclass(frozen=True)
class Power:
    """A conditional exp(-sum |z_pos - z|^p), assumed by delta-InfoNCE.

    Attributes:
        p: 1 for Laplace, 2 for normal, any other for a generalised normal conditional.
    """

    p: float

    @property
    def label(self) -> str:
        """How tables write it."""
        return {1.0: "Laplace", 2.0: "Normal"}.get(self.p) or f"GenNorm(β={self.p:g})"

    def loss(self, dim: int) -> nn.Module:  # noqa: ARG002 - the protocol's signature
        """Return delta-InfoNCE."""
        return DeltaInfoNCE(self.p)


@dataclass(frozen=True)
class LearnedAnisotropic:
    """A conditional exp(-(z_pos - z)^T Lambda (z_pos - z)) whose diagonal Lambda is learned, assumed by AnInfoNCE.

    Attributes:
        precision: what every entry of Lambda starts at. Which factors an encoder finds is settled early: in four
            dimensions with Lambda 12.5 and 1.5, runs that started at 1 found all, and some that started at 2 or 3
            missed a style factor for good.
    """

    precision: float = 1.0

    @property
    def label(self) -> str:
        """How tables write it."""
        return "AnInfoNCE"

    def loss(self, dim: int) -> nn.Module:
        """Return AnInfoNCE with a Lambda of its own."""
        return AnInfoNCE(dim, self.precision)
