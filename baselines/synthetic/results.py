"""Outcomes of experiments, on disk as strict JSON."""

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
from baselines.synthetic.experiments import CONDITIONAL_CONCENTRATION, AnisotropicRow, ConcentrationPoint, Row
from baselines.synthetic.training import PAPER, Snapshot
from ident3d.errors import Ident3DError, MissingDependencyError
from ident3d.files import write_text

__all__ = [
    "Outcome",
    "aninfonce_markdown",
    "concentration_figure",
    "concentration_markdown",
    "convergence_figure",
    "footer",
    "precision_figure",
    "provenance",
    "read_outcomes",
    "save_figure",
    "table_markdown",
    "write_outcomes",
]

_SCHEMA = 1
_LIST_OF_NUMBERS = re.compile(r"(?<=\[)\n[\s\d.,eE+-]+(?=\])")  # a run's scores stand on one line


@dataclass(frozen=True)
class Outcome:
    """What came of one row or point.

    Attributes:
        number: its place in the study.
        about: what it is, and what the paper reports, as plain data.
        experiment: the experiment in full.
        seeds: one a run.
        history: what was seen while the runs trained.
        identity: the scores of the observations themselves.
        supervised: the scores of the supervised model; None where it was not trained.
        provenance: command, machine, versions, time.
    """

    number: int
    about: Mapping[str, Any]
    experiment: str
    seeds: tuple[int, ...]
    history: tuple[Snapshot, ...]
    identity: Snapshot
    supervised: Snapshot | None
    provenance: Mapping[str, Any]

    @property
    def final(self) -> Snapshot:
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
                "history": [snapshot.to_json() for snapshot in self.history],
            },
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        """Return the outcome of plain data."""
        derived = {"number", "experiment", "seeds", "measured", "steps", "seconds", "provenance", "runs"}
        runs = data["runs"]
        return cls(
            number=data["number"],
            about={key: value for key, value in data.items() if key not in derived},
            experiment=data["experiment"],
            seeds=tuple(data["seeds"]),
            history=tuple(Snapshot.from_json(snapshot) for snapshot in runs["history"]),
            identity=Snapshot.from_json(runs["identity"]),
            supervised=None if runs["supervised"] is None else Snapshot.from_json(runs["supervised"]),
            provenance=data["provenance"],
        )


