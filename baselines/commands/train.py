"""``python -m baselines train``: trains an encoder on images."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from baselines.training.options import TrainingOptions
from ident3d.commandline import EXIT_OK, as_toml, write_json

if TYPE_CHECKING:
    from baselines.recipes import Recipe

__all__ = ["Train"]

_LOG = logging.getLogger("ident3d.baselines")

_OF_RECIPES = (
    *("steps", "batch_size", "learning_rate", "loss_learning_rate", "conditional", "space"),
    *("p", "temperature", "initial_precision", "loss", "encoder"),
)


def _recipes() -> Iterable[str]:
    from baselines.recipes import RECIPES

    return RECIPES


def _encoders() -> Iterable[str]:
    from baselines.encoders import ENCODERS

    return ENCODERS


def _losses() -> Iterable[str]:
    from baselines.losses import LOSSES

    return LOSSES


@dataclass(frozen=True)
class Train:
    """Train an encoder on images, by a recipe.

    The recipes are the rows of the paper's Table 4 (infonce-box, infonce-unbounded, infonce-laplace, infonce-sphere,
    simclr, supervised) and AnInfoNCE against InfoNCE, with one learned scale for all coordinates, on anisotropic pairs:
    on a sphere of four latents (aninfonce-sphere, infonce-sphere-isotropic, on live images), and in a box
    (aninfonce-box, infonce-box-isotropic; with -exact at the end for pairs rendered as pairs). The test split is not
    read. The same command with the same folder resumes a run from its last checkpoint, and so does the config.toml that
    the folder holds.

    Your own recipes, encoders and losses are named as package.module:attribute; the module may be installed, or be in
    the working directory. An encoder is a function or a class that returns a torch.nn.Module from float RGB images
    (B, 3, H, W) in [0, 1] to (B, dim); a loss is a class derived from baselines.losses.Loss.

    Examples:
        python -m baselines train supervised data/mini --steps 5000 --batch-size 128
        python -m baselines train infonce-unbounded data/mini --steps 5000 --temperature 0.1 -o runs/infonce
        python -m baselines train infonce-box data/mini --encoder mine:convnet --encoder-options width=64
        python -m baselines train infonce-box --live --resolution 64 --dataset data/mini
        python -m baselines train --config runs/infonce/config.toml --steps 20000
        torchrun --nproc-per-node 4 -m baselines train infonce-box data/3dident
    """

    completions: ClassVar[Mapping[str, Callable[[], Iterable[str]]]] = {
        "": _recipes,
        "--encoder": _encoders,
        "--loss": _losses,
    }

    recipe: tyro.conf.Positional[str]
    """Name of the recipe, or package.module:RECIPE."""
    root: tyro.conf.Positional[str | None] = None
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    live: bool = False
    """Train on live images in place of a dataset, fresh ones or a pool; leave ROOT out."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder of the run; by default runs/RECIPE-seedSEED."""
    steps: int | None = None
    """Optimisation steps, by default the recipe's 200,000."""
    batch_size: int | None = None
    """Pairs in a step over all processes, by default the recipe's 512."""
    learning_rate: float | None = None
    """Learning rate of Adam for the encoder, by default the recipe's 1e-4."""
    loss_learning_rate: float | None = None
    """Learning rate of Adam for the parameters of the loss, by default the recipe's 1e-3."""
    conditional: str | None = None
    """Conditional of the positives, by default the recipe's; for example 'normal(sigma=0.3)'."""
    space: Literal["unbounded", "box", "sphere"] | None = None
    """Space of the embeddings, by default the recipe's."""
    p: float | None = None
    """Exponent of the distance, by default the recipe's."""
    temperature: float | None = None
    """Temperature of the loss, by default the recipe's; 0.1 suits short runs of the rows of Table 4."""
    initial_precision: float | None = None
    """Initial diagonal of Lambda, by default 10."""
    loss: str | None = None
    """Loss, by default the recipe's: supervised, info_nce, delta_info_nce, an_info_nce, or package.module:Class."""
    loss_options: tuple[str, ...] = ()
    """Further arguments of the loss, each as name=value, or one JSON object."""
    encoder: str | None = None
    """Encoder, by default the recipe's: resnet18, resnet34, resnet50, resnet101, cnn, or package.module:function."""
    encoder_options: tuple[str, ...] = ()
    """Further arguments of the encoder, each as name=value, or one JSON object."""
    depth: Literal[18, 34, 50, 101] | None = None
    """Layers of the ResNet; --depth 18 is short for --encoder resnet18."""
    config: Path | None = None
    """TOML file with options by their names; options given here come before it."""
    training: TrainingOptions = field(default_factory=TrainingOptions)
    """How to train."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Train, and write the report."""
        from baselines.training import train
        from baselines.training.placement import is_first_process
        from baselines.training.progress import read_metrics
        from baselines.training.run import Run

        recipe = self._recipe()
        folder = self.out or Path("runs") / f"{recipe.name}-seed{self.training.seed}"
        options = self._resolved(recipe, folder)
        try:
            run = train(recipe, self.root, folder, self.training, begun=lambda run: run.write_config(options))
        except KeyboardInterrupt:
            if is_first_process() and Run(folder).config_path.is_file():
                again = shlex.join(["python", "-m", "baselines", "train", "--config", str(Run(folder).config_path)])
                _LOG.warning("to go on: %s", again)
            raise
        if not is_first_process():
            return EXIT_OK
        if self.json:
            metrics = read_metrics(run.folder)[-1]
            write_json({"run": str(run.folder), "report": str(run.report_path), "metrics": metrics})
        else:
            sys.stdout.write(f"{run.summary()}\n")
            data = self.root or self.training.live.dataset or "ROOT"
            embeds = ["python", "-m", "baselines", "embed", str(run.folder), data, "-o", f"{recipe.name}.zip"]
            sys.stdout.write(f"next: {shlex.join(embeds)} --authors 'A. Author'\n")
        return EXIT_OK

    def _resolved(self, recipe: Recipe, folder: Path) -> str:
        """Return all options as the text of a file for --config, with what the recipe says where nothing was given."""
        from ident3d.codec import to_json

        own: dict[str, Any] = {"recipe": self.recipe, "root": self.root, "live": self.live, "out": str(folder)}
        own |= {name: getattr(recipe, name) for name in _OF_RECIPES}
        for kind in ("encoder", "loss"):
            found = getattr(recipe, f"{kind}_options")
            own[f"{kind}_options"] = [json.dumps(dict(found))] if found else []
        training = to_json(self.training)
        for name, value in training.items():
            own |= value if isinstance(value, dict) else {name: value}
        return as_toml(own)

    def _recipe(self) -> Recipe:
        from baselines.recipes import find_recipe, parse_arguments

        if self.depth is not None and self.encoder is not None:
            raise ValueError("--depth chooses a ResNet, and --encoder the encoder: give one of them")
        given = {name: getattr(self, name) for name in _OF_RECIPES if getattr(self, name) is not None}
        if self.depth is not None:
            given["encoder"] = f"resnet{self.depth}"
        recipe = find_recipe(self.recipe)
        # The recipe's options are those of its own encoder and loss, and no others take them.
        for kind in ("encoder", "loss"):
            own = {} if kind in given else getattr(recipe, f"{kind}_options")
            given[f"{kind}_options"] = {**own, **parse_arguments(getattr(self, f"{kind}_options"))}
        changed = replace(recipe, **given)
        return changed.live() if self.live else changed
