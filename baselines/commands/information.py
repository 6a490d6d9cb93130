"""``python -m baselines information``: what a run's encoder keeps of what two views share."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from ident3d.commandline import EXIT_OK, write_json

if TYPE_CHECKING:
    from baselines.recipes import Recipe
    from ident3d import ThreeDIdent
    from ident3d.conditionals import Conditional

__all__ = ["MeasureInformation"]


@dataclass(frozen=True)
class MeasureInformation:
    """Estimate the mutual information between the two views' embeddings, beside the latents' true one.

    Pairs are those of the run's recipe: matched among the images of the split, or the rendered ones. Every image
    is the anchor of one. The estimate is an InfoNCE bound, in nats: it cannot exceed the logarithm of the number of
    items that a positive is told apart from, nor of the number of images where pairs are matched; both are shown.
    Beside it stand the same estimate of the latents of the same pairs, and the information that latents share under
    the conditional, which is known exactly. A supervised run and one on augmentations have no such pairs; with
    --conditional they are measured on matched ones.

    Examples:
        python -m baselines information runs/infonce-box-seed0 data/mini
        python -m baselines information runs/supervised-seed0 data/mini --conditional 'normal(sigma=0.3)' --json
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of the run."""
    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    split: str = "test"
    """The split that pairs are made of."""
    conditional: str | None = None
    """Match pairs under this distribution, such as 'normal(sigma=0.3)', whatever the run was trained on."""
    items: int = 4096
    """Items that a positive is told apart from, itself included; fewer where half of the split is smaller."""
    seed: int = 0
    """Seed of the draws that are matched."""
    device: str = "auto"
    """auto, cpu, cuda, or cuda:N."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Print what the encoder of the last checkpoint keeps."""
        import torch

        from baselines.training.information import kept_information
        from baselines.training.placement import place
        from baselines.training.run import Run
        from ident3d import ThreeDIdent

        if self.items < 2:
            raise ValueError(
                f"a positive is told apart from at least one other item: --items is 2 or more, not {self.items}"
            )
        run = Run(self.run_folder)
        recipe = run.recipe()
        data = ThreeDIdent(self.root, split=self.split)
        conditional = self._conditional(recipe, data)
        with place(self.device) as placement, torch.inference_mode():
            encoder, checkpoint = run.encoder(placement.device)
            found = kept_information(
                encoder,
                data,
                conditional,
                placement.device,
                is_matched=self.conditional is not None or recipe.pairs == "matched",
                in_own_metric=recipe.match_in_own_metric,
                seed=self.seed,
                items=self.items,
            )
        about = {"recipe": recipe.name, "step": checkpoint.step, "split": self.split}
        if self.json:
            write_json(about | found.to_json())
        else:
            sys.stdout.write(f"{recipe.name}, step {checkpoint.step}, {self.split} split\n{found.table()}\n")
        return EXIT_OK

    def _conditional(self, recipe: Recipe, data: ThreeDIdent) -> Conditional:
        from baselines.training.data import pair_conditional
        from ident3d.conditionals import parse
        from ident3d.errors import DatasetError

        if self.conditional is not None:
            return parse(self.conditional, data.factors)
        if recipe.pairs in {"single", "augmented"}:
            raise ValueError(f"{recipe.name} has no pairs whose information is known: give --conditional to match some")
        conditional = pair_conditional(recipe, data)
        if conditional is None:
            raise DatasetError(
                f"{recipe.name} was trained on pairs rendered as pairs, and {data.root} has none: give --conditional "
                "to match some"
            )
        return conditional
