"""Training on images: a recipe, a dataset and a seed become a run.

:func:`train` is what ``python -m baselines train`` calls. The loop itself is in :mod:`baselines.training.loop`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from baselines.pairs import RunImages, find_source
from baselines.recipes import Recipe, find_recipe
from baselines.training.checkpoint import Checkpoint
from baselines.training.conditional import content_and_style, pair_conditional
from baselines.training.evaluation import check_can_evaluate, evaluate
from baselines.training.loop import Trainer
from baselines.training.memory import step_memory
from baselines.training.objective import TrainedModel, build_encoder, build_loss, build_optimiser
from baselines.training.options import TrainingOptions
from baselines.training.placement import Placement, join_batch_norm, place
from baselines.training.progress import Logbook, Schedule, check_can_log
from baselines.training.report import check_can_draw, write_report
from baselines.training.run import Run, run_identity
from ident3d.codec import to_json
from ident3d.files import remove_unfinished

__all__ = ["train", "train_run"]

_LOG = logging.getLogger("ident3d.baselines")

_SMALLEST_HALF = 32  # pixels a side of the smallest images that are trained on in bfloat16 on a CPU


def train(
    recipe: Recipe | str,
    root: str | Path | None = None,
    folder: str | Path | None = None,
    options: TrainingOptions | None = None,
    *,
    report: bool = True,
    begun: Callable[[Run], object] = lambda _: None,
) -> Run:
    """Train an encoder on images by a recipe, or resume a training that was interrupted.

    The test split of the dataset is not read. Every process that torchrun started calls this; the first one writes.

    A recipe on live images takes no dataset: ``train(find_recipe("infonce-box").live())`` draws fresh pairs without
    end, as ``options.live`` says.

    Args:
        recipe: the recipe, or its name: one of :data:`~baselines.recipes.RECIPES`, or ``package.module:RECIPE``.
        root: folder of the dataset, in any layout; "sample" is the one inside the package. None for live images.
        folder: folder of the run; ``runs/RECIPE-seedSEED`` where None. If it holds the same run, that is resumed from
            its last checkpoint, in the precision that it began in. On a CPU the finished run is bit for bit the same as
            one that was not interrupted, on a GPU with ``deterministic``.
        options: options of the training; the defaults where None.
        report: whether ``report.html`` is written at the end, which needs matplotlib.
        begun: called in the first process when the folder is this run's, before the first step.

    Returns:
        The run, whose folder holds ``options.json``, ``metrics.jsonl``, ``tensorboard/``, ``checkpoint.pt`` and
        ``report.html``.

    Raises:
        ValueError: if recipe, options, dataset and device do not fit together.
        FileNotFoundError: if the dataset does not exist.
        MissingDependencyError: if torchvision or matplotlib is needed and not installed.
        DivergedError: if the loss is no longer a finite number.
        Ident3DError: if the folder holds another run, or a damaged checkpoint.
    """
    if report:
        check_can_draw()
    check_can_log((options or TrainingOptions()).wandb)
    recipe = find_recipe(recipe) if isinstance(recipe, str) else recipe
    options = options or TrainingOptions()
    if options.hardware.threads > 0:
        torch.set_num_threads(options.hardware.threads)
    run = Run(Path(folder) if folder is not None else Path("runs") / f"{recipe.name}-seed{options.seed}")
    hardware = options.hardware
    precision = run.precision() if hardware.precision == "auto" else hardware.precision
    with place(hardware.device, precision, deterministic=hardware.deterministic) as placement:
        train_run(run, recipe, options, root, placement, begun)
        if report and placement.is_first:
            _LOG.info("the report is %s", write_report(run, root, placement.device))
    return run


def train_run(  # noqa: PLR0917 - what a training is made of, each once
    run: Run,
    recipe: Recipe,
    options: TrainingOptions,
    root: str | Path | None,
    placement: Placement,
    begun: Callable[[Run], object] = lambda _: None,
) -> None:
    """Train a run from the beginning or from its last checkpoint; :func:`train` also finds the placement and reports.

    Args:
        run: the run, whose folder is filled.
        recipe: the recipe.
        options: options of the training.
        root: folder of the dataset, of which only the train split is read; None for live images.
        placement: device, precision and processes.
        begun: called in the first process when the folder is this run's, before the first step.

    Raises:
        ValueError: if recipe, options, dataset and device do not fit together.
        Ident3DError: if the folder holds another run, or the loss diverges.
    """
    source = find_source(recipe.pairs)
    images = source.open(root, options, placement.device, in_own_metric=recipe.match_in_own_metric)
    _check_precision(placement, images.resolution)
    check_can_evaluate(images.held_out)
    batch_size = _share_of_batch(recipe.batch_size, placement.world_size)
    conditional = pair_conditional(recipe, images.factors, images.exact_pairs)
    stream = source.stream(images, conditional, batch_size, options.seed)
    trainer = _trainer(run, recipe, options, placement, images)
    placement = trainer.placement
    with run.locked() if placement.is_first else nullcontext():
        run.claim(recipe, options, images, placement, stream.realises)
        if placement.is_first:
            remove_unfinished(run.checkpoint_path)  # left by a run that was killed
            begun(run)
        trainer.resume()
        stream = stream.shard(placement.rank, placement.world_size).from_step(trainer.step)
        groups = content_and_style(conditional, len(images.factors))
        batches = source.batches(stream, options, placement)
        _LOG.info(
            "%s: step %d of %d, in %s on %s",
            *(run.folder, trainer.step, recipe.steps, placement.precision, placement.device),
        )
        schedule = Schedule(recipe.steps, options.intervals)
        about = {"recipe": to_json(recipe), **to_json(options)}
        book = Logbook(run.folder, trainer.step, writes=placement.is_first, wandb=options.wandb, options=about)
        with book as logbook:
            encoder, held_out = trainer.model.encoder, images.held_out
            try:
                trainer.train(batches, schedule, logbook, lambda: evaluate(encoder, held_out, placement.device, groups))
            except KeyboardInterrupt:
                if placement.is_first:
                    _LOG.warning("stopped after step %s: %s", f"{trainer.step:,}", _kept(run))
                raise


def _kept(run: Run) -> str:
    """Return what is left of a training that is stopped."""
    if not run.checkpoint_path.is_file():
        return "there was no checkpoint yet, so the same run starts again at the beginning"
    held = Checkpoint.read(run.checkpoint_path)
    return f"the checkpoint of step {held.step:,} is kept in {run.checkpoint_path}, and the same run goes on from there"


def _trainer(run: Run, recipe: Recipe, options: TrainingOptions, placement: Placement, images: RunImages) -> Trainer:
    several = placement.world_size > 1
    dim = len(images.factors)
    encoder = build_encoder(recipe, dim, images.resolution, options.seed)
    in_step = find_source(recipe.pairs).views * recipe.batch_size // placement.world_size
    step_bytes = step_memory(encoder, in_step, images.resolution, half=placement.half)
    placement = replace(placement, step_bytes=step_bytes)
    if several:
        encoder = join_batch_norm(encoder, placement.device)
    model = TrainedModel(encoder, build_loss(recipe, dim, across_processes=several))
    model.to(placement.device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # a module's to takes it
    identity = run_identity(recipe, options, images.fingerprint, placement.world_size)
    optimiser = build_optimiser(model, recipe)
    return Trainer(model, optimiser, placement, run.checkpoint_path, options.hardware.compile, identity)


def _check_precision(placement: Placement, resolution: int) -> None:
    """Raise ValueError for images so small that training in bfloat16 on a CPU sometimes makes weights NaN.

    In the last stage of a ResNet they are one pixel, surrounded by padding for the 3x3 convolution with stride 2. The
    gradient of the weights that only see padding is 0, but oneDNN leaves uninitialised memory there.
    """
    if placement.half and placement.device.type == "cpu" and resolution < _SMALLEST_HALF:
        raise ValueError(
            f"bfloat16 on a CPU needs images of at least {_SMALLEST_HALF}x{_SMALLEST_HALF}, not "
            f"{resolution}x{resolution}; choose --precision float32"
        )


def _share_of_batch(batch_size: int, world_size: int) -> int:
    if batch_size % world_size:
        raise ValueError(f"a batch of {batch_size} pairs cannot be shared evenly by {world_size} processes")
    return batch_size // world_size
