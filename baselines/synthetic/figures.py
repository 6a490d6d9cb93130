"""Plots of the studies: convergence, Figure 2, and learned Lambda against the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from baselines.synthetic.anisotropy import AnisotropicRow
from baselines.synthetic.concentration import CONDITIONAL_CONCENTRATION, ConcentrationPoint
from baselines.synthetic.outcomes import Outcome
from ident3d.errors import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["concentration_figure", "convergence_figure", "precision_figure", "save_figure"]

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
