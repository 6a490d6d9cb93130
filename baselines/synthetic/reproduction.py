"""Reproduce a study: train its items one after another, and keep results on disk as they come."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from baselines.synthetic.budgets import Budget
from baselines.synthetic.evaluation import Snapshot
from baselines.synthetic.experiments import Experiment
from baselines.synthetic.markdown import footer
from baselines.synthetic.outcomes import Outcome, read_outcomes, write_outcomes
from baselines.synthetic.provenance import provenance
from baselines.synthetic.runs import identity_snapshot
from baselines.synthetic.studies import Item, Study, StudyName, study_named
from baselines.synthetic.training import train
from ident3d.storage.atomic import write_text

__all__ = ["Reproduction"]

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