def write_outcomes(path: Path, study: str, budget: Mapping[str, Any], outcomes: Mapping[int, Outcome]) -> None:
    """Write the outcomes of a study to a JSON file, whole or not at all."""
    document = {
        "schema": _SCHEMA,
        "study": study,
        "budget": dict(budget),
        "outcomes": [outcomes[number].to_json() for number in sorted(outcomes)],
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, _LIST_OF_NUMBERS.sub(lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n")


def read_outcomes(path: Path, study: str, budget: Mapping[str, Any]) -> dict[int, Outcome]:
    """Read the outcomes of a study by their numbers; none where there is no file.

    Raises:
        Ident3DError: if the file is of another study or budget, or cannot be read.
    """
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        known = (document["schema"], document["study"], document["budget"])
        outcomes = [Outcome.from_json(data) for data in document["outcomes"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Ident3DError(f"{path} does not hold results that can be read: {error!r}; move it away") from error
    if known != (_SCHEMA, study, dict(budget)):
        raise Ident3DError(
            f"{path} holds results of {known[1]} with the budget {known[2]}, not of {study} with {dict(budget)}; "
            "choose another --out"
        )
    return {outcome.number: outcome for outcome in outcomes}


def _scores(snapshot: Snapshot) -> dict[str, Any]:
    """Return the mean and the standard deviation over runs of R2 and MCC; the deviation of one run is null."""
    scores: dict[str, Any] = {}
    for metric in ("r2", "mcc"):
        runs = snapshot.mean(metric)
        scores[metric] = {
            "mean": round(float(np.mean(runs)), 6),
            "std": round(float(np.std(runs, ddof=1)), 6) if len(runs) > 1 else None,
        }
    return scores


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_NAMES = {"r2": "R2 up to affine maps", "mcc": "MCC"}


def convergence_figure(outcomes: Mapping[int, Outcome], metric: str) -> Figure:
    """Plot a score against the steps, a line a row: the mean over seeds, and the range between them shaded."""
    figure = _figure(9, 4.5)
    axes = figure.subplots()
    for number, outcome in sorted(outcomes.items()):
        steps = [snapshot.step for snapshot in outcome.history]
        runs = np.array([snapshot.mean(metric) for snapshot in outcome.history])
        label = f"{number}: {outcome.about['process']} → {outcome.about['model']}"
        (line,) = axes.plot(steps, runs.mean(1), label=label, linestyle="-" if number <= 10 else "--")
        axes.fill_between(steps, runs.min(1), runs.max(1), color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel="step", ylabel=_NAMES[metric], ylim=(0, 1.02))
    _beside(axes)
    return figure


def concentration_figure(points: Sequence[ConcentrationPoint], outcomes: Mapping[int, Outcome]) -> Figure:
    """Plot Figure 2: R2 and the mass to move against the marginal's concentration, a panel a space."""
    panels = [panel for panel in CONDITIONAL_CONCENTRATION if any(p.panel == panel for p in points)]
    figure = _figure(4.5 * len(panels), 3.6)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        members = [point for point in points if point.panel == panel and point.number in outcomes]
        at = [point.concentration for point in members]
        runs = 100 * np.array([outcomes[point.number].final.mean("r2") for point in members])
        mass = [100 * float(outcomes[point.number].about["mass_to_move"]) for point in members]
        if members:
            deviation = runs.std(1, ddof=1) if runs.shape[1] > 1 else None
            axes.errorbar(at, runs.mean(1), deviation, color="black", marker="o", markersize=3, label="R2 [%]")
        axes.plot(at, mass, color="tab:blue", marker="s", markersize=3, label="mass to move [%]")
        axes.axvline(CONDITIONAL_CONCENTRATION[panel], color="black", linestyle=":", label="conditional")
        axes.set(xscale="log", ylim=(-2, 102), title=panel.capitalize())
        axes.set_xlabel(
            "concentration κ of the marginal" if panel == "sphere" else "concentration 1/σ² of the marginal"
        )
        axes.legend(frameon=False, fontsize=8)
    return figure


def precision_figure(rows: Sequence[AnisotropicRow], outcomes: Mapping[int, Outcome]) -> Figure:
    """Plot AnInfoNCE's learned Lambda, sorted, against the true one, a panel a spectrum, in the formula without 1/2."""
    members = [row for row in rows if row.number in outcomes and outcomes[row.number].final.precision is not None]
    figure = _figure(4 * max(1, len(members)), 3.6)
    for axes, row in zip(figure.subplots(1, max(1, len(members)), squeeze=False)[0], members, strict=False):
        learned = np.sort(np.array(outcomes[row.number].final.precision))[:, ::-1]
        place = np.arange(1, learned.shape[1] + 1)
        axes.plot(place, sorted(row.precision, reverse=True), color="black", drawstyle="steps-mid", label="true Λ")
        for run, seed in zip(learned, outcomes[row.number].seeds, strict=True):
            axes.plot(place, run, marker="o", markersize=4, linestyle="", label=f"learned, seed {seed}")
        axes.set(title=row.process_label, xlabel="entry of Λ, largest first", ylabel="Λ", ylim=(0, None), xticks=place)
        axes.legend(frameon=False, fontsize=8)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG: the same bytes for the same figure, text kept as text."""
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ident3d", "path.simplify": True}):
        figure.savefig(path, format="svg", metadata={"Date": None}, bbox_inches="tight")


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "plot results", "plot") from error
    return Canvas(figsize=(width, height), layout="tight")


def _beside(axes: Axes) -> None:
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))


_HEADINGS = {"r2": "R2", "mcc": "MCC"}


def table_markdown(rows: Sequence[Row], outcomes: Mapping[int, Outcome]) -> str:
    """Return Table 1 or 2: every measured row, in percent, each score with the paper's after it."""
    metric = rows[0].metric
    head = ["Row", "Space, p(z), p(z_pos, given z)", "Model space, q_h", "M."]
    head += [f"{kind} {_HEADINGS[metric]} (paper)" for kind in ("Identity", "Supervised", "Unsupervised")]
    body = []
    for row in rows:
        if row.number not in outcomes:
            continue
        outcome = outcomes[row.number]
        kinds = [
            (outcome.identity, row.identity),
            (outcome.supervised, row.supervised),
            (outcome.final, row.unsupervised),
        ]
        scores = [
            percent(snapshot, metric) + ("" if reported is None else f" ({reported})") for snapshot, reported in kinds
        ]
        body.append([str(row.number), row.process_label, row.model_label, "✓" if row.matches else "✗", *scores])
    return _table(head, body)


def aninfonce_markdown(rows: Sequence[AnisotropicRow], outcomes: Mapping[int, Outcome]) -> str:
    """Return the scores of content and style apart, and the learned Lambda against the truth."""
    head = ["Row", "Process", "Model", "R2 content", "R2 style", "R2", "MCC", "True Λ", "Learned Λ"]
    body = []
    for row in rows:
        if row.number not in outcomes:
            continue
        final = outcomes[row.number].final
        r2 = np.array(final.r2)
        body.append(
            [
                str(row.number),
                row.process_label,
                row.model_label,
                _mean_and_std(100 * r2[:, : row.content].mean(1)),
                _mean_and_std(100 * r2[:, row.content :].mean(1)),
                percent(final, "r2"),
                percent(final, "mcc"),
                _numbers(row.precision),
                "not learned" if final.precision is None else _numbers(np.sort(final.precision)[:, ::-1].mean(0)),
            ]
        )
    return _table(head, body)


def concentration_markdown(points: Sequence[ConcentrationPoint], outcomes: Mapping[int, Outcome]) -> str:
    """Return the points of Figure 2."""
    head = ["Point", "Space", "Marginal's concentration", "Conditional's", "Mass to move", "R2"]
    body = [
        [
            str(point.number),
            point.panel.capitalize(),
            f"{point.concentration:g}",
            f"{CONDITIONAL_CONCENTRATION[point.panel]:g}",
            f"{100 * float(outcomes[point.number].about['mass_to_move']):.0f}%",
            percent(outcomes[point.number].final, "r2"),
        ]
        for point in points
        if point.number in outcomes
    ]
    return _table(head, body)


def footer(outcomes: Mapping[int, Outcome], budget: Mapping[str, object]) -> str:
    """Return the lines under a table that say how it was made."""
    held = list(outcomes.values())
    commands = dict.fromkeys(str(outcome.provenance["command"]) for outcome in held)
    machines = dict.fromkeys(
        f"{outcome.provenance['processor']}, {outcome.provenance['device']}, "
        f"threads: {outcome.provenance['threads']}, hidden layers in "
        f"{outcome.provenance['hidden_layers']}, torch {outcome.provenance['versions']['torch']}"
        for outcome in held
    )
    loads = [float(outcome.provenance["load"]) for outcome in held if outcome.provenance["load"] is not None]
    seconds = sum(outcome.final.seconds for outcome in held)
    runs = sorted({len(outcome.seeds) for outcome in held})
    steps = sorted({outcome.final.step for outcome in held})
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


def _of_seeds(runs: Sequence[int]) -> str:
    return "One seed" if set(runs) == {1} else f"Mean ± standard deviation over {_span(runs)} seeds"


def _of_all(budget: Mapping[str, object]) -> str:
    """Return of how many steps a training is the beginning, where it is the beginning of the paper's."""
    return f" of the paper's {PAPER.steps:,}" if str(budget["name"]).startswith(f"{PAPER.name}-") else ""


def percent(snapshot: Snapshot | None, metric: str) -> str:
    """Return a score in percent, mean and standard deviation over runs."""
    return "not run" if snapshot is None else _mean_and_std(100 * np.array(snapshot.mean(metric), dtype=np.float64))


def _mean_and_std(values: npt.NDArray[np.float64]) -> str:
    return f"{values.mean():.2f}" + (f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else "")


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)


def _span(values: Sequence[int]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def provenance(device: torch.device) -> dict[str, Any]:
    """Return what somebody needs to know who compares results, as plain data."""
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


def _processor() -> str:
    """Return the processor's name; only its architecture where the system does not tell."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
