"""Draw R2 against the images that were seen, for runs of ``python -m baselines train``.

Run as ``python -m benchmarks.curves RUN [RUN ...] -o OUT.png``.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from baselines.losses import find_loss
from baselines.training.progress import read_metrics
from baselines.training.run import Run


@dataclass(frozen=True)
class Options:
    """Draw R2 on the validation images against the images that were seen."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """The image to write."""

    def run(self) -> None:
        """Draw the curves."""
        import matplotlib as mpl

        mpl.use("agg")
        from matplotlib import pyplot as plt

        figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
        for folder in self.runs:
            recipe = Run(folder).recipe()
            views = find_loss(recipe.loss).views
            scores = [line for line in read_metrics(folder) if "r2" in line]
            seen = [line["step"] * recipe.batch_size * views / 1000 for line in scores]
            (line,) = axes.plot(seen, [score["r2"] for score in scores], label=recipe.name)
            if "r2/content" in scores[-1]:
                for group, style in (("content", "--"), ("style", ":")):
                    values = [score.get(f"r2/{group}", math.nan) for score in scores]
                    axes.plot(seen, values, style, color=line.get_color(), linewidth=1, label=f"{recipe.name}, {group}")
        axes.set(xlabel="thousands of images seen", ylabel="R2, validation part", ylim=(-0.05, 1))
        axes.grid(alpha=0.3)
        figure.legend(loc="outside right upper", fontsize="small")
        figure.savefig(self.out, dpi=110)


if __name__ == "__main__":
    tyro.cli(Options).run()
