"""Reproducing a study: train what has no result yet, and write the results next to those that the paper reports."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from baselines.synthetic.experiments import Experiment
from baselines.synthetic.results import ExperimentResult, footer, provenance, read_results, write_results
from baselines.synthetic.studies import STUDIES, Study, StudyItem
from baselines.synthetic.training import Budget, RunScores, parse_budget, score_observations, train
from ident3d.files import write_text

__all__ = ["Reproduction", "reproduce"]

_LOG = logging.getLogger("ident3d.baselines")


@dataclass(frozen=True)
class Reproduction:
    """The results of a study so far.

    Attributes:
        results: results of its rows or points, by number.
        markdown: its table, as in ``STUDY.md``.
        path: path of ``STUDY.json``, which holds every score of every run.
    """

    results: Mapping[int, ExperimentResult]
    markdown: str
    path: Path


def reproduce(
    study: str | Study[Any],
    budget: str | Budget,
    folder: str | Path,
    *,
    checkpoints: str | Path,
    seeds: Sequence[int] = (0, 1, 2),
    numbers: Sequence[int] = (),
    supervised: bool = True,
    device: torch.device | str = "cpu",
) -> Reproduction:
    """Train the rows or points of a study that have no result yet, and write the study again after each.

    A checkpoint is written once a minute; an interrupted training is resumed, and a finished one is only read.

    Args:
        study: a study, or the name of one of :data:`~baselines.synthetic.studies.STUDIES`.
        budget: size and training of the experiments; or text for :func:`~baselines.synthetic.training.parse_budget`.
        folder: folder of ``STUDY.json``, ``STUDY.md`` and the plots; results that it already holds are kept.
        checkpoints: folder of the checkpoints that trainings are resumed from.
        seeds: one per run; the runs of a row train side by side.
        numbers: which rows or points, from 1; empty for all.
        supervised: whether the supervised models of the tables are trained too.
        device: device to train on.

    Returns:
        The study with the results of this call and of earlier ones.

    Raises:
        ValueError: if the study, the budget or a row is unknown.
        Ident3DError: if a run diverges, or the results or checkpoints on disk are of another budget.
    """
    found: Study[Any] = STUDIES.find(study) if isinstance(study, str) else study
    given = parse_budget(budget, learns_precision=found.learns_precision) if isinstance(budget, str) else budget
    items = {item.number: item for item in found.items(given.dim)}
    unknown = [number for number in numbers if number not in items]
    if unknown:
        raise ValueError(f"{found.name} has rows 1 to {len(items)}, not {', '.join(map(str, unknown))}")
    path = Path(folder) / f"{found.name}.json"
    results = read_results(path, found.name, asdict(given))
    runs = _Runs(tuple(seeds), given, torch.device(device), Path(checkpoints))
    for number in numbers or items:
        item = items[number]
        held = results.get(number)
        if held is not None and held.seeds == runs.seeds and held.experiment == item.experiment.description:
            continue
        results[number] = runs.of(item, f"{found.name} {number}/{len(items)}", supervised=supervised)
        write_results(path, found.name, asdict(given), results)
        _publish(found, list(items.values()), results, given, path.parent)
    return Reproduction(results, _publish(found, list(items.values()), results, given, path.parent), path)


def _publish(
    study: Study[Any],
    items: Sequence[StudyItem],
    results: Mapping[int, ExperimentResult],
    budget: Budget,
    folder: Path,
) -> str:
    """Write the Markdown and the plots of the results so far; return the Markdown."""
    text = f"# {study.title}\n\n{study.markdown(items, results)}\n{footer(results, asdict(budget))}"
    plots = study.draw(items, results, folder)
    text += "".join(f"\n![{plot.stem.replace('_', ' ')}]({plot.name})\n" for plot in plots)
    write_text(folder / f"{study.name}.md", text)
    return text


@dataclass(frozen=True)
class _Runs:
    """What the trainings of a study share."""

    seeds: tuple[int, ...]
    budget: Budget
    device: torch.device
    checkpoints: Path

    def of(self, item: StudyItem, label: str, *, supervised: bool) -> ExperimentResult:
        """Train an item's runs, and those of its supervised model where it has one."""
        _LOG.info("%s: %s -> %s", label, item.process_label, item.model_label)
        shown = item.supervised_experiment if supervised else None
        ceiling = None if shown is None else self._train(shown, f"{label} supervised")[-1]
        history = self._train(item.experiment, label)
        final = history[-1]
        r2, mcc = (" ".join(f"{value:.4f}" for value in final.mean(metric)) for metric in ("r2", "mcc"))
        _LOG.info("%s: R2 %s, MCC %s after %d steps in %.0f s", label, r2, mcc, final.step, final.seconds)
        return ExperimentResult(
            number=item.number,
            about=item.to_json(),
            experiment=item.experiment.description,
            seeds=self.seeds,
            history=history,
            identity=score_observations(item.experiment, self.seeds),
            supervised=ceiling,
            provenance={
                **provenance(self.device),
                "hidden_layers": str(self.budget.hidden_type(self.device)).removeprefix("torch."),
            },
        )

    def _train(self, experiment: Experiment, label: str) -> tuple[RunScores, ...]:
        identity = json.dumps([experiment.description, self.seeds, asdict(self.budget)])
        checkpoint = self.checkpoints / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.pt"
        return train(experiment, self.seeds, self.budget, self.device, checkpoint=checkpoint, label=label)
