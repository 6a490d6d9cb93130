"""Results of experiments: their JSON file, and the parts of every study's tables and plots.

An :class:`ExperimentResult` holds every score of every run of one row or point, with its provenance: command, machine,
versions, load. Those of a study are stored in one file, from which its Markdown and plots can be made again.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

import ident3d
from baselines.synthetic.training import PAPER, RunScores
from ident3d.codec import read_file
from ident3d.errors import Ident3DError, MissingDependencyError
from ident3d.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "ExperimentResult",
    "convergence_figure",
    "footer",
    "markdown_table",
    "mean_and_std",
    "new_figure",
    "percent",
    "provenance",
    "read_results",
    "save_figure",
    "write_results",
]

_SCORE_NAMES = {"r2": "R2 up to affine maps", "mcc": "MCC"}
_SCHEMA = 1
_LIST_OF_NUMBERS = re.compile(r"(?<=\[)\n[\s\d.,eE+-]+(?=\])")  # the scores of a run are written on one line


@dataclass(frozen=True)
class ExperimentResult:
    """The result of one row or point of a study.

    Attributes:
        number: its number in the study.
        about: its description, and what the paper reports, as plain data.
        experiment: full description of the experiment.
        seeds: one per run.
        history: the scores during training.
        identity: the scores of the observations themselves.
        supervised: the scores of the supervised model; None if it was not trained.
        provenance: command, machine, versions, time.
    """

    number: int
    about: Mapping[str, Any]
    experiment: str
    seeds: tuple[int, ...]
    history: tuple[RunScores, ...]
    identity: RunScores
    supervised: RunScores | None
    provenance: Mapping[str, Any]

    @property
    def final(self) -> RunScores:
        """The scores at the end of the training."""
        return self.history[-1]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "number": self.number,
            **self.about,
            "experiment": self.experiment,
            "seeds": list(self.seeds),
            "measured": {
                "unsupervised": _scores(self.final),
                "supervised": None if self.supervised is None else _scores(self.supervised),
                "identity": _scores(self.identity),
            },
            "steps": self.final.step,
            "seconds": round(self.final.seconds, 1),
            "provenance": dict(self.provenance),
            "runs": {
                "identity": self.identity.to_json(),
                "supervised": None if self.supervised is None else self.supervised.to_json(),
                "history": [scores.to_json() for scores in self.history],
            },
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ExperimentResult:
        """Return the result that :meth:`to_json` gave."""
        derived = {"number", "experiment", "seeds", "measured", "steps", "seconds", "provenance", "runs"}
        runs = data["runs"]
        return cls(
            number=data["number"],
            about={key: value for key, value in data.items() if key not in derived},
            experiment=data["experiment"],
            seeds=tuple(data["seeds"]),
            history=tuple(RunScores.from_json(scores) for scores in runs["history"]),
            identity=RunScores.from_json(runs["identity"]),
            supervised=None if runs["supervised"] is None else RunScores.from_json(runs["supervised"]),
            provenance=data["provenance"],
        )


def write_results(path: Path, study: str, budget: Mapping[str, Any], results: Mapping[int, ExperimentResult]) -> None:
    """Write the results of a study to a JSON file, whole or not at all."""
    document = {
        "schema": _SCHEMA,
        "study": study,
        "budget": dict(budget),
        "outcomes": [results[number].to_json() for number in sorted(results)],
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, _LIST_OF_NUMBERS.sub(lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n")


def read_results(path: Path, study: str, budget: Mapping[str, Any]) -> dict[int, ExperimentResult]:
    """Read the results of a study, by number; empty if there is no file.

    Raises:
        Ident3DError: if the file is of another study or budget, or cannot be read.
    """
    if not path.exists():
        return {}
    try:
        document = read_file(path, "move it away")
        known = (document["schema"], document["study"], document["budget"])
        results = [ExperimentResult.from_json(data) for data in document["outcomes"]]
    except ValueError as error:
        raise Ident3DError(str(error)) from error
    except (LookupError, TypeError, AttributeError) as error:
        raise Ident3DError(f"{path} does not hold results that can be read: {error!r}; move it away") from error
    if known != (_SCHEMA, study, dict(budget)):
        raise Ident3DError(
            f"{path} holds results of {known[1]} with the budget {known[2]}, not of {study} with {dict(budget)}; "
            "choose another --out"
        )
    return {result.number: result for result in results}


def provenance(device: torch.device) -> dict[str, Any]:
    """Return how a result was made, for comparisons, as plain data."""
    arguments = sys.orig_argv[1:] if len(sys.orig_argv) > 1 else sys.argv
    return {
        "command": shlex.join(["python", *arguments]),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "versions": {
            "ident3d": ident3d.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }


def markdown_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def percent(scores: RunScores | None, metric: str) -> str:
    """Return a score in percent, mean and standard deviation over runs."""
    return "not run" if scores is None else mean_and_std(100 * np.array(scores.mean(metric), dtype=np.float64))


def mean_and_std(values: npt.NDArray[np.float64]) -> str:
    """Return the mean and the standard deviation of (S,) values; that of a single run alone, which has no deviation."""
    return f"{values.mean():.2f}" + (f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else "")


def footer(results: Mapping[int, ExperimentResult], budget: Mapping[str, object]) -> str:
    """Return the lines under a table that say how it was made."""
    held = list(results.values())
    commands = dict.fromkeys(str(result.provenance["command"]) for result in held)
    machines = dict.fromkeys(
        f"{result.provenance['processor']}, {result.provenance['device']}, "
        f"threads: {result.provenance['threads']}, hidden layers in "
        f"{result.provenance['hidden_layers']}, torch {result.provenance['versions']['torch']}"
        for result in held
    )
    loads = [float(result.provenance["load"]) for result in held if result.provenance["load"] is not None]
    seconds = sum(result.final.seconds for result in held)
    runs = sorted({len(result.seeds) for result in held})
    steps = sorted({result.final.step for result in held})
    how = (
        f"{_of_seeds(runs)}. Budget {budget['name']}: {budget['dim']} latents, "
        f"batches of {budget['batch']}, {_span(steps)} steps{_of_all(budget)}. "
        f"Training took {seconds:.0f} s for all rows together"
        + (f", at load averages of {min(loads):g} to {max(loads):g}." if loads else ".")
    )
    lines = [
        how,
        *(f"Machine: {machine}." for machine in machines),
        *(f"Command: `{command}`" for command in commands),
    ]
    return "\n\n".join(lines) + "\n"


def convergence_figure(results: Mapping[int, ExperimentResult], metric: str) -> Figure:
    """Plot a score against the steps, a line a row: the mean over seeds, and the range between them shaded."""
    figure = new_figure(9, 4.5)
    axes = figure.subplots()
    for number, result in sorted(results.items()):
        steps = [scores.step for scores in result.history]
        runs = np.array([scores.mean(metric) for scores in result.history])
        label = f"{number}: {result.about['process']} → {result.about['model']}"
        (line,) = axes.plot(steps, runs.mean(1), label=label, linestyle="-" if number <= 10 else "--")
        axes.fill_between(steps, runs.min(1), runs.max(1), color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel="step", ylabel=_SCORE_NAMES[metric], ylim=(0, 1.02))
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, its size in inches.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "plot results", "plot") from error
    return Canvas(figsize=(width, height), layout="tight")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG: the same bytes for the same figure, text kept as text."""
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ident3d", "path.simplify": True}):
        figure.savefig(path, format="svg", metadata={"Date": None}, bbox_inches="tight")


def _scores(scores: RunScores) -> dict[str, Any]:
    """Return the mean and the standard deviation over runs of R2 and MCC; the deviation of one run is null."""
    found: dict[str, Any] = {}
    for metric in ("r2", "mcc"):
        runs = scores.mean(metric)
        found[metric] = {
            "mean": round(float(np.mean(runs)), 6),
            "std": round(float(np.std(runs, ddof=1)), 6) if len(runs) > 1 else None,
        }
    return found


def _of_seeds(runs: Sequence[int]) -> str:
    return "One seed" if set(runs) == {1} else f"Mean ± standard deviation over {_span(runs)} seeds"


def _of_all(budget: Mapping[str, object]) -> str:
    """Return of how many steps a training is the beginning, where it is the beginning of the paper's."""
    return f" of the paper's {PAPER.steps:,}" if str(budget["name"]).startswith(f"{PAPER.name}-") else ""


def _span(values: Sequence[int]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _processor() -> str:
    """Return the processor's name; only its architecture where the system does not tell."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
