"""An experiment: a generative process, and what the model assumes of it."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from baselines.losses import AnInfoNCE, DeltaInfoNCE, InfoNCE
from ident3d.conditionals import AnisotropicNormal, Conditional, GeneralizedNormal, Laplace, Normal, VonMisesFisher
from ident3d.marginals import Marginal
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Space, Sphere, Unbounded

__all__ = [
    "CONDITIONAL_CONCENTRATION",
    "PAPER_DIM",
    "AnisotropicRow",
    "ConcentrationPoint",
    "Experiment",
    "GenerativeProcess",
    "LearnedAnisotropic",
    "ModelSpace",
    "Objective",
    "Panel",
    "Power",
    "Reported",
    "Row",
    "Spectrum",
    "TableMetric",
    "VonMisesFisherModel",
    "aninfonce_rows",
    "figure2_points",
    "mass_to_move",
    "precision_of",
    "table1",
    "table2",
]


class Objective(Protocol):
    """An assumed conditional.

    Attributes:
        label: how tables write it.
    """

    @property
    def label(self) -> str:
        """How tables write it."""

    def loss(self, dim: int) -> nn.Module:
        """Return the loss of one run, a module called with the embeddings (B, dim) of anchors and positives."""


@dataclass(frozen=True)
class VonMisesFisherModel:
    """A von Mises-Fisher conditional, assumed by InfoNCE with temperature 1 / kappa.

    Attributes:
        kappa: its concentration.
    """

    kappa: float = 1.0

    @property
    def label(self) -> str:
        """How tables write it."""
        return f"vMF(κ={self.kappa:g})"

    def loss(self, dim: int) -> nn.Module:  # noqa: ARG002 - the protocol's signature
        """Return InfoNCE."""
        return InfoNCE(1 / self.kappa)


@dataclass(frozen=True)
class Power:
    """A conditional exp(-sum |z_pos - z|^p), assumed by delta-InfoNCE.

    Attributes:
        p: 1 for Laplace, 2 for normal, any other for a generalised normal conditional.
    """

    p: float

    @property
    def label(self) -> str:
        """How tables write it."""
        return {1.0: "Laplace", 2.0: "Normal"}.get(self.p) or f"GenNorm(β={self.p:g})"

    def loss(self, dim: int) -> nn.Module:  # noqa: ARG002 - the protocol's signature
        """Return delta-InfoNCE."""
        return DeltaInfoNCE(self.p)


@dataclass(frozen=True)
class LearnedAnisotropic:
    """A conditional exp(-(z_pos - z)^T Lambda (z_pos - z)) whose diagonal Lambda is learned, assumed by AnInfoNCE.

    Attributes:
        precision: what every entry of Lambda starts at. Which factors an encoder finds is settled early: in four
            dimensions with Lambda 12.5 and 1.5, runs that started at 1 found all, and some that started at 2 or 3
            missed a style factor for good.
    """

    precision: float = 1.0

    @property
    def label(self) -> str:
        """How tables write it."""
        return "AnInfoNCE"

    def loss(self, dim: int) -> nn.Module:
        """Return AnInfoNCE with a Lambda of its own."""
        return AnInfoNCE(dim, self.precision)


ModelSpace = Literal["sphere", "box", "unbounded"]
"""The space that a model's embeddings live in."""


