"""The studies that can be reproduced: their items, and how their outcomes are shown."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from baselines.synthetic.experiments import (
    AnisotropicRow,
    ConcentrationPoint,
    Experiment,
    Row,
    aninfonce_rows,
    figure2_points,
    table1,
    table2,
)
from baselines.synthetic.results import (
    Outcome,
    aninfonce_markdown,
    concentration_figure,
    concentration_markdown,
    convergence_figure,
    footer,
    precision_figure,
    provenance,
    read_outcomes,
    save_figure,
    table_markdown,
    write_outcomes,
)
from baselines.synthetic.training import Budget, Snapshot, identity_snapshot, train
from ident3d.files import write_text

__all__ = [
    "ConcentrationStudy",
    "Item",
    "PrecisionStudy",
    "Reproduction",
    "Study",
    "StudyName",
    "TableStudy",
    "study_named",
]

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


_LOG = logging.getLogger("ident3d.baselines")


@dataclass(frozen=True)
class Reproduction:
    """One study with one budget.

    Attributes:
        study: one of the papers' by its name, or one of one's own.
        budget: how its experiments are sized and trained.
        seeds: one a run; the runs of an item train side by side.
        device: where.
        results: folder that gets ``STUDY.json``, ``STUDY.md`` and the plots.
        checkpoints: folder that trainings are kept in; one that is asked for again goes on, or is only read.
        supervised: whether the tables' supervised models are trained too.
    """

    study: StudyName | Study
    budget: Budget
    seeds: tuple[int, ...]
    device: torch.device
    results: Path
    checkpoints: Path
    supervised: bool = True

    def run(self, numbers: Sequence[int] = ()) -> str:
        """Train the items that have no outcome yet, and return the study in Markdown.

        Args:
            numbers: which items, from 1; all of them where empty.

        Raises:
            ValueError: if the study has no item of that number.
            Ident3DError: if a run diverges, or the results or checkpoints on disk are of another budget.
        """
        study = study_named(self.study, self.budget.dim) if isinstance(self.study, str) else self.study
        known = {item.number: item for item in study.items}
        unknown = [number for number in numbers if number not in known]
        if unknown:
            raise ValueError(f"{study.name} has rows 1 to {len(known)}, not {', '.join(map(str, unknown))}")
        path = self.results / f"{study.name}.json"
        outcomes = read_outcomes(path, study.name, asdict(self.budget))
        for number in numbers or known:
            item = known[number]
            held = outcomes.get(number)
            if held is not None and held.seeds == self.seeds and held.experiment == item.experiment.description:
                continue
            outcomes[number] = self._train_item(study, item)
            write_outcomes(path, study.name, asdict(self.budget), outcomes)
            self._publish(study, outcomes)
        return self._publish(study, outcomes)

    def _publish(self, study: Study, outcomes: Mapping[int, Outcome]) -> str:
        """Write the Markdown and the plots of what is known so far; return the Markdown."""
        text = f"# {study.title}\n\n{study.markdown(outcomes)}\n{footer(outcomes, asdict(self.budget))}"
        plots = study.draw(outcomes, self.results)
        text += "".join(f"\n![{plot.stem.replace('_', ' ')}]({plot.name})\n" for plot in plots)
        write_text(self.results / f"{study.name}.md", text)
        return text

    def _train_item(self, study: Study, item: Item) -> Outcome:
        label = f"{study.name} {item.number}/{len(study.items)}"
        _LOG.info("%s: %s -> %s", label, item.process_label, item.model_label)
        supervised = study.supervised(item) if self.supervised else None
        ceiling = None if supervised is None else self._train(supervised, f"{label} supervised")[-1]
        history = self._train(item.experiment, label)
        final = history[-1]
        _LOG.info(
            "%s: R2 %s, MCC %s after %d steps in %.0f s",
            label,
            _shown(final, "r2"),
            _shown(final, "mcc"),
            final.step,
            final.seconds,
        )
        return Outcome(
            number=item.number,
            about=item.to_json(),
            experiment=item.experiment.description,
            seeds=self.seeds,
            history=history,
            identity=identity_snapshot(item.experiment, self.seeds),
            supervised=ceiling,
            provenance={
                **provenance(self.device),
                "hidden_layers": str(self.budget.hidden_type(self.device)).removeprefix("torch."),
            },
        )

    def _train(self, experiment: Experiment, label: str) -> tuple[Snapshot, ...]:
        identity = json.dumps([experiment.description, self.seeds, asdict(self.budget)])
        checkpoint = self.checkpoints / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.pt"
        return train(experiment, self.seeds, self.budget, self.device, checkpoint=checkpoint, label=label)


def _shown(snapshot: Snapshot, metric: str) -> str:
    return " ".join(f"{value:.4f}" for value in snapshot.mean(metric))
