"""Experiments: a generative process of latents and pairs, and what a model assumes about it.

An :class:`Experiment` puts a :class:`GenerativeProcess` (a space, a marginal, a conditional) beside a model: the space
of the embeddings and an :class:`Objective`, the conditional that the loss assumes. The assumption is right where the
two conditionals agree. An assumed conditional is any class with ``label`` and ``loss(dim)``; the three of the papers
are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from baselines.losses import AnInfoNCE, DeltaInfoNCE, InfoNCE, Loss
from ident3d.conditionals import Conditional
from ident3d.marginals import Marginal
from ident3d.spaces import Space

__all__ = [
    "Experiment",
    "GenerativeProcess",
    "LearnedAnisotropic",
    "ModelSpace",
    "Objective",
    "Power",
    "VonMisesFisherModel",
]

ModelSpace = Literal["sphere", "box", "unbounded"]
"""The space that a model's embeddings live in."""


@dataclass(frozen=True)
class Experiment:
    """A generative process and a model of it.

    Attributes:
        process: the generative process.
        model_space: the space that the encoder's output lives in.
        objective: the conditional that the loss assumes; None for the supervised model.
    """

    process: GenerativeProcess
    model_space: ModelSpace
    objective: Objective | None

    @property
    def dim(self) -> int:
        """Number of latents."""
        return self.process.space.dim

    @property
    def model_label(self) -> str:
        """The model in tables: its space, and the conditional that it assumes."""
        return f"{self.model_space.capitalize()}, {'' if self.objective is None else self.objective.label}"

    @property
    def description(self) -> str:
        """A text with all settings, which identifies the experiment in results and checkpoints."""
        process = self.process
        shown = [process.space, process.marginal, self.model_space]
        if self.objective is None:  # the conditional plays no part
            return " | ".join(map(str, [*shown, "supervised"]))
        return " | ".join(map(str, [*shown, process.conditional, self.objective]))


@dataclass(frozen=True)
class GenerativeProcess:
    """The space of the latents, and the distributions of anchors and positives.

    Attributes:
        space: the latents' space.
        marginal: the anchors' distribution.
        conditional: the positives' distribution.
    """

    space: Space
    marginal: Marginal
    conditional: Conditional

    def __post_init__(self) -> None:
        self.marginal.law.check(self.space)
        self.conditional.check(self.space)

    def latents(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw (n, dim) float32 latents from the marginal, on the generator's device."""
        return self.marginal.sample(n, self.space, generator)

    def anchors(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw (n, 1, dim) float32 anchors alone, on the generator's device."""
        return self.latents(n, generator).unsqueeze(1)

    def pairs(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw (n, 2, dim) float32 pairs of anchor and positive, on the generator's device."""
        anchors = self.marginal.sample(n, self.space, generator, torch.float64)
        return torch.stack([anchors, self.conditional.sample(anchors, self.space, generator)], dim=1).float()


class Objective(Protocol):
    """The conditional that a model assumes, which determines the loss."""

    @property
    def label(self) -> str:
        """How tables write it."""

    def loss(self, dim: int) -> Loss:
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

    def loss(self, dim: int) -> Loss:  # noqa: ARG002 - the protocol's signature
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

    def loss(self, dim: int) -> Loss:  # noqa: ARG002 - the protocol's signature
        """Return delta-InfoNCE."""
        return DeltaInfoNCE(self.p)


@dataclass(frozen=True)
class LearnedAnisotropic:
    """A conditional exp(-(z_pos - z)^T Lambda (z_pos - z)) whose diagonal Lambda is learned, assumed by AnInfoNCE.

    Attributes:
        precision: initial value of every entry of Lambda. Which factors an encoder finds is decided early: in four
            dimensions with Lambda 12.5 and 1.5, runs that started at 1 found all, and some that started at 2 or 3
            missed a style factor for good.
    """

    precision: float = 1.0

    @property
    def label(self) -> str:
        """How tables write it."""
        return "AnInfoNCE"

    def loss(self, dim: int) -> Loss:
        """Return AnInfoNCE with a Lambda of its own."""
        return AnInfoNCE(dim, self.precision)
