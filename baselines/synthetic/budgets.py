"""Budgets: how large an experiment is and how long it trains."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch

from baselines.synthetic.encoder import Initialisation

__all__ = ["PAPER", "PAPER_ANINFONCE", "QUICK", "QUICK_ANINFONCE", "Budget", "HiddenPrecision", "parse_budget"]

HiddenPrecision = Literal["float32", "bfloat16", "auto"]


@dataclass(frozen=True)
class Budget:
    """How an experiment is sized and trained.

    Attributes:
        name: what results are filed under.
        dim: number of latents.
        batch: pairs in a batch; the batch's other anchors are the negatives.
        steps: optimiser steps; None where time decides.
        seconds: training time of an experiment, all its runs together; None where steps decide.
        learning_rate: Adam's, of the encoder.
        scalar_learning_rate: Adam's, of the logarithm of the box's size and of Lambda.
        decay: whether the learning rates rise over the first 2% of the training and fall to 0 along a cosine; constant
            otherwise.
        initialisation: how the encoders' weights start; see :class:`~baselines.synthetic.encoder.StackedEncoder`.
        evaluations: how many times the runs are scored while they train.
        hidden_precision: what the encoder's hidden layers multiply in; "auto" is bfloat16 where the device does
            that natively.
    """

    name: str
    dim: int
    batch: int
    steps: int | None
    seconds: float | None
    learning_rate: float
    scalar_learning_rate: float
    decay: bool
    initialisation: Initialisation
    evaluations: int
    hidden_precision: HiddenPrecision

    def __post_init__(self) -> None:
        if self.dim < 2 or self.batch < 2:
            raise ValueError(f"a budget has dim >= 2 and a batch of 2 pairs or more, not {self.dim} and {self.batch}")
        if (self.steps is None) == (self.seconds is None):
            raise ValueError("a budget has either steps or seconds")
        for name in ("steps", "seconds", "learning_rate", "scalar_learning_rate", "evaluations"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} of a budget is positive and finite, not {value}")

    def limited(self, seconds: float) -> "Budget":
        """Return the same budget with time in place of steps: a beginning of it, seen 40 times on the way.

        Args:
            seconds: training time of an experiment.

        Raises:
            ValueError: if they are not positive and finite, or the budget already has seconds.
        """
        if self.steps is None:
            raise ValueError(
                f"the budget {self.name} already ends after {self.seconds:g} seconds; give that or a limit"
            )
        return replace(self, name=f"{self.name}-{seconds:g}s", steps=None, seconds=seconds, evaluations=40)

    def rate(self, progress: float) -> float:
        """Return the factor on the learning rates when the share ``progress`` of the training is done."""
        if not self.decay:
            return 1.0
        return min(1.0, (progress + 1e-4) / 0.02) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    def hidden_type(self, device: torch.device) -> torch.dtype:
        """Return what the hidden layers multiply in on ``device``."""
        if self.hidden_precision == "auto":
            native = (
                torch.cuda.is_bf16_supported(including_emulation=False)
                if device.type == "cuda"
                else device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001 - torch has no public question for it
            )
            return torch.bfloat16 if native else torch.float32
        return torch.bfloat16 if self.hidden_precision == "bfloat16" else torch.float32


PAPER = Budget(
    name="paper",
    dim=10,
    batch=6144,
    steps=300_000,
    seconds=None,
    learning_rate=1e-4,
    scalar_learning_rate=1e-4,
    decay=False,
    initialisation="torch",
    evaluations=100,
    hidden_precision="float32",
)
"""Appendix A.3, for a GPU: one learning rate for all parameters."""

PAPER_ANINFONCE = replace(PAPER, scalar_learning_rate=1e-3)
"""The paper's budget where Lambda is learned: its rate is that of AnInfoNCE's published code."""

QUICK = Budget(
    name="quick",
    dim=4,
    batch=512,
    steps=2000,
    seconds=None,
    learning_rate=3e-3,
    scalar_learning_rate=7e-3,
    decay=True,
    initialisation="he",
    evaluations=20,
    hidden_precision="auto",
)
"""A minute or two a row on two cores.

The scalars' rate is for the learned size of a box, and only rates near this one will do. At 3e-3 the box stays so
small for so long that the cubed distances of row 2 of Table 2 hardly tell pairs apart, and its embeddings collapse. At
1e-2 it outgrows the embeddings of row 5, and at 2e-2 those of row 4 too: then they turn in it.
"""

QUICK_ANINFONCE = replace(QUICK, scalar_learning_rate=3e-2)
"""The quick budget where Lambda is learned."""

_TIMED = replace(QUICK, dim=10, batch=1024, learning_rate=1e-3, scalar_learning_rate=3e-3, evaluations=40)
_TIMED_ANINFONCE = replace(_TIMED, scalar_learning_rate=QUICK_ANINFONCE.scalar_learning_rate)


def parse_budget(text: str, *, learns_precision: bool = False) -> Budget:
    """Return the budget that a command line names.

    Args:
        text: "paper", "quick", or a number of seconds: ten latents for that long, whatever machine it is.
        learns_precision: whether it is for experiments that learn Lambda.

    Raises:
        ValueError: if it is none of these.
    """
    if text == "paper":
        return PAPER_ANINFONCE if learns_precision else PAPER
    if text == "quick":
        return QUICK_ANINFONCE if learns_precision else QUICK
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(f"a budget is paper, quick or a number of seconds, not {text!r}") from None
    timed = _TIMED_ANINFONCE if learns_precision else _TIMED
    return replace(timed, name=f"{seconds:g}s", steps=None, seconds=seconds)
