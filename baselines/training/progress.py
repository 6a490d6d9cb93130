"""Progress of a training: the schedule, the estimate of its time, the clock, and the logbook of metrics."""

from __future__ import annotations

import json
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from baselines.training.options import Intervals
from ident3d.codec import read_file
from ident3d.errors import MissingDependencyError
from ident3d.files import write_text
from ident3d.progress import duration

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["Clock", "Estimate", "Logbook", "Schedule", "check_can_log", "read_metrics"]

_LOG = logging.getLogger("ident3d.baselines")
_LONG_SECONDS = 600.0
_ROUNDING = 1e-9  # of an interval, by which rounding may miss a multiple of it


@dataclass(frozen=True)
class Schedule:
    """The length of a training, and when recurring work is due; all of it is due at the end too.

    Attributes:
        length: length of the training, in steps, or in seconds if its time is limited.
        intervals: intervals of a training by steps.
    """

    length: float
    intervals: Intervals = field(default_factory=Intervals)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.length) and self.length > 0):
            raise ValueError(f"expected a positive, finite length of a training, not {self.length}")

    def share(self, position: float) -> float:
        """Return the fraction of the training that is done at a position, from 0 to 1."""
        return min(1.0, position / self.length)

    def is_due(self, every: float, position: float, before: float | None = None) -> bool:
        """Return whether recurring work is due at a position.

        Args:
            every: interval of the work.
            position: steps or seconds done.
            before: steps or seconds that were done at the last call; one step less where None. A negative number means
                that this is the first call, at which the work is due.
        """
        last = position - 1 if before is None else before
        if position >= self.length > last:
            return True
        return math.floor(position / every + _ROUNDING) > math.floor(last / every + _ROUNDING)


class Estimate:
    """Says, after the first steps of a training, how long all of them will take, if that is long.

    Args:
        steps: steps to do.
        device: what they are done on, in words.
    """

    _BEFORE, _MEASURED = 2, 3  # the first steps choose algorithms and allocate memory

    def __init__(self, steps: int, device: str) -> None:
        self._steps, self._device = steps, device
        self._count, self._start = 0, 0.0

    def count(self, wait: Callable[[], object]) -> None:
        """Count a step.

        Args:
            wait: waits until the step is done, which a device may do later than it is asked to.
        """
        self._count += 1
        if self._count == self._BEFORE:
            wait()
            self._start = time.perf_counter()
        elif self._count == self._BEFORE + self._MEASURED:
            wait()
            seconds = (time.perf_counter() - self._start) / self._MEASURED
            left = seconds * (self._steps - self._count)
            if left > _LONG_SECONDS:
                _LOG.info(
                    "about %s for %s steps on this %s, at %.3g s a step; --steps and --batch-size shorten it",
                    duration(left), f"{self._steps:,}", self._device, seconds,
                )  # fmt: skip


class Clock:
    """Measures the time between readings."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._waited = 0.0

    def read(self, images: int, waited: float) -> dict[str, float]:
        """Return rates since the last reading.

        Args:
            images: number of images since then.
            waited: seconds spent waiting for batches since the start.

        Returns:
            "images_per_second", "waiting" (a fraction of the time) and "seconds".
        """
        now = time.perf_counter()
        seconds = now - self._start
        share = (waited - self._waited) / seconds
        self._start, self._waited = now, waited
        return {"images_per_second": images / seconds, "waiting": share, "seconds": seconds}

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Exclude the time of a block from the measurement."""
        start = time.perf_counter()
        yield
        self._start += time.perf_counter() - start


class Logbook:
    """The metrics of a run, as JSON lines in ``metrics.jsonl`` and in ``tensorboard/``; a context manager.

    Args:
        folder: folder of the run.
        step: number of steps done; lines about later steps, which a resumed run repeats, are removed.
        writes: whether this process writes.
        wandb: project of Weights & Biases that the metrics go to as well; None for none. A run that is resumed goes on
            in the one that ``wandb.json`` in its folder names.
        options: what the run is, for Weights & Biases.

    Raises:
        MissingDependencyError: if wandb is not installed and a project is given.
    """

    def __init__(
        self,
        folder: Path,
        step: int = 0,
        *,
        writes: bool = True,
        wandb: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder
        self._project, self._options = wandb if writes else None, dict(options or {})
        self._remote: Any = None
        self._path = folder / "metrics.jsonl"
        self._board = folder / "tensorboard"
        self._writes = writes
        self._step = step
        self._writer: SummaryWriter | None = None
        if not writes:
            return
        kept = [line for line in read_metrics(folder) if line["step"] <= step] if self._path.exists() else []
        write_text(self._path, "".join(_as_line(line) for line in kept))

    def __enter__(self) -> Self:
        if not self._writes:
            return self
        if self._project is not None:
            self._remote = _wandb().init(
                project=self._project,
                dir=str(self._folder),
                name=self._folder.name,
                id=_wandb_id(self._folder),
                resume="allow",
                config=self._options,
            )
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return self  # the JSON lines hold the same numbers
        self._writer = SummaryWriter(str(self._board), purge_step=self._step + 1)
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._remote is not None:
            self._remote.finish(exit_code=0 if error[:1] in {(), (None,)} else 1)

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Write the metrics of a step; NaN and infinity, which JSON lacks, as null."""
        if not self._writes:
            return
        finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_as_line({"step": step, **finite}))
        if self._remote is not None:
            self._remote.log(metrics, step=step)
        if self._writer is not None:
            for name, value in metrics.items():
                self._writer.add_scalar(name, value, step)


def check_can_log(project: str | None) -> None:
    """Raise MissingDependencyError if metrics are to go to Weights & Biases and it is not installed."""
    if project is not None:
        _wandb()


def _wandb() -> Any:
    try:
        import wandb
    except ImportError as error:
        raise MissingDependencyError("wandb", "log to Weights & Biases", "wandb") from error
    return wandb


def _wandb_id(folder: Path) -> str:
    """Return the name of a run of Weights & Biases, which stays the same when the training is resumed."""
    path = folder / "wandb.json"
    if not path.exists():
        write_text(path, json.dumps({"id": secrets.token_hex(8)}) + "\n")
    found = read_file(path, "remove it to begin a new run of Weights & Biases")
    identity = found.get("id") if isinstance(found, dict) else None
    if not identity:
        raise ValueError(f"{path} names no run; remove it to begin a new run of Weights & Biases")
    return str(identity)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Read the metrics of a run, in the order in which they were written; an incomplete last line is ignored.

    Raises:
        FileNotFoundError: if there are none yet.
        ValueError: if the file is damaged.
    """
    path, advice = folder / "metrics.jsonl", "remove the lines that are damaged"
    lines: list[dict[str, Any]] = read_file(path, advice)
    for number, line in enumerate(lines, 1):
        if not isinstance(line, dict) or type(line.get("step")) is not int:
            raise ValueError(f"{path}, entry {number}: expected an object with the number of a step; {advice}")
    return lines


def _as_line(metrics: dict[str, Any]) -> str:
    return json.dumps(metrics, allow_nan=False) + "\n"
