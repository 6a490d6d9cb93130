"""The studies together: what is in them, and that the results in the repository are theirs."""

import json
import re
from pathlib import Path

import pytest
import torch

import baselines
from baselines.synthetic import STUDIES, Budget, reproduce
from baselines.synthetic.studies.aninfonce import aninfonce
from baselines.synthetic.studies.figure2 import figure2
from baselines.synthetic.studies.tables import table1, table2
from baselines.synthetic.training import Runs
from ident3d.randomness import torch_generator
from ident3d.spaces import Box


def test_every_experiment_has_a_description_of_its_own():
    rows = [*table1(), *table2()[:7], *aninfonce(), *figure2()]
    assert len({row.experiment.description for row in rows}) == len(rows)


def test_the_box_is_the_unit_cube_and_every_row_fits_any_dimension():
    assert table1(4)[4].experiment.process.space == Box(4, 0.0, 1.0)
    for row in [*table1(3), *table2(3), *aninfonce(3), *figure2(3)]:
        pairs = row.experiment.process.pairs(5, torch_generator(0, "test"))
        assert pairs.shape == (5, 2, 3)
        assert pairs.dtype == torch.float32
        assert row.experiment.process.space.contains(pairs).all()


NUMBER = re.compile(r"\d+\.\d\d\b")
RESULTS = sorted((Path(baselines.__file__).parent / "results" / "synthetic").glob("*/*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_tables_in_the_repository_are_made_of_the_results_beside_them(path, tmp_path, monkeypatch):
    """Their experiments are those of the code, or they would be trained again, which fails here."""
    document = json.loads(path.read_text(encoding="utf-8"))
    (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(Runs, "__init__", None)
    made = reproduce(
        path.stem,
        Budget(**document["budget"]),
        tmp_path,
        checkpoints=tmp_path,
        seeds=document["outcomes"][0]["seeds"],
        numbers=[outcome["number"] for outcome in document["outcomes"]],
    )
    texts = made.markdown, path.with_suffix(".md").read_text(encoding="utf-8")
    words, numbers = zip(
        *((NUMBER.sub("#", text), list(map(float, NUMBER.findall(text)))) for text in texts), strict=True
    )
    assert words[0] == words[1]
    # The scores are stored with six digits: where the third of a percentage is a five, the second may differ.
    assert numbers[0] == pytest.approx(numbers[1], abs=0.0101)


def test_an_unknown_study_is_answered_with_those_that_there_are():
    with pytest.raises(
        ValueError, match=r"unknown study 'table3'; did you mean 'table2'\?; choose from table1, table2"
    ):
        STUDIES.find("table3")
