"""A run: a recipe, a dataset and a seed, and the folder that holds what comes of them.

:func:`baselines.training.train` fills the folder; everything that is made of a trained encoder starts from it.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from filelock import FileLock, Timeout

from baselines.recipes import Recipe, read_recipe
from baselines.training.checkpoint import Checkpoint, load_state
from baselines.training.objective import build_encoder
from baselines.training.options import Precision, TrainingOptions, read_options
from baselines.training.placement import Placement
from baselines.training.progress import read_metrics
from ident3d.codec import dumps, read_file, to_json
from ident3d.errors import Ident3DError
from ident3d.files import write_text

if TYPE_CHECKING:
    from baselines.pairs import RunImages

__all__ = ["Run", "run_identity"]

T = TypeVar("T")

_LOG = logging.getLogger("ident3d.baselines")

_ADVICE = "put back a copy of it, or remove the folder to train again"
_KINDS = {"options": dict, "dataset": dict, "resolution": int, "dim": int}
"""What ``options.json`` holds in any case."""
_LIBRARIES = ("ident3d", "torch", "torchvision", "numpy", "faiss-gpu", "faiss-cpu")


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

    @property
    def config_path(self) -> Path:
        """The options as ``python -m baselines train --config`` takes them."""
        return self.folder / "config.toml"

    def write_config(self, text: str) -> None:
        """Write ``config.toml``, and say what is in it."""
        write_text(self.config_path, text)
        _LOG.info("options, also in %s:\n%s", self.config_path, text.rstrip())

    def summary(self) -> str:
        """Return the last scores by group of factors, and the files that hold the rest, in a few lines.

        Raises:
            FileNotFoundError: if the folder holds no run, or no metrics yet.
            ValueError: if one of its files is damaged.
        """
        record = self.record()
        lines = [line for line in read_metrics(self.folder) if line.get("r2") is not None]
        files = f"checkpoint {self.checkpoint_path}"
        if self.report_path.is_file():
            files += f", report {self.report_path}"
        if not lines:
            return files
        last, groups = lines[-1], dict[str, list[str]]()
        for factor in record.get("factors", ()):
            groups.setdefault(factor["group"], []).append(factor["name"])

        def mean(metric: str, names: list[str]) -> float:
            return fmean(last[f"{metric}/{name}"] for name in names)

        parts = [f"{group} {mean('r2', names):.3f}" for group, names in groups.items()]
        scores = f"step {last['step']:,}, validation: R2 {last['r2']:.3f} ({', '.join(parts)}), MCC {last['mcc']:.3f}"
        return f"{scores}\n{files}"

    def record(self) -> dict[str, Any]:
        """Return the content of ``options.json``.

        Raises:
            FileNotFoundError: if the folder holds no run.
            ValueError: if the file is damaged.
        """
        path = self.folder / "options.json"
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} holds no run: there is no options.json")
        record: dict[str, Any] = read_file(path, _ADVICE)
        wrong = [
            key for key, kind in _KINDS.items() if not (isinstance(record, dict) and type(record.get(key)) is kind)
        ]
        if not wrong and not isinstance(record["options"].get("recipe"), dict):
            wrong = ["options.recipe"]
        if wrong:
            raise ValueError(f"{path} is not that of a run: it holds no usable {', '.join(wrong)}; {_ADVICE}")
        return record

    def recipe(self) -> Recipe:
        """Return the run's recipe."""
        return self._read(read_recipe, self.record()["options"]["recipe"])

    def options(self) -> TrainingOptions:
        """Return the options of the training."""
        return self._read(read_options, self.record()["options"])

    def _read(self, reader: Callable[[Mapping[str, Any]], T], data: Mapping[str, Any]) -> T:
        try:
            return reader(data)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.folder / 'options.json'}: {error}; {_ADVICE}") from error

    def encoder(self, device: torch.device | str = "cpu") -> tuple[torch.nn.Module, Checkpoint]:
        """Return the trained encoder in evaluation mode, and its checkpoint.

        Raises:
            FileNotFoundError: if there is no run, or no checkpoint yet.
            ValueError: if the encoder can no longer be built, or the checkpoint is of another architecture.
            Ident3DError: if the checkpoint is damaged.
        """
        record = self.record()
        held = Checkpoint.read(self.checkpoint_path)
        encoder = build_encoder(self.recipe(), record["dim"], record["resolution"], seed=0).to(device)
        load_state(encoder, held.encoder, f"the encoder in {self.checkpoint_path}")
        return encoder.eval(), held

    def training_images(self) -> str:
        """Return what the encoder is trained on, in words.

        Raises:
            FileNotFoundError: if the folder holds no run.
            ValueError: if its ``options.json`` is damaged.
        """
        record = self.record()
        rows, is_live = record["dataset"]["rows"], "live" in record["dataset"]
        size = f"{record['resolution']}x{record['resolution']}"
        if rows is None:
            return f"live images of {size}, all fresh"
        return f"{'a pool of' if is_live else 'train split,'} {rows} {'live ' if is_live else ''}images of {size}"

    def precision(self) -> Precision:
        """Return the precision that the run began in; "auto" if it has not begun, or nothing tells."""
        known = (self.folder / "options.json").is_file()
        precision: Precision = self.record().get("precision", "auto") if known else "auto"
        return precision

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other trainings out of the folder; the lock ends with the process, however that ends.

        Raises:
            Ident3DError: if another training is running in the folder.
        """
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

    def claim(
        self, recipe: Recipe, options: TrainingOptions, images: RunImages, placement: Placement, pairs: str
    ) -> None:
        """Write ``options.json``, after a check that the folder does not hold another run.

        Args:
            recipe: what is trained.
            options: how.
            images: what it is trained on and evaluated on.
            placement: where; the first process writes.
            pairs: what its pairs realise, in a sentence; ``PairStream.realises`` is it.

        Raises:
            Ident3DError: if the folder holds another run; what differs is named.
        """
        path = self.folder / "options.json"
        if path.exists():
            held = self.record()
            before = run_identity(
                self.recipe(), self.options(), held["dataset"].get("fingerprint"), held.get("world_size")
            )
            now = run_identity(recipe, options, images.fingerprint, placement.world_size)
            differing = [f"{key} {before[key]!r}, now {now[key]!r}" for key in now if before[key] != now[key]]
            if differing:
                raise Ident3DError(
                    f"{self.folder} holds another run: {'; '.join(differing)}; choose another folder with --out"
                )
            began = held.get("precision", placement.precision)
            if began != placement.precision:
                raise Ident3DError(
                    f"{self.folder} holds a run that began in {began} on {held.get('device_name')}, and would go on in "
                    f"{placement.precision} on {placement.device}; resume it where it began, or choose another folder "
                    "with --out"
                )
        record = {
            "options": {"recipe": to_json(recipe), **to_json(options)},
            "dataset": images.record(),
            "pairs": pairs,
            "resolution": images.resolution,
            "dim": len(images.factors),
            "factors": images.factors.to_json(),
            "world_size": placement.world_size,
            "precision": placement.precision,
            "deterministic": placement.deterministic or placement.device.type == "cpu",
            "device": str(placement.device),
            "device_name": _device_name(placement),
            "versions": {"python": platform.python_version(), **_versions()},
        }
        if placement.is_first:
            write_text(path, dumps(record))


def run_identity(
    recipe: Recipe, options: TrainingOptions, fingerprint: str | None, world_size: int | None
) -> dict[str, Any]:
    """Return what must not change when a run is resumed, as plain data; the number of steps may."""
    same = {key: value for key, value in to_json(recipe).items() if key not in {"steps", "title", "reported_r2"}}
    return {
        **same,
        "seed": options.seed,
        "validation": options.images.validation,
        "precision": options.hardware.precision,
        "dataset": fingerprint,
        "world_size": world_size,
    }


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
