"""The rows of the papers' tables, as data, with the values that the papers report."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from baselines.synthetic.experiments import Experiment, GenerativeProcess, ModelSpace
from baselines.synthetic.objectives import Objective, Power, VonMisesFisherModel
from ident3d.conditionals import Conditional, GeneralizedNormal, Laplace, Normal, VonMisesFisher
from ident3d.marginals import Marginal
from ident3d.spaces import Box, Space, Sphere, Unbounded

__all__ = ["PAPER_DIM", "Reported", "Row", "TableMetric", "table1", "table2"]

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
