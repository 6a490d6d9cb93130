"""``python -m baselines train``: a recipe on images."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ident3d.commandline import EXIT_OK, write_json

if TYPE_CHECKING:
    from baselines.recipes import Recipe

__all__ = ["Train"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Train:
    """Train an encoder on images, by a recipe.

    The recipes are the rows of the paper's Table 4 (infonce-box, infonce-unbounded, infonce-laplace, infonce-sphere,
    simclr, supervised) and AnInfoNCE against InfoNCE on anisotropic pairs (aninfonce-box, aninfonce-sphere,
    infonce-box-anisotropic, infonce-sphere-anisotropic; with -exact at the end for pairs rendered as pairs). The test
    split is not read. Started again with the same folder, a run goes on from its last checkpoint.

    Examples:
        python -m baselines train supervised data/mini --steps 5000 --batch-size 128
        python -m baselines train infonce-unbounded data/mini --steps 5000 --batch-size 128 -o runs/infonce
        torchrun --nproc-per-node 4 -m baselines train infonce-box data/3dident
    """

    recipe: tyro.conf.Positional[str]
    """Name of the recipe."""
    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder of the run; runs/RECIPE-seedSEED if not given."""
    seed: int = 0
    """Seed of the encoder, the validation part and the pairs."""
    steps: int | None = None
    """Optimisation steps, if not the recipe's 200,000."""
    batch_size: int | None = None
    """Pairs in a step over all processes, if not the recipe's 512."""
    learning_rate: float | None = None
    """Adam's for the encoder, if not the recipe's 1e-4."""
    loss_learning_rate: float | None = None
    """Adam's for what the loss learns, if not the recipe's 1e-3."""
    conditional: str | None = None
    """Distribution of positives, if not the recipe's, such as 'normal(sigma=0.3)'."""
    space: Literal["unbounded", "box", "sphere"] | None = None
    """Space of the embeddings, if not the recipe's."""
    p: float | None = None
    """Exponent of the distance, if not the recipe's."""
    temperature: float | None = None
    """Temperature of the loss, if not the recipe's."""
    initial_precision: float | None = None
    """Where Lambda starts, if not at 10."""
    depth: Literal[18, 34, 50, 101] | None = None
    """Layers of the ResNet, if not 18."""
    validation: int = 1000
    """Images of the train split that are held out to evaluate on."""
    device: str = "auto"
    """auto, cpu, cuda, or cuda:N."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What the encoder computes in; auto is bfloat16 on a GPU that has it."""
    compile: bool = False
    """Compile the encoder: slower to start, faster to run."""
    resident: Literal["auto", "always", "never"] = "auto"
    """Whether all images are decoded once into the device's memory; auto: where they take little of it."""
    workers: int = 0
    """Processes that decode images that are not resident; 0 does it in a thread."""
    threads: int = 0
    """Threads on the CPU; 0 leaves the choice to torch."""
    log_every: int = 50
    """Steps between lines of metrics."""
    evaluate_every: int = 1000
    """Steps between evaluations."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Train, and write the report."""
        import torch

        from baselines.training.placement import place
        from baselines.training.progress import read_metrics
        from baselines.training.report import check_can_draw, write_report
        from baselines.training.run import Run, RunOptions

        check_can_draw()
        recipe = self._recipe()
        if self.threads > 0:
            torch.set_num_threads(self.threads)
        options = RunOptions(
            recipe=recipe,
            seed=self.seed,
            validation=self.validation,
            device=self.device,
            precision=self.precision,
            compiled=self.compile,
            resident=self.resident,
            workers=self.workers,
            log_every=self.log_every,
            evaluate_every=self.evaluate_every,
            checkpoint_every=self.checkpoint_every,
        )
        run = Run(self.out or Path("runs") / f"{recipe.name}-seed{self.seed}")
        with place(self.device, self.precision) as placement:
            run.train(options, self.root, placement)
            if placement.is_first:
                report = write_report(run, self.root, placement.device)
                _LOG.info("the report is %s", report)
                if self.json:
                    write_json({"run": str(run.folder), "report": str(report), "metrics": read_metrics(run.folder)[-1]})
        return EXIT_OK

    def _recipe(self) -> Recipe:
        from baselines.recipes import find_recipe

        names = (
            *("steps", "batch_size", "learning_rate", "loss_learning_rate", "conditional", "space"),
            *("p", "temperature", "initial_precision", "depth"),
        )
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(find_recipe(self.recipe), **given)
