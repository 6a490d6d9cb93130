"""Nonlinear R2, DCI and information."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from ident3d import metrics
from ident3d.metrics.dci import completeness, disentanglement, disentanglement_of, lasso
from ident3d.metrics.evaluation import Evaluation


@pytest.fixture
def rng():
    return np.random.default_rng(2)


class TestNonlinearR2:
    def test_it_undoes_a_smooth_map(self, rng):
        z = rng.uniform(-1, 1, (3000, 3))
        x = np.sinh(3 * z)
        assert float(metrics.affine_r2(z, x)) < 0.95
        assert float(metrics.nonlinear_r2(z, x)) > 0.99

    def test_an_affine_map_needs_no_nonlinear_part(self, rng):
        z = rng.normal(size=(2000, 3))
        x = z @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(2000, 3))
        linear, nonlinear = float(metrics.affine_r2(z, x)), float(metrics.nonlinear_r2(z, x))
        assert nonlinear == pytest.approx(linear, abs=0.005)

    def test_noise_explains_nothing(self, rng):
        z, x = rng.uniform(-1, 1, (1000, 3)), rng.normal(size=(1000, 3))
        scores = metrics.score(z, x, extras=["nonlinear_r2"])
        assert float(scores.metrics["nonlinear_r2"]) == pytest.approx(0, abs=0.02)
        assert scores.metrics["nonlinear_r2"].chance.mean == pytest.approx(0, abs=0.02)

    def test_collapsed_embeddings(self, rng):
        assert float(metrics.nonlinear_r2(rng.normal(size=(100, 2)), np.ones((100, 2)))) <= 0

    def test_score_agrees(self, rng):
        z = rng.uniform(-1, 1, (800, 3))
        x = z**3 + 0.1 * rng.normal(size=(800, 3))
        found = float(metrics.score(z, x, extras=["nonlinear_r2"]).metrics["nonlinear_r2"])
        assert found == pytest.approx(float(metrics.nonlinear_r2(z, x)), abs=1e-9)


class TestDci:
    def test_closed_forms(self):
        assert disentanglement_of(np.eye(4)) == 1
        assert completeness(np.eye(4)) == 1
        assert disentanglement_of(np.ones((4, 4))) == pytest.approx(0)
        # rows (1, 1) and (1, 0): entropies 1 and 0 bits of 1, weights 2/3 and 1/3
        assert disentanglement_of(np.array([[1.0, 1.0], [1.0, 0.0]])) == pytest.approx(1 / 3)
        assert disentanglement_of(np.zeros((3, 2))) == 0
        assert completeness(np.array([[1.0, 0.0]])) == pytest.approx(0.5), "a factor without importance counts 0"

    def test_permuted_and_mixed_latents(self, rng):
        z = rng.uniform(-1, 1, (2000, 4))

        def dci(x):
            return disentanglement(Evaluation.of(z, x, protocol="ident3d-1"))

        apart, mixed = dci(-2 * z[:, ::-1]), dci(z @ hadamard(4))
        assert apart.disentanglement > 0.99
        assert apart.completeness > 0.99
        assert mixed.disentanglement < 0.01
        assert mixed.informativeness > 0.99

    def test_two_dimensions_for_one_factor_are_disentangled_but_not_complete(self, rng):
        z = rng.uniform(-1, 1, (4000, 2))
        noisy = [z[:, i // 2] + 0.5 * rng.normal(size=4000) for i in range(4)]
        found = disentanglement(Evaluation.of(z, np.stack(noisy, axis=1), protocol="ident3d-1"))
        assert found.disentanglement > 0.8
        assert found.completeness == pytest.approx(0.5, abs=0.1)

    def test_lasso_meets_its_optimality_conditions(self, rng):
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


class TestInformation:
    @pytest.mark.parametrize("rho", [[0.0, 0.0], [0.3, 0.8], [0.9, 0.9]])
    def test_normal_pairs(self, rng, rho):
        rho = np.array(rho)
        u = rng.normal(size=(6000, 2))
        v = rho * u + np.sqrt(1 - rho**2) * rng.normal(size=(6000, 2))
        mixing = rng.normal(size=(2, 5))
        found = metrics.information(u @ mixing + 3, v @ mixing, items=1000)
        assert found.estimate == pytest.approx(-0.5 * np.log(1 - rho**2).sum(), abs=0.08)

    @pytest.mark.parametrize("kappa", [1.0, 8.0])
    def test_von_mises_fisher_pairs(self, rng, kappa):
        u = rng.normal(size=(8000, 3))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        # on the sphere in three dimensions the cosine has a density proportional to exp(kappa cosine)
        cosine = 1 + np.log(np.exp(-2 * kappa) + rng.uniform(size=8000) * (1 - np.exp(-2 * kappa))) / kappa
        tangent = np.cross(u, rng.normal(size=(8000, 3)))
        tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
        v = cosine[:, None] * u + np.sqrt(1 - cosine**2)[:, None] * tangent
        expected = kappa / np.tanh(kappa) - 1 + np.log(kappa / np.sinh(kappa))
        assert metrics.information(u, v, items=1000).estimate == pytest.approx(expected, abs=0.05)

    def test_it_saturates_at_its_cap(self, rng):
        u = rng.normal(size=(1000, 6))
        found = metrics.information(u, u + 1e-4 * rng.normal(size=(1000, 6)), items=64, true=20.0)
        assert found.cap == pytest.approx(np.log(64))
        assert found.cap - 0.05 < found.estimate <= found.cap
        assert found.share == pytest.approx(found.estimate / 20)

    def test_order_and_collapse(self, rng):
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
    def test_refused(self, changes, message):
        arguments = {"embeddings": np.zeros((100, 2)), "embeddings_pos": np.zeros((100, 2)), **changes}
        with pytest.raises(ValueError, match=message):
            metrics.information(**arguments)

    def test_kinds_that_are_refused(self):
        x = np.zeros((100, 2))
        with pytest.raises(TypeError, match="embeddings must be real numbers, got dtype complex128"):
            metrics.information(x + 1j, x)
        with pytest.raises(TypeError, match="ids must be integers, got dtype float64"):
            metrics.information(x, x, np.arange(100.0))
