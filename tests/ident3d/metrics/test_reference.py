"""The metrics against values of the published code, on the arrays that came with them."""

import json
from pathlib import Path

import numpy as np
import pytest

from ident3d import metrics
from ident3d.metrics.evaluation import Targets
from ident3d.metrics.r2 import AffineMap, determination

DATA = Path(__file__).parent / "data"
VALUES = json.loads((DATA / "reference.json").read_text())


@pytest.fixture(params=sorted(VALUES))
def case(request):
    with np.load(DATA / "reference.npz") as arrays:
        return arrays[f"{request.param}__latents"], arrays[f"{request.param}__embeddings"], VALUES[request.param]


def test_r2_fitted_on_the_first_half(case):
    latents, embeddings, expected = case
    found = metrics.affine_r2(latents, embeddings, protocol="paper")
    assert float(found) == pytest.approx(expected["r2_split"], abs=1e-12)


def test_r2_fitted_and_scored_on_all_rows(case):
    latents, embeddings, expected = case
    targets = Targets.of(latents, metrics.plain_factors(10))
    found = determination(latents, AffineMap.fit(embeddings, latents)(embeddings), targets)
    assert found.mean() == pytest.approx(expected["r2_nosplit"], abs=1e-12)


@pytest.mark.parametrize("correlation", ["pearson", "spearman"])
@pytest.mark.parametrize("protocol", ["paper", "ident3d-1"])
def test_mcc(case, correlation, protocol):
    latents, embeddings, expected = case
    found = metrics.mcc(latents, embeddings, correlation=correlation, protocol=protocol)
    assert float(found) == pytest.approx(expected[f"mcc_{correlation}"], abs=1e-12)


def test_score_agrees_with_its_parts(case):
    latents, embeddings, expected = case
    scores = metrics.score(latents, embeddings, protocol="paper")
    assert scores.r2 == pytest.approx(expected["r2_split"], abs=1e-12)
    assert scores.mcc == pytest.approx(expected["mcc_pearson"], abs=1e-12)
    assert float(scores.metrics["mcc_spearman"]) == pytest.approx(expected["mcc_spearman"], abs=1e-12)
