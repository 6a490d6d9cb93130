"""A run: a recipe, a dataset and a seed, and the folder that holds what comes of them.

:func:`train` is what ``python -m baselines train`` calls.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock, Timeout

from baselines.recipes import Recipe, find_recipe, read_recipe
from baselines.training.checkpoint import Checkpoint, load_state
from baselines.training.data import build_stream, pair_conditional, split_validation
from baselines.training.evaluation import check_can_evaluate, evaluate
from baselines.training.loop import Trainer
from baselines.training.objective import TrainedModel, build_encoder, build_loss, build_optimiser
from baselines.training.options import Resident, TrainingOptions, read_options
from baselines.training.placement import Placement, join_batch_norm, place
from baselines.training.progress import Logbook, Schedule
from ident3d import ThreeDIdent
from ident3d.codec import dumps, read_file, to_json
from ident3d.conditionals import AnisotropicNormal, Normal
from ident3d.conditionals.conditional import Conditional
from ident3d.errors import Ident3DError
from ident3d.files import remove_unfinished, write_text
from ident3d.pairs import StoredPairs

__all__ = ["Run", "content_and_style", "train", "true_precision"]


def true_precision(conditional: Conditional | None, dim: int) -> npt.NDArray[np.float64] | None:
    """Return the (dim,) diagonal of Lambda that a normal conditional stands for; None for others."""
    if isinstance(conditional, Normal):
        return 1 / (2 * np.broadcast_to(np.asarray(conditional.sigma, dtype=np.float64), dim) ** 2)
    if isinstance(conditional, AnisotropicNormal):
        return np.broadcast_to(np.asarray(conditional.precision, dtype=np.float64), dim).copy()
    return None


def content_and_style(conditional: Conditional | None, dim: int) -> dict[str, list[int]]:
    """Return the columns that vary little within a pair ("content") and much ("style").

    Returns:
        Nothing where the conditional has not exactly two scales.
    """
    precision = true_precision(conditional, dim)
    kinds = [] if precision is None else sorted(set(precision.tolist()), reverse=True)
    if precision is None or len(kinds) != 2:
        return {}
    return {name: np.flatnonzero(precision == k).tolist() for name, k in zip(("content", "style"), kinds, strict=True)}


_LOG = logging.getLogger(__name__)

_LIBRARIES = ("ident3d", "torch", "torchvision", "numpy", "faiss-gpu", "faiss-cpu")
_SHARE_OF_GPU, _SHARE_OF_RAM = 0.5, 0.25  # that images may take; a GPU has to hold activations too

_SMALLEST_HALF = 32
"""Width of the smallest images that are trained on in bfloat16 on a CPU: see :func:`_check_precision`."""


def train(
    recipe: Recipe | str,
    root: str | Path,
    folder: str | Path | None = None,
    options: TrainingOptions | None = None,
    *,
    report: bool = True,
) -> Run:
    """Train an encoder on images by a recipe, or resume a training that was interrupted.

    The test split is not read. Every process that torchrun started calls this; the first one writes.

    Args:
        recipe: the recipe, or its name: one of :data:`~baselines.recipes.RECIPES`, or ``package.module:RECIPE``.
        root: folder of the dataset, in any layout; "sample" is the one inside the package.
        folder: folder of the run; ``runs/RECIPE-seedSEED`` where None. If it holds the same run, that is resumed from
            its last checkpoint, and the finished run is the same as one that was not interrupted.
        options: how; the defaults where None.
        report: whether ``report.html`` is written at the end, which needs matplotlib.

    Returns:
        The run, whose folder holds ``options.json``, ``metrics.jsonl``, ``tensorboard/``, ``checkpoint.pt`` and
        ``report.html``.

    Raises:
        ValueError: if recipe, options, dataset and device do not fit together.
        FileNotFoundError: if there is no dataset.
        MissingDependencyError: if torchvision or matplotlib is needed and not installed.
        DivergedError: if the loss is no longer a finite number.
        Ident3DError: if the folder holds another run, or a damaged checkpoint.
    """
    # A report needs the run, and a run's training none of what the report needs.
    from baselines.training.report import check_can_draw, write_report

    if report:
        check_can_draw()
    recipe = find_recipe(recipe) if isinstance(recipe, str) else recipe
    options = options or TrainingOptions()
    if options.hardware.threads > 0:
        torch.set_num_threads(options.hardware.threads)
    run = Run(Path(folder) if folder is not None else Path("runs") / f"{recipe.name}-seed{options.seed}")
    with place(options.hardware.device, options.hardware.precision) as placement:
        run.train(recipe, options, root, placement)
        if report and placement.is_first:
            _LOG.info("the report is %s", write_report(run, root, placement.device))
    return run


@dataclass(frozen=True)
class Run:
    """The folder of a run: ``options.json``, ``metrics.jsonl``, ``tensorboard/``, ``checkpoint.pt``, ``report.html``.

    Attributes:
        folder: the folder.
    """

    folder: Path

    @property
    def checkpoint_path(self) -> Path:
        """The last checkpoint."""
        return self.folder / "checkpoint.pt"

    @property
    def report_path(self) -> Path:
        """The report, one HTML page."""
        return self.folder / "report.html"

    def record(self) -> dict[str, Any]:
        """Return what ``options.json`` holds.

        Raises:
            FileNotFoundError: if the folder holds no run.
            ValueError: if the file cannot be used.
        """
        path = self.folder / "options.json"
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} holds no run: there is no options.json")
        advice = "put back a copy of it, or remove the folder to train again"
        record: dict[str, Any] = read_file(path, advice)
        missing = [key for key in ("options", "dataset", "resolution", "dim") if key not in record]
        if missing or "recipe" not in record["options"]:
            raise ValueError(f"{path} is not that of a run: it has no {', '.join(missing) or 'recipe'}; {advice}")
        return record

    def recipe(self) -> Recipe:
        """Return the run's recipe."""
        return read_recipe(self.record()["options"]["recipe"])

    def options(self) -> TrainingOptions:
        """Return how the recipe is trained."""
        return read_options(self.record()["options"])

    def encoder(self, device: torch.device | str = "cpu") -> tuple[torch.nn.Module, Checkpoint]:
        """Return the trained encoder in evaluation mode, and the checkpoint that it comes from.

        Raises:
            FileNotFoundError: if there is no run, or no checkpoint yet.
            ValueError: if the encoder can no longer be built, or the checkpoint is of another architecture.
            Ident3DError: if the checkpoint is damaged.
        """
        record = self.record()
        held = Checkpoint.read(self.checkpoint_path, device)
        encoder = build_encoder(self.recipe(), record["dim"], record["resolution"], seed=0).to(device)
        load_state(encoder, held.encoder, f"the encoder in {self.checkpoint_path}")
        return encoder.eval(), held

    def train(self, recipe: Recipe, options: TrainingOptions, root: str | Path, placement: Placement) -> None:
        """Train, from the beginning or from the last checkpoint; :func:`train` finds the placement and reports.

        Args:
            recipe: what is trained.
            options: how.
            root: the dataset, of which the train split is read and nothing else.
            placement: where.

        Raises:
            ValueError: if recipe, options, dataset and device do not fit together.
            Ident3DError: if the folder holds another run, or the loss diverges.
        """
        data = ThreeDIdent(root, split="train")
        _check_precision(placement, _resolution(data))
        part, held_out = split_validation(data, options.images.validation, options.seed)
        check_can_evaluate(held_out)
        batch_size = _share_of_batch(recipe.batch_size, placement.world_size)
        stream = build_stream(recipe, part, data, options.seed, batch_size=batch_size)
        trainer = self._trainer(recipe, options, placement, data)
        with self._locked() if placement.is_first else nullcontext():
            self._claim(recipe, options, data, placement)
            if placement.is_first:
                remove_unfinished(self.checkpoint_path)  # what a run that was killed was writing
            trainer.resume()
            stream = stream.shard(placement.rank, placement.world_size).from_step(trainer.step)
            groups = content_and_style(pair_conditional(recipe, data), len(data.factors))
            is_resident = _is_resident(options.images.resident, stream, placement)
            if is_resident:
                stream = stream.on_device(placement.device)
            loader = stream.loader(0 if is_resident else options.images.workers)
            _LOG.info("%s: step %d of %d, on %s", self.folder, trainer.step, recipe.steps, placement.device)
            schedule = Schedule(recipe.steps, options.intervals)
            with Logbook(self.folder, trainer.step, writes=placement.is_first) as logbook:
                encoder = trainer.model.encoder
                trainer.train(loader, schedule, logbook, lambda: evaluate(encoder, held_out, placement.device, groups))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other trainings out of the folder; the system lets go of the lock when a process ends in any way."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / ".lock"
        path.touch()  # FileLock would retry forever where no file can be made
        try:
            with FileLock(path, timeout=0):
                yield
        except Timeout as error:
            raise Ident3DError(
                f"another training is running in {self.folder}; wait for its end, or choose another folder with --out"
            ) from error

    def _trainer(self, recipe: Recipe, options: TrainingOptions, placement: Placement, data: ThreeDIdent) -> Trainer:
        several = placement.world_size > 1
        dim = len(data.factors)
        encoder = build_encoder(recipe, dim, _resolution(data), options.seed)
        if several:
            encoder = join_batch_norm(encoder, placement.device)
        model = TrainedModel(encoder, build_loss(recipe, dim, across_processes=several))
        model.to(placement.device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # a module's to takes it
        identity = _identity(recipe, options, data.fingerprint, placement.world_size)
        optimiser = build_optimiser(model, recipe)
        return Trainer(model, optimiser, placement, self.checkpoint_path, options.hardware.compile, identity)

    def _claim(self, recipe: Recipe, options: TrainingOptions, data: ThreeDIdent, placement: Placement) -> None:
        """Write down what the run is, or check that the folder holds the same one."""
        path = self.folder / "options.json"
        if path.exists():
            held = self.record()
            before = _identity(self.recipe(), self.options(), held["dataset"]["fingerprint"], held["world_size"])
            now = _identity(recipe, options, data.fingerprint, placement.world_size)
            differing = [f"{key} {before[key]!r}, now {now[key]!r}" for key in now if before[key] != now[key]]
            if differing:
                raise Ident3DError(
                    f"{self.folder} holds another run: {'; '.join(differing)}; choose another folder with --out"
                )
        record = {
            "options": {"recipe": to_json(recipe), **to_json(options)},
            "dataset": {"root": str(data.root), "rows": len(data), "fingerprint": data.fingerprint},
            "resolution": _resolution(data),
            "dim": len(data.factors),
            "factors": data.factors.to_json(),
            "world_size": placement.world_size,
            "device": str(placement.device),
            "device_name": _device_name(placement),
            "versions": {"python": platform.python_version(), **_versions()},
        }
        if placement.is_first:
            write_text(path, dumps(record))


def _resolution(data: ThreeDIdent) -> int:
    return data.pixels([0]).shape[1]


def _check_precision(placement: Placement, resolution: int) -> None:
    """Raise ValueError for images so small that bfloat16 on a CPU now and then makes weights NaN.

    In a ResNet's last stage they are one pixel, and the 3x3 convolution with stride 2 sees padding around it. Its
    gradient by the weights that meet padding alone is 0, but oneDNN leaves there what was in memory before.
    """
    if placement.half and placement.device.type == "cpu" and resolution < _SMALLEST_HALF:
        raise ValueError(
            f"bfloat16 on a CPU needs images of at least {_SMALLEST_HALF}x{_SMALLEST_HALF}, not "
            f"{resolution}x{resolution}; choose --precision float32"
        )


def _identity(recipe: Recipe, options: TrainingOptions, fingerprint: str, world_size: int) -> dict[str, Any]:
    """Return what must not change between the parts of a run; how many steps it takes may."""
    same = {key: value for key, value in to_json(recipe).items() if key not in {"steps", "title", "reported_r2"}}
    return {
        **same,
        "seed": options.seed,
        "validation": options.images.validation,
        "precision": options.hardware.precision,
        "dataset": fingerprint,
        "world_size": world_size,
    }


def _share_of_batch(batch_size: int, world_size: int) -> int:
    if batch_size % world_size:
        raise ValueError(f"a batch of {batch_size} pairs cannot be shared evenly by {world_size} processes")
    return batch_size // world_size


def _is_resident(resident: Resident, stream: StoredPairs, placement: Placement) -> bool:
    if resident != "auto":
        return resident == "always"
    one = stream.data.pixels(torch.zeros(1, dtype=torch.int64)).nbytes
    needed = 2 * one * len(stream.data)  # room for exact positives too
    if placement.device.type == "cuda":
        return needed < _SHARE_OF_GPU * torch.cuda.mem_get_info(placement.device)[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return needed * placement.world_size < _SHARE_OF_RAM * memory


def _device_name(placement: Placement) -> str:
    if placement.device.type == "cuda":
        return f"{placement.world_size} {torch.cuda.get_device_name(placement.device)}"[:80]
    return f"{torch.get_num_threads() * placement.world_size} CPU threads"


def _versions() -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
