"""Studies: the papers' tables and figures, and the interface of your own.

A study is one file: its items, each with an experiment, and how their results are shown as Markdown and plots.
``python -m baselines reproduce`` takes a name of :data:`STUDIES` or ``package.module:attribute``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from baselines.synthetic.experiments import Experiment
from baselines.synthetic.results import ExperimentResult
from baselines.synthetic.studies.aninfonce import PrecisionStudy
from baselines.synthetic.studies.figure2 import ConcentrationStudy
from baselines.synthetic.studies.tables import TableStudy, table1, table2
from ident3d.registry import Registry

__all__ = ["STUDIES", "Study", "StudyItem"]


class StudyItem(Protocol):
    """What a study is made of: one row or point."""

    @property
    def number(self) -> int:
        """Its place in the study, from 1."""

    @property
    def experiment(self) -> Experiment:
        """What is run."""

    @property
    def supervised_experiment(self) -> Experiment | None:
        """The supervised experiment that is shown beside it; None where there is none."""

    @property
    def process_label(self) -> str:
        """The generative process in words."""

    @property
    def model_label(self) -> str:
        """The model in words."""

    def to_json(self) -> dict[str, Any]:
        """Return what it is and what is reported of it, as plain data."""


ItemT = TypeVar("ItemT", bound=StudyItem)


class Study(Protocol[ItemT]):
    """A set of items, and what their results look like."""

    @property
    def name(self) -> str:
        """What its files are called."""

    @property
    def title(self) -> str:
        """What stands above its results."""

    @property
    def learns_precision(self) -> bool:
        """Whether its losses learn Lambda, for which budgets have a learning rate of their own."""

    def items(self, dim: int) -> Sequence[ItemT]:
        """Return its rows or points with ``dim`` latents, numbered from 1."""

    def markdown(self, items: Sequence[ItemT], results: Mapping[int, ExperimentResult]) -> str:
        """Return a table of the results, which are by the items' numbers and may be of some items only."""

    def draw(self, items: Sequence[ItemT], results: Mapping[int, ExperimentResult], folder: Path) -> list[Path]:
        """Write plots of the results into a folder; return their files."""


STUDIES: Registry[Study[Any]] = Registry(
    "study",
    {
        "table1": TableStudy("table1", "Table 1: identifiability up to affine transformations", table1),
        "table2": TableStudy("table2", "Table 2: identifiability up to generalised permutations", table2),
        "figure2": ConcentrationStudy("figure2", "Figure 2: marginals that are not uniform"),
        "aninfonce": PrecisionStudy("aninfonce", "AnInfoNCE: positives that change by different amounts"),
    },
)
"""The studies by name."""
