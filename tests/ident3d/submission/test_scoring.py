"""Submissions joined to a dataset, and the commands that validate and score them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ident3d import metrics
from ident3d.commandline import main
from ident3d.commands.score import Score
from ident3d.commands.validate import Validate
from ident3d.dataset import ThreeDIdent
from ident3d.errors import SubmissionError
from ident3d.submission import Metadata, Spread, Submission, score_submission

FINGERPRINT = "12" * 32
METADATA = Metadata(
    name="Linear",
    authors=("Ada",),
    method="m",
    encoder="e",
    training_data="t",
    conditional="c",
    fingerprint=FINGERPRINT,
    seeds=(4, 5),
)


@pytest.fixture
def split():
    rng = np.random.default_rng(0)
    latents = rng.uniform(-1, 1, (200, 10)).astype(np.float32)
    runs = [latents + np.float32(s) * rng.normal(size=(200, 10)).astype(np.float32) for s in (0.1, 0.3)]
    return latents, np.arange(200) * 3, runs


@pytest.fixture
def submission(tmp_path, split):
    _, ids, runs = split
    return Submission.write(tmp_path / "s.zip", runs, ids, METADATA)


class TestScoring:
    def test_rows_are_joined_by_id(self, tmp_path, submission, split):
        latents, ids, runs = split
        order = np.random.default_rng(1).permutation(200)
        shuffled = Submission.write(tmp_path / "t.zip", [run[order] for run in runs], ids[order], METADATA)
        found = score_submission(shuffled, latents, ids, FINGERPRINT)
        assert found.to_json() == score_submission(submission, latents, ids, FINGERPRINT).to_json()
        assert found.scores[0].to_json() == metrics.score(latents, runs[0], ids, fingerprint=FINGERPRINT).to_json()

    def test_seeds_make_mean_and_standard_deviation(self, submission, split):
        latents, ids, _ = split
        found = score_submission(submission, latents, ids, FINGERPRINT)
        r2 = [scores.r2 for scores in found.scores]
        assert found.summary["r2"].mean == pytest.approx(np.mean(r2))
        assert found.summary["r2"].std == pytest.approx(np.std(r2, ddof=1))
        assert "mean and standard deviation of 2 seeds" in found.table()
        assert Spread.of([0.5]) == Spread(0.5, None)

    def test_what_does_not_fit_is_named_at_once(self, submission, split):
        latents, ids, _ = split
        ids = ids.copy()
        ids[:7] += 1
        with pytest.raises(SubmissionError) as caught:
            score_submission(submission, latents, ids, "34" * 32)
        message = str(caught.value)
        assert f"fingerprint {FINGERPRINT}, but this one has {'34' * 32}" in message
        assert "7 samples are (1, 4, 7, 10, 13 and 2 more) missing" in message
        assert "7 ids are (0, 3, 6, 9, 12 and 2 more) of no sample" in message


class TestCommands:
    @pytest.fixture
    def root(self, tmp_path, make_native):
        return make_native(tmp_path / "data", {"train": 4, "test": 80}).root

    @pytest.fixture
    def path(self, tmp_path, root):
        data = ThreeDIdent(root, split="test")
        metadata = replace(METADATA, fingerprint=data.fingerprint)
        Submission.write(tmp_path / "mine.zip", [data.latents, data.latents**3], data.ids, metadata)
        return tmp_path / "mine.zip"

    def call(self, *arguments):
        return main("ident3d", "test", {"score": Score, "validate": Validate}, [str(item) for item in arguments])

    def test_validate(self, path, capsys):
        assert self.call("validate", path) == 0
        assert (
            "is valid: Linear, revision 1, 80 x 10 embeddings of the split test, seeds 4, 5" in capsys.readouterr().out
        )
        assert self.call("validate", path, "--json") == 0
        assert json.loads(capsys.readouterr().out) == {"valid": True, "faults": []}

    def test_validate_names_faults(self, path, capsys):
        path.write_bytes(b"nothing")
        assert self.call("validate", path) == 1
        assert "is not a valid submission:\n  - " in capsys.readouterr().out
        assert self.call("validate", path, "--json") == 1
        assert len(json.loads(capsys.readouterr().out)["faults"]) == 1

    def test_score(self, path, root, capsys):
        assert self.call("score", path, root) == 0
        table = capsys.readouterr().out
        assert "seed 4" in table
        assert "position_x" in table
        assert self.call("score", path, root, "--json", "--protocol", "paper", "--ceiling", path) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["seeds"][0]["scores"]["metrics"]["r2"]["value"]["mean"] == pytest.approx(1)
        assert found["seeds"][1]["scores"]["metrics"]["r2"]["ceiling"]["mean"] == pytest.approx(1)
        assert found["seeds"][0]["scores"]["protocol"] == "paper"
        assert (found["name"], found["revision"]) == ("Linear", 1)

    def test_score_of_another_dataset(self, path, tmp_path, make_native, caplog):
        other = make_native(tmp_path / "other", {"train": 4, "test": 81}).root
        assert self.call("score", path, other) == 1
        assert "the submission does not fit the dataset" in caplog.text

    def test_score_of_nothing(self, tmp_path, root, caplog):
        assert self.call("score", tmp_path / "none.zip", root) == 2
        assert "no submission at" in caplog.text
