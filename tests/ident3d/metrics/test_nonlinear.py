"""Nonlinear R2."""

import numpy as np
import pytest

from ident3d import metrics


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def test_it_undoes_a_smooth_map(rng):
    z = rng.uniform(-1, 1, (3000, 3))
    x = np.sinh(3 * z)
    assert float(metrics.affine_r2(z, x)) < 0.95
    assert float(metrics.nonlinear_r2(z, x)) > 0.99


def test_an_affine_map_needs_no_nonlinear_part(rng):
    z = rng.normal(size=(2000, 3))
    x = z @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(2000, 3))
    linear, nonlinear = float(metrics.affine_r2(z, x)), float(metrics.nonlinear_r2(z, x))
    assert nonlinear == pytest.approx(linear, abs=0.005)


def test_noise_explains_nothing(rng):
    z, x = rng.uniform(-1, 1, (1000, 3)), rng.normal(size=(1000, 3))
    scores = metrics.score(z, x, extras=["nonlinear_r2"])
    assert float(scores.metrics["nonlinear_r2"]) == pytest.approx(0, abs=0.02)
    assert scores.metrics["nonlinear_r2"].chance.mean == pytest.approx(0, abs=0.02)


def test_collapsed_embeddings(rng):
    with pytest.warns(metrics.DegenerateEmbeddingWarning, match="2 dimensions are constant"):
        assert float(metrics.nonlinear_r2(rng.normal(size=(100, 2)), np.ones((100, 2)))) <= 0


def test_score_agrees(rng):
    z = rng.uniform(-1, 1, (800, 3))
    x = z**3 + 0.1 * rng.normal(size=(800, 3))
    found = float(metrics.score(z, x, extras=["nonlinear_r2"]).metrics["nonlinear_r2"])
    assert found == pytest.approx(float(metrics.nonlinear_r2(z, x)), abs=1e-9)
