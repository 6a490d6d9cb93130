"""One more metric, as a user adds it: one file, and its name wherever metrics are named. No edit of ident3d."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ident3d import metrics
from ident3d.dataset import ThreeDIdent
from ident3d.submission import Metadata, Submission

FILE = Path(__file__).with_name("nearest_neighbours.py")
PROJECT = Path(__file__).parents[3]
NAMES = ["nearest_neighbours:KNN_R2", "nearest_neighbours:SAP"]


@pytest.fixture
def users_folder(tmp_path, monkeypatch):
    """A folder of the user's with the file in it, where commands are run."""
    (tmp_path / FILE.name).write_text(FILE.read_text())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, FILE.stem, raising=False)
    return tmp_path


def test_in_the_scores(users_folder, rng):
    z = rng.uniform(-1, 1, (1500, 2))
    scores = metrics.score(z, np.c_[z[:, 0], z[:, 1] ** 3], extras=NAMES)
    knn, sap = (scores.metrics[name] for name in NAMES)
    assert list(scores.to_json()["metrics"]) == ["r2", "mcc_pearson", "mcc_spearman", *NAMES]
    assert scores.table().splitlines()[0].endswith("R2 5-NN     SAP")
    assert knn.value.mean > 0.99
    assert knn.chance.mean < 0.05
    assert sap.value.per_factor["z0"] == pytest.approx(1, abs=0.01)
    assert sap.low.mean < sap.value.mean < sap.high.mean


def test_registered_by_a_name_of_its_own(users_folder, rng, monkeypatch):
    monkeypatch.setattr(metrics.METRICS, "_entries", dict(metrics.METRICS))
    metrics.METRICS.register("sap", metrics.METRICS.find(NAMES[1]))
    scores = metrics.score(rng.normal(size=(200, 2)), rng.normal(size=(200, 2)), extras=["sap"])
    assert "sap" in scores.metrics


def test_from_the_command_line(users_folder, make_native):
    root = make_native(users_folder / "data", {"train": 4, "test": 80}).root
    data = ThreeDIdent(root, split="test")
    about = Metadata("n", ("a",), "m", "e", "t", "c", data.fingerprint)
    Submission.write(users_folder / "mine.zip", data.latents, data.ids, about)
    command = [sys.executable, "-m", "ident3d", "score", "mine.zip", "data", "--extras", *NAMES]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    table, found = (
        subprocess.run(line, cwd=users_folder, env=environment, check=True, capture_output=True, text=True).stdout
        for line in (command, [*command, "--json"])
    )
    assert "R2 5-NN" in table
    assert "SAP" in table
    found = json.loads(found)
    assert set(NAMES) < set(found["summary"])
    assert found["seeds"][0]["scores"]["metrics"]["nearest_neighbours:SAP"]["value"]["mean"] > 0.5
