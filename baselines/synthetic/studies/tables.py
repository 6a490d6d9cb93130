"""Tables 1 and 2: identifiability up to affine transformations, and up to generalised permutations.

A row of a table is a line of :func:`table1` or :func:`table2`: a process, a model, and the score that the paper
reports. Rows of one's own are a :class:`TableStudy` as well; there the reported values are left out.

Reference:
    Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, section 4.1, Tables 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from baselines.synthetic.experiments import (
    Experiment,
    GenerativeProcess,
    ModelSpace,
    Objective,
    Power,
    VonMisesFisherModel,
)
from baselines.synthetic.results import ExperimentResult, convergence_figure, markdown_table, percent, save_figure
from ident3d.conditionals import Conditional, GeneralizedNormal, Laplace, Normal, VonMisesFisher
from ident3d.marginals import Marginal
from ident3d.spaces import Box, Space, Sphere, Unbounded

__all__ = ["Reported", "TableMetric", "TableRow", "TableStudy", "table1", "table2"]

TableMetric = Literal["r2", "mcc"]

_HEADINGS: dict[TableMetric, str] = {"r2": "R2", "mcc": "MCC"}


@dataclass(frozen=True)
class TableStudy:
    """Table 1 or 2, or rows of one's own.

    Attributes:
        name: what its files are called.
        title: what stands above its results.
        rows: gives its rows, of one metric and numbered from 1, for a number of latents.
    """

    learns_precision: ClassVar[bool] = False
    name: str
    title: str
    rows: Callable[[int], Sequence[TableRow]]

    def items(self, dim: int) -> Sequence[TableRow]:
        """Return the rows with ``dim`` latents."""
        return self.rows(dim)

    def markdown(self, items: Sequence[TableRow], results: Mapping[int, ExperimentResult]) -> str:
        """Return the table: every measured row, in percent, each score with the paper's after it."""
        metric = items[0].metric
        head = ["Row", "Space, p(z), p(z_pos, given z)", "Model space, q_h", "M."]
        head += [f"{kind} {_HEADINGS[metric]} (paper)" for kind in ("Identity", "Supervised", "Unsupervised")]
        body = []
        for row in items:
            if row.number not in results:
                continue
            result = results[row.number]
            kinds = [
                (result.identity, row.identity),
                (result.supervised, row.supervised),
                (result.final, row.unsupervised),
            ]
            cells = [
                percent(scores, metric) + ("" if reported is None else f" ({reported})") for scores, reported in kinds
            ]
            body.append([str(row.number), row.process_label, row.model_label, "✓" if row.matches else "✗", *cells])
        return markdown_table(head, body)

    def draw(self, items: Sequence[TableRow], results: Mapping[int, ExperimentResult], folder: Path) -> list[Path]:
        """Plot the convergence of every row."""
        path = folder / f"{self.name}_convergence.svg"
        save_figure(convergence_figure(results, items[0].metric), path)
        return [path]


@dataclass(frozen=True)
class TableRow:
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
        marginal, conditional = (_notation(law) for law in (process.marginal.law, process.conditional))
        return f"{type(process.space).__name__}, {marginal}, {conditional}"

    @property
    def model_label(self) -> str:
        """The model as the table writes it."""
        return self.experiment.model_label

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
class Reported:
    """A value that a paper reports, in percent: mean and standard deviation over its seeds."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.std:.2f}"


def table1(dim: int = 10) -> tuple[TableRow, ...]:
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


def table2(dim: int = 10) -> tuple[TableRow, ...]:
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


def _numbered(metric: TableMetric, groups: list[tuple[Reported, Reported, list[_Line]]]) -> tuple[TableRow, ...]:
    lines = [(identity, supervised, line) for identity, supervised, members in groups for line in members]
    return tuple(
        TableRow(
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


_NOTATION: dict[type[Conditional], str] = {
    VonMisesFisher: "vMF(κ={0.kappa:g})",
    Normal: "Normal(σ={0.sigma:g})",  # noqa: RUF001 - as the paper writes it
    Laplace: "Laplace(λ={0.scale:g})",
    GeneralizedNormal: "GenNorm(β={0.p:g}; λ={0.scale:g})",
}
"""How the paper writes the laws that it uses; any other goes by its class's name."""


def _notation(law: Conditional) -> str:
    """Return a law as the paper writes it."""
    return _NOTATION.get(type(law), type(law).__name__).format(law)
