"""An experiment: a generative process, and what the model assumes of it."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from baselines.synthetic.objectives import Objective
from ident3d.conditionals import Conditional
from ident3d.marginals import Marginal
from ident3d.spaces import Space

__all__ = ["Experiment", "GenerativeProcess", "ModelSpace"]

ModelSpace = Literal["sphere", "box", "unbounded"]
"""The space that a model's embeddings live in."""


@dataclass(frozen=True)
class GenerativeProcess:
    """Where latents live and what pairs are drawn from.

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
    def description(self) -> str:
        """A text that tells experiments apart, all numbers included."""
        process = self.process
        shown = [process.space, process.marginal, self.model_space]
        if self.objective is None:  # the conditional plays no part
            return " | ".join(map(str, [*shown, "supervised"]))
        return " | ".join(map(str, [*shown, process.conditional, self.objective]))
