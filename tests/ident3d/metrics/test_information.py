"""The estimate of mutual information against closed forms."""

import numpy as np
import pytest

from ident3d import metrics


@pytest.fixture
def rng():
    return np.random.default_rng(2)


@pytest.mark.parametrize("rho", [[0.0, 0.0], [0.3, 0.8], [0.9, 0.9]])
def test_normal_pairs(rng, rho):
    rho = np.array(rho)
    u = rng.normal(size=(6000, 2))
    v = rho * u + np.sqrt(1 - rho**2) * rng.normal(size=(6000, 2))
    mixing = rng.normal(size=(2, 5))
    found = metrics.information(u @ mixing + 3, v @ mixing, items=1000)
    assert found.estimate == pytest.approx(-0.5 * np.log(1 - rho**2).sum(), abs=0.08)


@pytest.mark.parametrize("kappa", [1.0, 8.0])
def test_von_mises_fisher_pairs(rng, kappa):
    u = rng.normal(size=(8000, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    # on the sphere in three dimensions the cosine has a density proportional to exp(kappa cosine)
    cosine = 1 + np.log(np.exp(-2 * kappa) + rng.uniform(size=8000) * (1 - np.exp(-2 * kappa))) / kappa
    tangent = np.cross(u, rng.normal(size=(8000, 3)))
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    v = cosine[:, None] * u + np.sqrt(1 - cosine**2)[:, None] * tangent
    expected = kappa / np.tanh(kappa) - 1 + np.log(kappa / np.sinh(kappa))
    assert metrics.information(u, v, items=1000).estimate == pytest.approx(expected, abs=0.05)


def test_it_saturates_at_its_cap(rng):
    u = rng.normal(size=(1000, 6))
    found = metrics.information(u, u + 1e-4 * rng.normal(size=(1000, 6)), items=64, true=20.0)
    assert found.cap == pytest.approx(np.log(64))
    assert found.cap - 0.05 < found.estimate <= found.cap
    assert found.share == pytest.approx(found.estimate / 20)


def test_order_and_collapse(rng):
    u = rng.normal(size=(400, 2))
    v = u + rng.normal(size=(400, 2))
    ids, order = rng.choice(10**6, 400, replace=False), rng.permutation(400)
    assert metrics.information(u, v, ids) == metrics.information(u[order], v[order], ids[order])
    assert metrics.information(np.ones((400, 2)), np.ones((400, 2))).estimate == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embeddings_pos": np.zeros((99, 2))}, "as many rows"),
        ({"embeddings_pos": np.full((100, 2), np.nan)}, "must be finite"),
        ({"items": 1}, "at least 2 items"),
        ({"true": 0.0}, "positive true information"),
        ({"true": np.inf}, "positive true information"),
        ({"embeddings": np.zeros((100, 0))}, "at least one of each"),
        ({"ids": np.arange(99)}, "one id for each of the 100 rows"),
        ({"embeddings": np.zeros((100, 90))}, "too few pairs"),
    ],
)
def test_refused(changes, message):
    arguments = {"embeddings": np.zeros((100, 2)), "embeddings_pos": np.zeros((100, 2)), **changes}
    with pytest.raises(ValueError, match=message):
        metrics.information(**arguments)


def test_kinds_that_are_refused():
    x = np.zeros((100, 2))
    with pytest.raises(TypeError, match=r"embeddings must be real numbers, not .* dtype complex128"):
        metrics.information(x + 1j, x)
    with pytest.raises(TypeError, match="ids must be integers, got dtype float64"):
        metrics.information(x, x, np.arange(100.0))
