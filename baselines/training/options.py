"""The options of a training on images, each with its default; nothing here needs torch."""

from dataclasses import dataclass

__all__ = ["Intervals"]


@dataclass(frozen=True)
class Intervals:
    """How often something happens in a training, in steps; the last step is always followed by all three."""

    log_every: int = 50
    """Steps between lines of metrics."""
    evaluate_every: int = 1000
    """Steps between evaluations."""
    checkpoint_every: int = 500
    """Steps between checkpoints; what a killed run loses at most."""

    def __post_init__(self) -> None:
        if min(self.log_every, self.evaluate_every, self.checkpoint_every) < 1:
            raise ValueError(f"every number of steps is at least 1, not {self}")
