"""Training on images: :func:`train` makes a run, :func:`embed` a submission of what it has learned.

The names are loaded when they are first used, so that options can be read without loading torch.
"""

from typing import TYPE_CHECKING, Any

from baselines.training.options import About, Hardware, Images, Intervals, TrainingOptions

if TYPE_CHECKING:
    from baselines.training.embedding import embed
    from baselines.training.run import Run, train

__all__ = ["About", "Hardware", "Images", "Intervals", "Run", "TrainingOptions", "embed", "train"]


def __getattr__(name: str) -> Any:
    if name in {"Run", "train"}:
        from baselines.training import run

        return getattr(run, name)
    if name == "embed":
        from baselines.training.embedding import embed

        return embed
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
