"""AnInfoNCE against InfoNCE on positives that change little in some factors and much in others.

The page leaves open what temperature InfoNCE has, and what a sphere of fewer than ten dimensions needs; both choices
are named here. Lambda is that of the formula, without a factor 1/2: the published code calls 12.5 and 2.5 25 and 5.

Reference:
    AnInfoNCE's project page, synthetic experiments, and its published training log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from baselines.synthetic.experiments import (
    Experiment,
    GenerativeProcess,
    LearnedAnisotropic,
    Objective,
    VonMisesFisherModel,
)
from baselines.synthetic.results import (
    ExperimentResult,
    convergence_figure,
    markdown_table,
    mean_and_std,
    new_figure,
    percent,
    save_figure,
)
from ident3d.conditionals import AnisotropicNormal
from ident3d.marginals import Marginal
from ident3d.spaces import Sphere

__all__ = ["AnisotropicRow", "PrecisionStudy", "Spectrum", "aninfonce", "precision_of"]

Spectrum = Literal["bimodal", "linear"]

_PAGE_DIM = 10
_CONTENT, _STYLE, _STYLE_IN_FEW_DIMENSIONS = 12.5, 2.5, 1.5  # largest and smallest entries of Lambda
_INFONCE_KAPPA = 10.0  # a temperature of 0.1; that of a factor alone would be 2 Lambda, 25 for content and 5 for style


@dataclass(frozen=True)
class PrecisionStudy:
    """AnInfoNCE against InfoNCE.

    Attributes:
        name: what its files are called.
        title: what stands above its results.
    """

    learns_precision: ClassVar[bool] = True
    name: str
    title: str

    def items(self, dim: int) -> Sequence[AnisotropicRow]:
        """Return the rows with ``dim`` latents."""
        return aninfonce(dim)

    def markdown(self, items: Sequence[AnisotropicRow], results: Mapping[int, ExperimentResult]) -> str:
        """Return the scores of content and style apart, and the learned Lambda against the truth."""
        head = ["Row", "Process", "Model", "R2 content", "R2 style", "R2", "MCC", "True Λ", "Learned Λ"]
        body = []
        for row in items:
            if row.number not in results:
                continue
            final = results[row.number].final
            r2 = np.array(final.r2)
            body.append(
                [
                    str(row.number),
                    row.process_label,
                    row.model_label,
                    mean_and_std(100 * r2[:, : row.content].mean(1)),
                    mean_and_std(100 * r2[:, row.content :].mean(1)),
                    percent(final, "r2"),
                    percent(final, "mcc"),
                    _numbers(row.precision),
                    "not learned" if final.precision is None else _numbers(np.sort(final.precision)[:, ::-1].mean(0)),
                ]
            )
        return markdown_table(head, body)

    def draw(
        self, items: Sequence[AnisotropicRow], results: Mapping[int, ExperimentResult], folder: Path
    ) -> list[Path]:
        """Plot the learned Lambda, sorted, against the true one, a panel a spectrum; and the convergence."""
        members = [row for row in items if row.number in results and results[row.number].final.precision is not None]
        figure = new_figure(4 * max(1, len(members)), 3.6)
        for axes, row in zip(figure.subplots(1, max(1, len(members)), squeeze=False)[0], members, strict=False):
            learned = np.sort(np.array(results[row.number].final.precision))[:, ::-1]
            place = np.arange(1, learned.shape[1] + 1)
            truth = sorted(row.precision, reverse=True)
            axes.plot(place, truth, color="black", drawstyle="steps-mid", label="true Λ")
            for run, seed in zip(learned, results[row.number].seeds, strict=True):
                axes.plot(place, run, marker="o", markersize=4, linestyle="", label=f"learned, seed {seed}")
            axes.set(title=row.process_label, xlabel="entry of Λ, largest first", ylabel="Λ", ylim=(0, None))
            axes.set(xticks=place)
            axes.legend(frameon=False, fontsize=8)
        paths = [folder / f"{self.name}_lambda.svg", folder / f"{self.name}_convergence.svg"]
        save_figure(figure, paths[0])
        save_figure(convergence_figure(results, "r2"), paths[1])
        return paths


@dataclass(frozen=True)
class AnisotropicRow:
    """One model of one anisotropic conditional.

    Attributes:
        number: its place among the rows, from 1.
        spectrum: how the entries of Lambda are spread.
        precision: (dim,) the true Lambda, largest first; the first half of the factors is called content.
        model_label: the model in words.
        experiment: what is run.
        reported: what the published log says, by name; empty where it says nothing.
    """

    supervised_experiment: ClassVar[None] = None
    number: int
    spectrum: Spectrum
    precision: tuple[float, ...]
    model_label: str
    experiment: Experiment
    reported: Mapping[str, float]

    @property
    def process_label(self) -> str:
        """The generative process in words."""
        between = "and" if self.spectrum == "bimodal" else "to"
        return f"Sphere, Uniform, Λ {self.spectrum}: {self.precision[0]:g} {between} {self.precision[-1]:g}"

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
            "reported": dict(self.reported),
        }


def aninfonce(dim: int = _PAGE_DIM) -> tuple[AnisotropicRow, ...]:
    """Return the experiments with ``dim`` latents.

    What is reported comes from the published training log: 100,000 steps of 1,000 pairs in ten dimensions. Its Lambda,
    23.1 and 5.5 in the code's convention, is halved here.
    """
    spectra: dict[Spectrum, dict[str, float]] = {
        "bimodal": {"r2": 0.9966, "content_precision": 11.55, "style_precision": 2.75},
        "linear": {"mcc": 0.99},
    }
    rows: list[AnisotropicRow] = []
    for spectrum, reported in spectra.items():
        precision = precision_of(spectrum, dim)
        process = GenerativeProcess(Sphere(dim), Marginal(), AnisotropicNormal(precision))
        models: tuple[tuple[str, Objective, dict[str, float]], ...] = (
            ("AnInfoNCE", LearnedAnisotropic(), reported),
            ("InfoNCE", VonMisesFisherModel(_INFONCE_KAPPA), {}),
        )
        for label, model, published in models:
            experiment = Experiment(process, "sphere", model)
            rows.append(AnisotropicRow(len(rows) + 1, spectrum, precision, label, experiment, published))
    return tuple(rows)


def precision_of(spectrum: Spectrum, dim: int) -> tuple[float, ...]:
    """Return the diagonal of the true Lambda: half 12.5 and half 2.5, or from 12.5 to 2.5 in equal steps.

    With fewer than ten dimensions style is 1.5: a coordinate of the sphere is wider there, and 2.5 would change so
    little of it within a pair that InfoNCE keeps it too.
    """
    style = _STYLE if dim >= _PAGE_DIM else _STYLE_IN_FEW_DIMENSIONS
    if spectrum == "bimodal":
        content = (dim + 1) // 2
        return (_CONTENT,) * content + (style,) * (dim - content)
    return tuple(float(value) for value in np.linspace(_CONTENT, style, dim))


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)
