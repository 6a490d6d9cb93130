"""Figure 2: marginals between uniform and concentrated, and how much of their mass would have to move."""

from dataclasses import dataclass
from typing import Any, Literal

from baselines.synthetic.experiments import Experiment, GenerativeProcess
from baselines.synthetic.objectives import Power, VonMisesFisherModel
from baselines.synthetic.rows import PAPER_DIM
from ident3d.conditionals import Normal, VonMisesFisher
from ident3d.marginals import Marginal
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Sphere

__all__ = ["CONDITIONAL_CONCENTRATION", "ConcentrationPoint", "Panel", "figure2_points", "mass_to_move"]

Panel = Literal["sphere", "box"]

CONDITIONAL_CONCENTRATION: dict[Panel, float] = {"sphere": 10.0, "box": 400.0}
"""Concentration of the conditional of each panel: kappa on the sphere, 1 / sigma^2 in the box.

The paper draws these as dotted lines without naming them; here they are those of Table 1, kappa 10 and sigma 0.05."""

_CONCENTRATIONS: dict[Panel, tuple[float, ...]] = {
    "sphere": (0.1, 1.0, 3.0, 10.0, 30.0, 100.0),
    "box": (4.0, 40.0, 100.0, 400.0, 1600.0),
}


@dataclass(frozen=True)
class ConcentrationPoint:
    """One point of Figure 2.

    Attributes:
        number: its place among the points, from 1.
        panel: the space.
        concentration: the marginal's kappa, or 1 / sigma^2.
        experiment: what is run.
    """

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
        objective = self.experiment.objective
        return f"{self.experiment.model_space.capitalize()}, {'' if objective is None else objective.label}"

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


def figure2_points(dim: int = PAPER_DIM) -> tuple[ConcentrationPoint, ...]:
    """Return the points of both panels with ``dim`` latents."""
    sphere, box = Sphere(dim), Box(dim, 0.0, 1.0)
    panels: tuple[Panel, ...] = ("sphere", "box")
    points: list[ConcentrationPoint] = []
    for panel in panels:
        for concentration in _CONCENTRATIONS[panel]:
            marginal = _marginal(panel, concentration)
            experiment = (
                Experiment(
                    GenerativeProcess(sphere, marginal, VonMisesFisher(10.0)), "sphere", VonMisesFisherModel(1.0)
                )
                if panel == "sphere"
                else Experiment(GenerativeProcess(box, marginal, Normal(0.05)), "unbounded", Power(2))
            )
            points.append(ConcentrationPoint(len(points) + 1, panel, concentration, experiment))
    return tuple(points)


def mass_to_move(panel: Panel, concentration: float, dim: int) -> float:
    """Return the share of the marginal's mass that would have to move to make it uniform, from 0 to 1.

    It is half the integral of |p - uniform|, estimated from 100,000 draws: the standard error is below 0.0016.
    """
    space = Sphere(dim) if panel == "sphere" else Box(dim, 0.0, 1.0)
    return _marginal(panel, concentration).distance_to_uniform(space, torch_generator(0, "synthetic/mass-to-move"))


def _marginal(panel: Panel, concentration: float) -> Marginal:
    return Marginal(VonMisesFisher(concentration) if panel == "sphere" else Normal(concentration**-0.5))
