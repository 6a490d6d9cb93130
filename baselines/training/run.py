"""A run: a recipe, a dataset and a seed, and the folder that holds what comes of them."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from baselines.encoders import ResNetEncoder
from baselines.recipes import Recipe
from baselines.training.checkpoint import Checkpoint, load_state
from baselines.training.data import build_stream, pair_conditional, split_validation
from baselines.training.evaluation import check_can_evaluate, evaluate
from baselines.training.loop import Trainer
from baselines.training.objective import TrainedModel, build_encoder, build_loss, build_optimiser
from baselines.training.options import Intervals
from baselines.training.placement import Placement, Precision, join_batch_norm
from baselines.training.progress import Logbook, Schedule
from ident3d import ThreeDIdent
from ident3d.conditionals import AnisotropicNormal, Normal
from ident3d.conditionals.conditional import Conditional
from ident3d.errors import Ident3DError
from ident3d.files import remove_unfinished, write_text
from ident3d.pairs import PairStream

__all__ = ["Resident", "Run", "RunOptions", "content_and_style", "true_precision"]


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
        Nothing where the conditional has not exactly two widths.
    """
    precision = true_precision(conditional, dim)
    kinds = [] if precision is None else sorted(set(precision.tolist()), reverse=True)
    if precision is None or len(kinds) != 2:
        return {}
    return {name: np.flatnonzero(precision == k).tolist() for name, k in zip(("content", "style"), kinds, strict=True)}


Resident = Literal["auto", "always", "never"]

_LOG = logging.getLogger(__name__)

_LIBRARIES = ("ident3d", "torch", "torchvision", "numpy", "faiss-gpu", "faiss-cpu")
_SHARE_OF_GPU, _SHARE_OF_RAM = 0.5, 0.25  # that images may take; a GPU has to hold activations too

_SMALLEST_HALF = 32
"""Width of the smallest images that are trained on in bfloat16 on a CPU: see :func:`_check_precision`."""


@dataclass(frozen=True)
class RunOptions:
    """How a recipe is run.

    Attributes:
        recipe: the recipe.
        seed: seed of the encoder, the validation part and the pairs.
        validation: images of the train split that are held out to evaluate on.
        device: see :func:`~baselines.training.placement.place`.
        precision: see :func:`~baselines.training.placement.place`.
        compiled: whether the encoder is compiled.
        resident: whether all images are decoded once into the device's memory; "auto": where they take little of it.
        workers: processes that decode images that are not resident.
        log_every: steps between lines of metrics.
        evaluate_every: steps between evaluations.
        checkpoint_every: steps between checkpoints.
    """

    recipe: Recipe
    seed: int = 0
    validation: int = 1000
    device: str = "auto"
    precision: Precision = "auto"
    compiled: bool = False
    resident: Resident = "auto"
    workers: int = 0
    log_every: int = 50
    evaluate_every: int = 1000
    checkpoint_every: int = 500

    @property
    def schedule(self) -> Schedule:
        """When what happens."""
        return Schedule(self.recipe.steps, Intervals(self.log_every, self.evaluate_every, self.checkpoint_every))


