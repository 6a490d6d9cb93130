"""AnInfoNCE's experiments on the sphere: factors that change by different amounts, with AnInfoNCE and with InfoNCE."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from baselines.synthetic.experiments import Experiment, GenerativeProcess
from baselines.synthetic.objectives import LearnedAnisotropic, Objective, VonMisesFisherModel
from baselines.synthetic.rows import PAPER_DIM
from ident3d.conditionals import AnisotropicNormal
from ident3d.marginals import Marginal
from ident3d.spaces import Sphere

__all__ = ["AnisotropicRow", "Spectrum", "aninfonce_rows", "precision_of"]

Spectrum = Literal["bimodal", "linear"]

CONTENT, STYLE, STYLE_IN_FEW_DIMENSIONS = 12.5, 2.5, 1.5
"""Largest and smallest entries of Lambda, in the formula without a factor 1/2; the published code calls 12.5 and 2.5 25
and 5."""

INFONCE_KAPPA = 10.0
"""The concentration that InfoNCE assumes: a temperature of 0.1.

The page names none. That of a factor on its own would be 2 Lambda: 25 for content and 5 for style."""


@dataclass(frozen=True)
class AnisotropicRow:
    """One model of one anisotropic conditional.

    Attributes:
        number: its place among the rows, from 1.
        spectrum: how the entries of Lambda are spread.
        precision: (dim,) the true Lambda, largest first; the first half of the factors is called content.
        experiment: what is run.
        reported: what the published log says, by name; empty where it says nothing.
    """

    number: int
    spectrum: Spectrum
    precision: tuple[float, ...]
    experiment: Experiment
    reported: dict[str, float]

    @property
    def process_label(self) -> str:
        """The generative process in words."""
        spread = (
            f"{self.precision[0]:g} and {self.precision[-1]:g}"
            if self.spectrum == "bimodal"
            else (f"{self.precision[0]:g} to {self.precision[-1]:g}")
        )
        return f"Sphere, Uniform, Λ {self.spectrum}: {spread}"

    @property
    def model_label(self) -> str:
        """The model in words."""
        return "AnInfoNCE" if isinstance(self.experiment.objective, LearnedAnisotropic) else "InfoNCE"

    @property
    def content(self) -> int:
        """The number of content factors; the others are style."""
        return (len(self.precision) + 1) // 2

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "process": self.process_label,
            "model": self.model_label,
            "true_precision": list(self.precision),
            "reported": self.reported,
        }


def precision_of(spectrum: Spectrum, dim: int) -> tuple[float, ...]:
    """Return the diagonal of the true Lambda: half 12.5 and half 2.5, or from 12.5 to 2.5 in equal steps.

    With fewer than ten dimensions style is 1.5: a coordinate of the sphere is wider there, and 2.5 would change so
    little of it within a pair that InfoNCE keeps it too.
    """
    style = STYLE if dim >= PAPER_DIM else STYLE_IN_FEW_DIMENSIONS
    if spectrum == "bimodal":
        content = (dim + 1) // 2
        return (CONTENT,) * content + (style,) * (dim - content)
    return tuple(float(value) for value in np.linspace(CONTENT, style, dim))


def aninfonce_rows(dim: int = PAPER_DIM) -> tuple[AnisotropicRow, ...]:
    """Return the experiments with ``dim`` latents.

    What is reported comes from the published training log: 100,000 steps of 1,000 pairs in ten dimensions. Its Lambda,
    23.1 and 5.5 in the code's convention, is halved here.
    """
    models: tuple[Objective, ...] = (LearnedAnisotropic(), VonMisesFisherModel(INFONCE_KAPPA))
    reported: dict[Spectrum, dict[str, float]] = {
        "bimodal": {"r2": 0.9966, "content_precision": 11.55, "style_precision": 2.75},
        "linear": {"mcc": 0.99},
    }
    spectra: tuple[Spectrum, ...] = ("bimodal", "linear")
    rows: list[AnisotropicRow] = []
    for spectrum in spectra:
        precision = precision_of(spectrum, dim)
        process = GenerativeProcess(Sphere(dim), Marginal(), AnisotropicNormal(precision))
        for model in models:
            rows.append(
                AnisotropicRow(
                    number=len(rows) + 1,
                    spectrum=spectrum,
                    precision=precision,
                    experiment=Experiment(process, "sphere", model),
                    reported=reported[spectrum] if isinstance(model, LearnedAnisotropic) else {},
                )
            )
    return tuple(rows)
