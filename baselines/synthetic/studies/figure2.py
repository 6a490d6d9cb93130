"""Figure 2: what becomes of the latents as their marginal narrows, from uniform to narrower than the conditional.

Reference:
    Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, section 4.1, Figure 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from baselines.synthetic.experiments import Experiment, GenerativeProcess, Power, VonMisesFisherModel
from baselines.synthetic.results import ExperimentResult, markdown_table, new_figure, percent, save_figure
from ident3d.conditionals import Normal, VonMisesFisher
from ident3d.marginals import Marginal
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Sphere

__all__ = ["CONDITIONAL_CONCENTRATION", "ConcentrationPoint", "ConcentrationStudy", "Panel", "figure2", "mass_to_move"]

Panel = Literal["sphere", "box"]

CONDITIONAL_CONCENTRATION: dict[Panel, float] = {"sphere": 10.0, "box": 400.0}
"""Concentration of the conditional of each panel: kappa on the sphere, 1 / sigma^2 in the box.

The paper draws these as dotted lines without naming them; here they are those of Table 1, kappa 10 and sigma 0.05."""

_CONCENTRATIONS: dict[Panel, tuple[float, ...]] = {
    "sphere": (0.1, 1.0, 3.0, 10.0, 30.0, 100.0),
    "box": (4.0, 40.0, 100.0, 400.0, 1600.0),
}


@dataclass(frozen=True)
class ConcentrationStudy:
    """Figure 2.

    Attributes:
        name: what its files are called.
        title: what stands above its results.
    """

    learns_precision: ClassVar[bool] = False
    name: str
    title: str

    def items(self, dim: int) -> Sequence[ConcentrationPoint]:
        """Return the points of both panels with ``dim`` latents."""
        return figure2(dim)

    def markdown(self, items: Sequence[ConcentrationPoint], results: Mapping[int, ExperimentResult]) -> str:
        """Return the points as a table."""
        head = ["Point", "Space", "Marginal's concentration", "Conditional's", "Mass to move", "R2"]
        body = [
            [
                str(point.number),
                point.panel.capitalize(),
                f"{point.concentration:g}",
                f"{CONDITIONAL_CONCENTRATION[point.panel]:g}",
                f"{100 * float(results[point.number].about['mass_to_move']):.0f}%",
                percent(results[point.number].final, "r2"),
            ]
            for point in items
            if point.number in results
        ]
        return markdown_table(head, body)

    def draw(
        self, items: Sequence[ConcentrationPoint], results: Mapping[int, ExperimentResult], folder: Path
    ) -> list[Path]:
        """Plot R2 and the mass to move against the marginal's concentration, a panel a space."""
        panels = [panel for panel in CONDITIONAL_CONCENTRATION if any(point.panel == panel for point in items)]
        figure = new_figure(4.5 * len(panels), 3.6)
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            members = [point for point in items if point.panel == panel and point.number in results]
            at = [point.concentration for point in members]
            runs = 100 * np.array([results[point.number].final.mean("r2") for point in members])
            mass = [100 * float(results[point.number].about["mass_to_move"]) for point in members]
            if members:
                deviation = runs.std(1, ddof=1) if runs.shape[1] > 1 else None
                axes.errorbar(at, runs.mean(1), deviation, color="black", marker="o", markersize=3, label="R2 [%]")
            axes.plot(at, mass, color="tab:blue", marker="s", markersize=3, label="mass to move [%]")
            axes.axvline(CONDITIONAL_CONCENTRATION[panel], color="black", linestyle=":", label="conditional")
            axes.set(xscale="log", ylim=(-2, 102), title=panel.capitalize())
            symbol = "κ" if panel == "sphere" else "1/σ²"
            axes.set_xlabel(f"concentration {symbol} of the marginal")
            axes.legend(frameon=False, fontsize=8)
        save_figure(figure, folder / f"{self.name}.svg")
        return [folder / f"{self.name}.svg"]


@dataclass(frozen=True)
class ConcentrationPoint:
    """One point of Figure 2.

    Attributes:
        number: its place among the points, from 1.
        panel: the space.
        concentration: the marginal's kappa, or 1 / sigma^2.
        experiment: what is run.
    """

    supervised_experiment: ClassVar[None] = None
    number: int
    panel: Panel
    concentration: float
    experiment: Experiment

    @property
    def process_label(self) -> str:
        """The generative process in words."""
        return f"{self.panel.capitalize()}, marginal of concentration {self.concentration:g}"

    @property
    def model_label(self) -> str:
        """The model in words."""
        return self.experiment.model_label

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "process": self.process_label,
            "model": self.model_label,
            "panel": self.panel,
            "marginal_concentration": self.concentration,
            "conditional_concentration": CONDITIONAL_CONCENTRATION[self.panel],
            "mass_to_move": round(mass_to_move(self.panel, self.concentration, self.experiment.dim), 4),
        }


def figure2(dim: int = 10) -> tuple[ConcentrationPoint, ...]:
    """Return the points of both panels with ``dim`` latents."""
    sphere, box = Sphere(dim), Box(dim, 0.0, 1.0)
    panels: tuple[Panel, ...] = ("sphere", "box")
    points: list[ConcentrationPoint] = []
    for panel in panels:
        for concentration in _CONCENTRATIONS[panel]:
            marginal = Marginal(_law(panel, concentration))
            conditional = _law(panel, CONDITIONAL_CONCENTRATION[panel])
            experiment = (
                Experiment(GenerativeProcess(sphere, marginal, conditional), "sphere", VonMisesFisherModel(1.0))
                if panel == "sphere"
                else Experiment(GenerativeProcess(box, marginal, conditional), "unbounded", Power(2))
            )
            points.append(ConcentrationPoint(len(points) + 1, panel, concentration, experiment))
    return tuple(points)


def mass_to_move(panel: Panel, concentration: float, dim: int) -> float:
    """Return the share of the marginal's mass that would have to move to make it uniform, from 0 to 1.

    It is half the integral of |p - uniform|, estimated from 100,000 draws: the standard error is below 0.0016.
    """
    space = Sphere(dim) if panel == "sphere" else Box(dim, 0.0, 1.0)
    marginal = Marginal(_law(panel, concentration))
    return marginal.distance_to_uniform(space, torch_generator(0, "synthetic/mass-to-move"))


def _law(panel: Panel, concentration: float) -> VonMisesFisher | Normal:
    return VonMisesFisher(concentration) if panel == "sphere" else Normal(concentration**-0.5)
