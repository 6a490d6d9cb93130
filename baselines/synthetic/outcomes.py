"""Outcomes of experiments, on disk as strict JSON."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baselines.synthetic.evaluation import Snapshot
from ident3d.errors import Ident3DError
from ident3d.storage.atomic import write_text

__all__ = ["Outcome", "read_outcomes", "write_outcomes"]

_SCHEMA = 1
_LIST_OF_NUMBERS = re.compile(r"(?<=\[)\n[\s\d.,eE+-]+(?=\])")  # a run's scores stand on one line


@dataclass(frozen=True)
class Outcome:
    """What came of one row or point.

    Attributes:
        number: its place in the study.
        about: what it is, and what the paper reports, as plain data.
        experiment: the experiment in full.
        seeds: one a run.
        history: what was seen while the runs trained.
        identity: the scores of the observations themselves.
        supervised: the scores of the supervised model; None where it was not trained.
        provenance: command, machine, versions, time.
    """

    number: int
    about: Mapping[str, Any]
    experiment: str
    seeds: tuple[int, ...]
    history: tuple[Snapshot, ...]
    identity: Snapshot
    supervised: Snapshot | None
    provenance: Mapping[str, Any]

    @property
    def final(self) -> Snapshot:
        """The scores at the end of the training."""
        return self.history[-1]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "number": self.number,
            **self.about,
            "experiment": self.experiment,
            "seeds": list(self.seeds),
            "measured": {
                "unsupervised": _scores(self.final),
                "supervised": None if self.supervised is None else _scores(self.supervised),
                "identity": _scores(self.identity),
            },
            "steps": self.final.step,
            "seconds": round(self.final.seconds, 1),
            "provenance": dict(self.provenance),
            "runs": {
                "identity": self.identity.to_json(),
                "supervised": None if self.supervised is None else self.supervised.to_json(),
                "history": [snapshot.to_json() for snapshot in self.history],
            },
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Outcome":
        """Return the outcome of plain data."""
        derived = {"number", "experiment", "seeds", "measured", "steps", "seconds", "provenance", "runs"}
        runs = data["runs"]
        return cls(
            number=data["number"],
            about={key: value for key, value in data.items() if key not in derived},
            experiment=data["experiment"],
            seeds=tuple(data["seeds"]),
            history=tuple(Snapshot.from_json(snapshot) for snapshot in runs["history"]),
            identity=Snapshot.from_json(runs["identity"]),
            supervised=None if runs["supervised"] is None else Snapshot.from_json(runs["supervised"]),
            provenance=data["provenance"],
        )


def write_outcomes(path: Path, study: str, budget: Mapping[str, Any], outcomes: Mapping[int, Outcome]) -> None:
    """Write the outcomes of a study to a JSON file, whole or not at all."""
    document = {
        "schema": _SCHEMA,
        "study": study,
        "budget": dict(budget),
        "outcomes": [outcomes[number].to_json() for number in sorted(outcomes)],
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, _LIST_OF_NUMBERS.sub(lambda found: re.sub(r"\n\s*", " ", found[0]), text) + "\n")


def read_outcomes(path: Path, study: str, budget: Mapping[str, Any]) -> dict[int, Outcome]:
    """Read the outcomes of a study by their numbers; none where there is no file.

    Raises:
        Ident3DError: if the file is of another study or budget, or cannot be read.
    """
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        known = (document["schema"], document["study"], document["budget"])
        outcomes = [Outcome.from_json(data) for data in document["outcomes"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Ident3DError(f"{path} does not hold results that can be read: {error!r}; move it away") from error
    if known != (_SCHEMA, study, dict(budget)):
        raise Ident3DError(
            f"{path} holds results of {known[1]} with the budget {known[2]}, not of {study} with {dict(budget)}; "
            "choose another --out"
        )
    return {outcome.number: outcome for outcome in outcomes}


def _scores(snapshot: Snapshot) -> dict[str, Any]:
    """Return the mean and the standard deviation over runs of R2 and MCC; the deviation of one run is null."""
    scores: dict[str, Any] = {}
    for metric in ("r2", "mcc"):
        runs = snapshot.mean(metric)
        scores[metric] = {
            "mean": round(float(np.mean(runs)), 6),
            "std": round(float(np.std(runs, ddof=1)), 6) if len(runs) > 1 else None,
        }
    return scores