@dataclass(frozen=True)
class GenerativeProcess:
    """Where latents live and what pairs are drawn from.

    Attributes:
        space: the latents' space.
        marginal: the anchors' distribution.
        conditional: the positives' distribution.
    """

    space: Space
    marginal: Marginal
    conditional: Conditional

    def __post_init__(self) -> None:
        self.marginal.law.check(self.space)
        self.conditional.check(self.space)

    def latents(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw (n, dim) float32 latents from the marginal, on the generator's device."""
        return self.marginal.sample(n, self.space, generator)

    def anchors(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw (n, 1, dim) float32 anchors alone, on the generator's device."""
        return self.latents(n, generator).unsqueeze(1)

    def pairs(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw (n, 2, dim) float32 pairs of anchor and positive, on the generator's device."""
        anchors = self.marginal.sample(n, self.space, generator, torch.float64)
        return torch.stack([anchors, self.conditional.sample(anchors, self.space, generator)], dim=1).float()


@dataclass(frozen=True)
class Experiment:
    """A generative process and a model of it.

    Attributes:
        process: the generative process.
        model_space: the space that the encoder's output lives in.
        objective: the conditional that the loss assumes; None for the supervised model.
    """

    process: GenerativeProcess
    model_space: ModelSpace
    objective: Objective | None

    @property
    def dim(self) -> int:
        """Number of latents."""
        return self.process.space.dim

    @property
    def description(self) -> str:
        """A text that tells experiments apart, all numbers included."""
        process = self.process
        shown = [process.space, process.marginal, self.model_space]
        if self.objective is None:  # the conditional plays no part
            return " | ".join(map(str, [*shown, "supervised"]))
        return " | ".join(map(str, [*shown, process.conditional, self.objective]))


PAPER_DIM = 10

TableMetric = Literal["r2", "mcc"]


@dataclass(frozen=True)
class Reported:
    """A value that a paper reports, in percent: mean and standard deviation over its seeds."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.std:.2f}"


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        number: its place in the table, from 1.
        experiment: what is run.
        metric: what the table scores.
        matches: whether the theory's assumptions hold (the table's column M.).
        succeeds: whether the paper's encoder identifies the latents; False for the rows that its last group shows to
            fail.
        identity: what the paper reports for the observations themselves.
        supervised: what it reports for the supervised model.
        unsupervised: what it reports for the contrastive model.

    The reported values are None in a row that is not the paper's.
    """

    number: int
    experiment: Experiment
    metric: TableMetric
    matches: bool = False
    succeeds: bool = True
    identity: Reported | None = None
    supervised: Reported | None = None
    unsupervised: Reported | None = None

    @property
    def process_label(self) -> str:
        """The generative process as the table writes it."""
        process = self.experiment.process
        return f"{_space(process.space)}, {_law(process.marginal.law)}, {_law(process.conditional)}"

    @property
    def model_label(self) -> str:
        """The model as the table writes it."""
        objective = self.experiment.objective
        return f"{self.experiment.model_space.capitalize()}, {'' if objective is None else objective.label}"

    @property
    def supervised_experiment(self) -> Experiment:
        """The same latents and the same model, trained to predict the latents."""
        return replace(self.experiment, objective=None)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; reported values are in percent, as in the paper."""
        named = {name: getattr(self, name) for name in ("identity", "supervised", "unsupervised")}
        reported = {name: value for name, value in named.items() if value is not None}
        return {
            "process": self.process_label,
            "model": self.model_label,
            "metric": self.metric,
            "assumptions_hold": self.matches,
            "reported_percent": {name: {"mean": value.mean, "std": value.std} for name, value in reported.items()},
        }


@dataclass(frozen=True)
class _Line:
    """What differs from row to row: the process, the model, and the reported unsupervised score."""

    space: Space
    marginal: Marginal
    conditional: Conditional
    model_space: ModelSpace
    objective: Objective
    unsupervised: Reported
    matches: bool = False
    succeeds: bool = True


def table1(dim: int = PAPER_DIM) -> tuple[Row, ...]:
    """Return the rows of Table 1, identifiability up to affine transformations, with ``dim`` latents."""
    sphere, box, unbounded = Sphere(dim), Box(dim, 0.0, 1.0), Unbounded(dim)
    flat, normal, laplace = Marginal(), Marginal(Normal(1.0)), Marginal(Laplace(1.0))
    narrow_normal, narrow_laplace = Normal(0.05), Laplace(0.05)
    vmf = VonMisesFisherModel(1.0)
    groups: list[tuple[Reported, Reported, list[_Line]]] = [
        (
            Reported(66.98, 2.79),
            Reported(99.71, 0.05),
            [
                _Line(sphere, flat, VonMisesFisher(1.0), "sphere", vmf, Reported(99.42, 0.05), matches=True),
                _Line(sphere, flat, VonMisesFisher(10.0), "sphere", vmf, Reported(99.86, 0.01)),
                _Line(sphere, flat, narrow_laplace, "sphere", vmf, Reported(99.91, 0.01)),
                _Line(sphere, flat, narrow_normal, "sphere", vmf, Reported(99.86, 0.00)),
            ],
        ),
        (
            Reported(67.93, 7.40),
            Reported(99.78, 0.06),
            [
                _Line(box, flat, narrow_normal, "unbounded", Power(2), Reported(99.60, 0.02)),
                _Line(box, flat, narrow_laplace, "unbounded", Power(2), Reported(99.64, 0.02)),
                _Line(box, flat, narrow_laplace, "unbounded", Power(3), Reported(99.70, 0.02)),
                _Line(box, flat, narrow_normal, "unbounded", Power(3), Reported(99.69, 0.02)),
            ],
        ),
        (
            Reported(63.37, 2.41),
            Reported(99.70, 0.07),
            [
                _Line(sphere, normal, narrow_laplace, "sphere", vmf, Reported(99.02, 0.01)),
                _Line(sphere, normal, narrow_normal, "sphere", vmf, Reported(99.02, 0.02)),
            ],
        ),
        (
            Reported(62.49, 1.65),
            Reported(99.65, 0.04),
            [_Line(unbounded, laplace, Normal(1.0), "unbounded", Power(2), Reported(98.13, 0.14))],
        ),
        (
            Reported(63.57, 2.30),
            Reported(99.61, 0.17),
            [_Line(unbounded, normal, Normal(1.0), "unbounded", Power(2), Reported(98.76, 0.03))],
        ),
    ]
    return _numbered("r2", groups)


def table2(dim: int = PAPER_DIM) -> tuple[Row, ...]:
    """Return the rows of Table 2, identifiability up to generalised permutations, with ``dim`` latents."""
    box, flat = Box(dim, 0.0, 1.0), Marginal()
    normal, laplace, cubic = Normal(0.05), Laplace(0.05), GeneralizedNormal(3.0, 0.05)
    identity = Reported(46.55, 1.34)
    groups: list[tuple[Reported, Reported, list[_Line]]] = [
        (
            identity,
            Reported(99.93, 0.03),
            [
                _Line(box, flat, laplace, "box", Power(1), Reported(98.62, 0.05), matches=True),
                _Line(box, flat, cubic, "box", Power(3), Reported(99.90, 0.06), matches=True),
                _Line(box, flat, normal, "box", Power(2), Reported(99.77, 0.01)),
                _Line(box, flat, laplace, "box", Power(2), Reported(99.76, 0.02)),
                _Line(box, flat, cubic, "box", Power(1), Reported(98.80, 0.02)),
            ],
        ),
        (
            identity,
            Reported(99.97, 0.03),
            [
                _Line(box, flat, laplace, "unbounded", Power(1), Reported(98.57, 0.02)),
                _Line(box, flat, cubic, "unbounded", Power(3), Reported(99.85, 0.01)),
                _Line(box, flat, normal, "unbounded", Power(2), Reported(58.26, 3.00), succeeds=False),
                _Line(box, flat, laplace, "unbounded", Power(2), Reported(59.67, 2.33), succeeds=False),
                _Line(box, flat, normal, "unbounded", Power(3), Reported(43.80, 2.15), succeeds=False),
            ],
        ),
    ]
    return _numbered("mcc", groups)


def _numbered(metric: TableMetric, groups: list[tuple[Reported, Reported, list[_Line]]]) -> tuple[Row, ...]:
    lines = [(identity, supervised, line) for identity, supervised, members in groups for line in members]
    return tuple(
        Row(
            number=number,
            experiment=Experiment(
                GenerativeProcess(line.space, line.marginal, line.conditional), line.model_space, line.objective
            ),
            metric=metric,
            matches=line.matches,
            succeeds=line.succeeds,
            identity=identity,
            supervised=supervised,
            unsupervised=line.unsupervised,
        )
        for number, (identity, supervised, line) in enumerate(lines, start=1)
    )


def _space(space: Space) -> str:
    return type(space).__name__


def _law(law: Conditional) -> str:
    """Return a law as the papers write it."""
    if isinstance(law, VonMisesFisher):
        return f"vMF(κ={law.kappa:g})"
    if isinstance(law, Normal):
        return f"Normal(σ={law.sigma:g})"  # noqa: RUF001 - as the paper writes it
    if isinstance(law, Laplace):
        return f"Laplace(λ={law.scale:g})"
    if isinstance(law, GeneralizedNormal):
        return f"GenNorm(β={law.p:g}; λ={law.scale:g})"
    return type(law).__name__


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
