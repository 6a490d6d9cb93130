"""What a run writes down: metrics as JSON lines and for TensorBoard."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ident3d.files import write_text

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["Logbook", "read_metrics"]


class Logbook:
    """The metrics of a run, one JSON object a line in ``metrics.jsonl``, and in ``tensorboard/``; a context manager.

    Args:
        folder: the run's folder.
        step: steps that were done before; what was written about later ones, which a resumed run takes again, is
            removed.
        writes: whether this process is the one that writes.
    """

    def __init__(self, folder: Path, step: int = 0, *, writes: bool = True) -> None:
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
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return self  # the JSON lines hold the same numbers
        self._writer = SummaryWriter(str(self._board), purge_step=self._step + 1)
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Write down numbers about a step; NaN and infinity, which JSON lacks, as null."""
        if not self._writes:
            return
        finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_as_line({"step": step, **finite}))
        if self._writer is not None:
            for name, value in metrics.items():
                self._writer.add_scalar(name, value, step)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Read the metrics of a run, in the order in which they were written; a line that a kill cut short is left out."""
    lines = []
    for text in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def _as_line(metrics: dict[str, Any]) -> str:
    return json.dumps(metrics, allow_nan=False) + "\n"
