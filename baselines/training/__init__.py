"""Training on images: :func:`train` produces a run, and :func:`embed` a submission from it.

The names are loaded when they are first used, so that options can be parsed without loading torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from baselines.training.options import About, Hardware, Images, Intervals, TrainingOptions

if TYPE_CHECKING:
    from baselines.training.embedding import embed
    from baselines.training.run import Run
    from baselines.training.training import train

__all__ = ["About", "Hardware", "Images", "Intervals", "Run", "TrainingOptions", "embed", "train"]


_HOMES = {"Run": "run", "embed": "embedding", "train": "training"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
