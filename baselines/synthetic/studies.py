"""The studies that can be reproduced: their items, and how their outcomes are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from baselines.synthetic.anisotropy import AnisotropicRow, aninfonce_rows
from baselines.synthetic.concentration import ConcentrationPoint, figure2_points
from baselines.synthetic.experiments import Experiment
from baselines.synthetic.figures import concentration_figure, convergence_figure, precision_figure, save_figure
from baselines.synthetic.markdown import aninfonce_markdown, concentration_markdown, table_markdown
from baselines.synthetic.outcomes import Outcome
from baselines.synthetic.rows import Row, table1, table2

__all__ = ["ConcentrationStudy", "Item", "PrecisionStudy", "Study", "StudyName", "TableStudy", "study_named"]

StudyName = Literal["table1", "table2", "figure2", "aninfonce"]


class Item(Protocol):
    """What a study is made of: one row or point."""

    @property
    def number(self) -> int:
        """Its place in the study, from 1."""

    @property
    def experiment(self) -> Experiment:
        """What is run."""

    @property
    def process_label(self) -> str:
        """The generative process in words."""

    @property
    def model_label(self) -> str:
        """The model in words."""

    def to_json(self) -> dict[str, Any]:
        """Return what it is and what is reported of it, as plain data."""


class Study(Protocol):
    """A set of items and what their outcomes look like.

    Attributes:
        name: what its files are called.
        title: what stands above its results.
    """

    @property
    def name(self) -> str:
        """What its files are called."""

    @property
    def title(self) -> str:
        """What stands above its results."""

    @property
    def items(self) -> Sequence[Item]:
        """Its rows or points."""

    def supervised(self, item: Item) -> Experiment | None:
        """Return the supervised experiment that belongs to an item; None where the study has none."""

    def markdown(self, outcomes: Mapping[int, Outcome]) -> str:
        """Return its table."""

    def draw(self, outcomes: Mapping[int, Outcome], folder: Path) -> list[Path]:
        """Write its plots into a folder; return their files."""


@dataclass(frozen=True)
class TableStudy:
    """Table 1 or 2, or rows of one's own.

    Attributes:
        name: what its files are called.
        title: what stands above its results.
        items: its rows, of one metric, numbered from 1.
    """

    name: str
    title: str
    items: Sequence[Row]

    def supervised(self, item: Item) -> Experiment | None:
        """Return the supervised model of the row."""
        return self.items[item.number - 1].supervised_experiment

    def markdown(self, outcomes: Mapping[int, Outcome]) -> str:
        """Return the table."""
        return table_markdown(self.items, outcomes)

    def draw(self, outcomes: Mapping[int, Outcome], folder: Path) -> list[Path]:
        """Plot the convergence of every row."""
        path = folder / f"{self.name}_convergence.svg"
        save_figure(convergence_figure(outcomes, self.items[0].metric), path)
        return [path]


@dataclass(frozen=True)
class ConcentrationStudy:
    """Figure 2."""

    name: str
    title: str
    items: Sequence[ConcentrationPoint]

    def supervised(self, item: Item) -> Experiment | None:  # noqa: ARG002 - the protocol's signature
        """Return None."""
        return None

    def markdown(self, outcomes: Mapping[int, Outcome]) -> str:
        """Return the points as a table."""
        return concentration_markdown(self.items, outcomes)

    def draw(self, outcomes: Mapping[int, Outcome], folder: Path) -> list[Path]:
        """Plot the figure."""
        save_figure(concentration_figure(self.items, outcomes), folder / "figure2.svg")
        return [folder / "figure2.svg"]


@dataclass(frozen=True)
class PrecisionStudy:
    """AnInfoNCE against InfoNCE."""

    name: str
    title: str
    items: Sequence[AnisotropicRow]

    def supervised(self, item: Item) -> Experiment | None:  # noqa: ARG002 - the protocol's signature
        """Return None."""
        return None

    def markdown(self, outcomes: Mapping[int, Outcome]) -> str:
        """Return the rows as a table."""
        return aninfonce_markdown(self.items, outcomes)

    def draw(self, outcomes: Mapping[int, Outcome], folder: Path) -> list[Path]:
        """Plot the learned Lambda against the truth, and the convergence."""
        save_figure(precision_figure(self.items, outcomes), folder / "aninfonce_lambda.svg")
        save_figure(convergence_figure(outcomes, "r2"), folder / "aninfonce_convergence.svg")
        return [folder / "aninfonce_lambda.svg", folder / "aninfonce_convergence.svg"]


def study_named(name: StudyName, dim: int) -> Study:
    """Return a study with ``dim`` latents."""
    if name == "table1":
        return TableStudy(name, "Table 1: identifiability up to affine transformations", table1(dim))
    if name == "table2":
        return TableStudy(name, "Table 2: identifiability up to generalised permutations", table2(dim))
    if name == "figure2":
        return ConcentrationStudy(name, "Figure 2: marginals that are not uniform", figure2_points(dim))
    return PrecisionStudy(name, "AnInfoNCE: positives that change by different amounts", aninfonce_rows(dim))
