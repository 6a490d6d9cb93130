"""DCI: closed forms, and embeddings whose answer is known."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from ident3d.metrics.dci import completeness, disentanglement, disentanglement_of, lasso
from ident3d.metrics.evaluation import Evaluation


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def test_closed_forms():
    assert disentanglement_of(np.eye(4)) == 1
    assert completeness(np.eye(4)) == 1
    assert disentanglement_of(np.ones((4, 4))) == pytest.approx(0)
    # rows (1, 1) and (1, 0): entropies 1 and 0 bits of 1, weights 2/3 and 1/3
    assert disentanglement_of(np.array([[1.0, 1.0], [1.0, 0.0]])) == pytest.approx(1 / 3)
    assert disentanglement_of(np.zeros((3, 2))) == 0
    assert completeness(np.array([[1.0, 0.0]])) == pytest.approx(0.5), "a factor without importance counts 0"


def test_permuted_and_mixed_latents(rng):
    z = rng.uniform(-1, 1, (2000, 4))

    def dci(x):
        return disentanglement(Evaluation.of(z, x, protocol="ident3d-1"))

    apart, mixed = dci(-2 * z[:, ::-1]), dci(z @ hadamard(4))
    assert apart.disentanglement > 0.99
    assert apart.completeness > 0.99
    assert mixed.disentanglement < 0.01
    assert mixed.informativeness > 0.99


def test_two_dimensions_for_one_factor_are_disentangled_but_not_complete(rng):
    z = rng.uniform(-1, 1, (4000, 2))
    noisy = [z[:, i // 2] + 0.5 * rng.normal(size=4000) for i in range(4)]
    found = disentanglement(Evaluation.of(z, np.stack(noisy, axis=1), protocol="ident3d-1"))
    assert found.disentanglement > 0.8
    assert found.completeness == pytest.approx(0.5, abs=0.1)


def test_lasso_meets_its_optimality_conditions(rng):
    x = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6))
    y = x[:, :2] + rng.normal(size=(200, 2))
    gram, moment, penalty = x.T @ x / 200, x.T @ y / 200, np.array([0.3, 1.0])
    weight = np.zeros((6, 2))
    for _ in range(50):
        weight = lasso(gram, moment, penalty, weight)
    gradient = moment - gram @ weight
    assert (np.abs(gradient) <= penalty + 0.02).all()
    np.testing.assert_allclose(
        (gradient * np.sign(weight))[weight != 0], (penalty * np.ones((6, 1)))[weight != 0], atol=0.02
    )
