"""``python -m baselines information``: how much of the information that two views share the encoder of a run keeps."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_OK, write_json

__all__ = ["MeasureInformation"]


@dataclass(frozen=True)
class MeasureInformation:
    """Estimate the mutual information between the embeddings of two views, and compare it with that of the latents.

    Pairs are those of the run's recipe: matched among the images of the split, or rendered. Every image is the anchor
    of one pair. The estimate is an InfoNCE bound, in nats: it cannot exceed the logarithm of the number of items that a
    positive is told apart from nor, for matched pairs, of the number of images; both are shown. Also shown are the same
    estimate for the latents of the same pairs, and the information that latents share under the conditional, which is
    known exactly. Supervised runs and runs on augmentations have no such pairs; --conditional matches some for them.

    Examples:
        python -m baselines information runs/infonce-box-seed0 data/mini
        python -m baselines information runs/supervised-seed0 data/mini --conditional 'normal(sigma=0.3)' --json
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of the run."""
    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    split: str = "test"
    """The split that pairs are taken from."""
    conditional: str | None = None
    """Match pairs under this conditional, for example 'normal(sigma=0.3)', whatever the run was trained on."""
    items: int = 4096
    """Items that a positive is told apart from, including itself; fewer if half of the split is smaller."""
    seed: int = 0
    """Seed of the draws that are matched."""
    device: str = "auto"
    """auto, cpu, cuda, or cuda:N."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Print the estimates for the encoder of the last checkpoint."""
        from baselines.training.information import run_information
        from baselines.training.run import Run

        run = Run(self.run_folder)
        step, found = run_information(
            run,
            self.root,
            split=self.split,
            conditional=self.conditional,
            items=self.items,
            seed=self.seed,
            device=self.device,
        )
        name = run.recipe().name
        if self.json:
            write_json({"recipe": name, "step": step, "split": self.split, **found.to_json()})
        else:
            sys.stdout.write(f"{name}, step {step}, {self.split} split\n{found.table()}\n")
        return EXIT_OK