@dataclass(frozen=True)
class Run:
    """The folder of a run: ``options.json``, ``metrics.jsonl``, ``tensorboard/``, ``checkpoint.pt``.

    Attributes:
        folder: the folder.
    """

    folder: Path

    @property
    def checkpoint_path(self) -> Path:
        """The last checkpoint."""
        return self.folder / "checkpoint.pt"

    def record(self) -> dict[str, Any]:
        """Return what ``options.json`` holds.

        Raises:
            FileNotFoundError: if the folder holds no run.
        """
        path = self.folder / "options.json"
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} holds no run: there is no options.json")
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record

    def recipe(self) -> Recipe:
        """Return the run's recipe."""
        return Recipe(**self.record()["options"]["recipe"])

    def encoder(self, device: torch.device | str = "cpu") -> tuple[ResNetEncoder, Checkpoint]:
        """Return the trained encoder in evaluation mode, and the checkpoint that it comes from.

        Raises:
            FileNotFoundError: if there is no run, or no checkpoint yet.
            ValueError: if the checkpoint is of another architecture.
        """
        dim = self.record()["dim"]
        held = Checkpoint.read(self.checkpoint_path, device)
        encoder = build_encoder(self.recipe(), dim, seed=0).to(device)
        load_state(encoder, held.encoder, f"the encoder in {self.checkpoint_path}")
        return encoder.eval(), held

    def train(self, options: RunOptions, root: str | Path, placement: Placement) -> None:
        """Train, from the beginning or from the last checkpoint; the finished run is the same either way.

        Args:
            options: how.
            root: the dataset, of which the train split is read and nothing else.
            placement: where.

        Raises:
            ValueError: if options, dataset and device do not fit together.
            Ident3DError: if the folder holds another run, or the loss diverges.
        """
        schedule = options.schedule
        data = ThreeDIdent(root, split="train")
        _check_precision(placement, _resolution(data))
        part, held_out = split_validation(data, options.validation, options.seed)
        check_can_evaluate(held_out)
        batch_size = _share_of_batch(options.recipe.batch_size, placement.world_size)
        stream = build_stream(options.recipe, part, data, options.seed, batch_size=batch_size)
        trainer = self._trainer(options, placement, len(data.factors))
        self._claim(options, data, placement)
        if placement.is_first:
            remove_unfinished(self.checkpoint_path)  # what a run that was killed was writing
        trainer.resume()
        stream = stream.shard(placement.rank, placement.world_size).from_step(trainer.step)
        groups = content_and_style(pair_conditional(options.recipe, data), len(data.factors))
        is_resident = _is_resident(options.resident, stream, placement)
        if is_resident:
            stream = stream.on_device(placement.device)
        loader = stream.loader(0 if is_resident else options.workers)
        _LOG.info("%s: step %d of %d, on %s", self.folder, trainer.step, options.recipe.steps, placement.device)
        with Logbook(self.folder, trainer.step, writes=placement.is_first) as logbook:
            encoder = trainer.model.encoder
            trainer.train(loader, schedule, logbook, lambda: evaluate(encoder, held_out, placement.device, groups))

    def _trainer(self, options: RunOptions, placement: Placement, dim: int) -> Trainer:
        several = placement.world_size > 1
        encoder: torch.nn.Module = build_encoder(options.recipe, dim, options.seed)
        if several:
            encoder = join_batch_norm(encoder, placement.device)
        model = TrainedModel(encoder, build_loss(options.recipe, dim, across_processes=several))
        model.to(placement.device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # a module's to takes it
        optimiser = build_optimiser(model, options.recipe)
        return Trainer(model, optimiser, placement, self.checkpoint_path, options.compiled)

    def _claim(self, options: RunOptions, data: ThreeDIdent, placement: Placement) -> None:
        """Write down what the run is, or check that the folder holds the same one."""
        record = {
            "options": dataclasses.asdict(options),
            "dataset": {"root": str(data.root), "rows": len(data), "fingerprint": data.fingerprint},
            "resolution": _resolution(data),
            "dim": len(data.factors),
            "factors": data.factors.to_json(),
            "world_size": placement.world_size,
            "device": str(placement.device),
            "device_name": _device_name(placement),
            "versions": {"python": platform.python_version(), **_versions()},
        }
        path = self.folder / "options.json"
        if path.exists():
            before, now = _identity(self.record()), _identity(record)
            differing = [
                f"{key} {before.get(key)!r}, now {now.get(key)!r}" for key in now if before.get(key) != now[key]
            ]
            if differing:
                raise Ident3DError(
                    f"{self.folder} holds another run: {'; '.join(differing)}; choose another folder with --out"
                )
        if placement.is_first:
            write_text(path, json.dumps(record, indent=1, allow_nan=False) + "\n")


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


def _identity(record: dict[str, Any]) -> dict[str, Any]:
    """Return what must not change between the parts of a run; how many steps it takes may."""
    options = record["options"]
    recipe = {key: value for key, value in options["recipe"].items() if key not in {"steps", "title", "reported_r2"}}
    same = {key: options[key] for key in ("seed", "validation", "precision")}
    return {**recipe, **same, "dataset": record["dataset"]["fingerprint"], "world_size": record["world_size"]}


def _share_of_batch(batch_size: int, world_size: int) -> int:
    if batch_size % world_size:
        raise ValueError(f"a batch of {batch_size} pairs cannot be shared evenly by {world_size} processes")
    return batch_size // world_size


def _is_resident(resident: Resident, stream: PairStream, placement: Placement) -> bool:
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
