"""Affine R2."""

import warnings

import numpy as np
import pytest
import torch

from ident3d import metrics
from ident3d.metrics.evaluation import Evaluation
from ident3d.metrics.metric import bootstrap, interval
from ident3d.metrics.r2 import AffineMap, RidgeMap, determination, r2_statistic


class TestAffineR2:
    def test_groups_and_mean_are_means_of_factors(self, mixed):
        found = metrics.affine_r2(*mixed)
        values = list(found.per_factor.values())
        assert list(found.per_group) == ["position", "rotation", "spotlight", "hue"]
        assert found.per_group["position"] == pytest.approx(np.mean(values[:3]))
        assert found.per_group["hue"] == pytest.approx(np.mean(values[7:]))
        assert found.mean == pytest.approx(np.mean(values))

    @pytest.mark.parametrize("offset", [0, 1e6])
    @pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
    def test_shift_and_scale_change_nothing(self, mixed, scale, offset):
        z, x = mixed
        found = metrics.affine_r2(z, (x + offset) * scale)
        assert float(found) == pytest.approx(float(metrics.affine_r2(z, x)), abs=1e-8)

    def test_narrow_embeddings_explain_their_share(self, rng):
        z = rng.uniform(-1, 1, (4000, 4))
        found = metrics.affine_r2(z, z[:, :1])
        assert found.per_factor["z0"] == pytest.approx(1)
        assert abs(found.per_factor["z1"]) < 0.01

    def test_collinear_and_doubled_dimensions_change_nothing(self, mixed):
        z, x = mixed
        wide = np.hstack([x, x[:, :3], x[:, :2] @ np.ones((2, 1)), np.zeros((600, 1))])
        with pytest.warns(metrics.DegenerateEmbeddingWarning, match="12 of 0, 13 of 1, 14 of 2"):
            found = metrics.affine_r2(z, wide)
        assert float(found) == pytest.approx(float(metrics.affine_r2(z, x)), abs=1e-9)

    def test_one_latent_one_dimension(self, rng):
        z = rng.normal(size=(50, 1))
        assert float(metrics.affine_r2(z, -3 * z + 1)) == pytest.approx(1)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_torch_tensors(self, mixed, dtype):
        z, x = mixed
        found = metrics.affine_r2(torch.tensor(z), torch.tensor(x, dtype=dtype, requires_grad=True))
        assert float(found) == pytest.approx(float(metrics.affine_r2(z, x)), abs=1e-2)

    def test_a_wrap_of_a_circle_costs_nothing(self, rng, circle):
        raw = rng.uniform(-1, 1, (2000, 1))
        x = np.hstack([np.cos(np.pi * raw + 1), np.sin(np.pi * raw + 1)])
        assert float(metrics.affine_r2(raw, x, factors=circle)) == pytest.approx(1)
        assert float(metrics.affine_r2(raw, x)) < 0.7, "on a line the same embeddings pay for the wrap"


def test_r2_of_each_draw_is_that_of_the_drawn_rows(rng):
    z = rng.normal(size=(60, 2))
    e = Evaluation.of(z, z + 0.5 * rng.normal(size=(60, 2)), protocol="paper")
    scored = ~e.fitted
    prediction = AffineMap.fit(e.embeddings[e.fitted], z[e.fitted])(e.embeddings[scored])
    (found,) = bootstrap([r2_statistic(prediction, e.targets, scored)], 5, np.random.default_rng(3))
    replay = np.random.default_rng(3).integers(0, 60, size=(5, 60))
    for draw, rows in zip(found, replay, strict=True):
        rows = rows[scored[rows]] - 30  # noqa: PLW2901 - the scored rows among those drawn
        np.testing.assert_allclose(draw, determination(z[scored][rows], prediction[rows], e.targets), atol=1e-12)


@pytest.mark.slow
def test_r2_intervals_cover_the_fitted_map(rng):
    """R2 that a fitted map has on 100,000 rows lies in the interval from 150 scored rows about 95 times in 100."""
    weight = rng.normal(size=(3, 3))

    def sample(n):
        z = rng.normal(size=(n, 3))
        return z, z @ weight + rng.normal(size=(n, 3))

    hits, trials = 0, 300
    population_z, population_x = sample(100_000)
    for _ in range(trials):
        z, x = sample(300)
        e = Evaluation.of(z, x, protocol="paper")
        fit = AffineMap.fit(x[e.fitted], z[e.fitted])
        (draws,) = bootstrap([r2_statistic(fit(x[~e.fitted]), e.targets, ~e.fitted)], 300, rng)
        low, high = interval(metrics.plain_factors(3), draws)
        truth = determination(population_z, fit(population_x), e.targets).mean()
        hits += low.mean <= truth <= high.mean
    assert 0.89 < hits / trials < 0.98


class TestRidge:
    """The protocol ident3d-2: a ridge behind R2, chosen on the fitted half."""

    def test_the_ridge_is_that_with_the_least_error_on_rows_left_out_one_at_a_time(self, rng):
        x, noise = rng.normal(size=(24, 30)), rng.normal(size=(24, 3))
        y = x[:, :3] + noise * [0.01, 1.0, 30.0]
        found = RidgeMap.fit(x, y)
        scale = np.linalg.svd(x - x.mean(0), compute_uv=False)[0] ** 2

        def ridge(x, y, penalty):
            centred = x - x.mean(0)
            return np.linalg.solve(centred.T @ centred + penalty * np.eye(30), centred.T @ (y - y.mean(0)))

        for column in range(3):
            errors = []
            for penalty in scale * np.logspace(-12, 1, 27):
                error = 0
                for row in range(24):
                    rest = np.arange(24) != row
                    weight = ridge(x[rest], y[rest, column], penalty)
                    error += (y[row, column] - y[rest, column].mean() - (x[row] - x[rest].mean(0)) @ weight) ** 2
                errors.append(error)
            best = (scale * np.logspace(-12, 1, 27))[np.argmin(errors)]
            np.testing.assert_allclose(found.weight[:, column], ridge(x, y[:, column], best), atol=1e-5)

    def test_where_rows_abound_it_is_least_squares(self, mixed):
        z, x = mixed
        first, second = (metrics.affine_r2(z, x, protocol=name) for name in ("ident3d-1", "ident3d-2"))
        np.testing.assert_allclose(list(first.per_factor.values()), list(second.per_factor.values()), atol=2e-3)
        exact = metrics.affine_r2(z, z @ rng_matrix(10) * np.logspace(0, -4, 10), protocol="ident3d-2")
        assert exact.mean == pytest.approx(1, abs=1e-6)

    def test_encoders_wider_than_the_rows_are_scored(self, rng):
        z = rng.uniform(-1, 1, (400, 3))
        x = z @ rng.normal(size=(3, 700)) + 0.1 * rng.normal(size=(400, 700))
        with pytest.raises(ValueError, match=r"too few rows .* or the protocol 'ident3d-2', whose ridge takes"):
            metrics.affine_r2(z, x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # 700 dimensions of 400 rows are not called collinear
            scores = metrics.score(z, x, protocol="ident3d-2")
        assert scores.r2 > 0.98
        assert abs(scores.metrics["r2"].chance.mean) < 0.1
        assert "700 dimensions, protocol ident3d-2" in scores.table()
        unrelated = metrics.score(z, rng.normal(size=(400, 700)), protocol="ident3d-2")
        assert abs(unrelated.r2) < 0.1
        assert metrics.nonlinear_r2(z, x, protocol="ident3d-2").mean > 0.95
        with pytest.raises(ValueError, match="at least 10 and 2 are needed"):
            metrics.affine_r2(z[:12], x[:12], protocol="ident3d-2")

    def test_constant_embeddings_explain_nothing(self, rng):
        with pytest.warns(metrics.DegenerateEmbeddingWarning):
            assert metrics.affine_r2(rng.normal(size=(50, 2)), np.ones((50, 60)), protocol="ident3d-2").mean <= 0

    def test_the_protocol_follows_from_the_width(self):
        ids = np.arange(2000)
        fitted = int(metrics.PROTOCOLS["ident3d-1"].fitted(ids).sum())
        assert metrics.protocol_for(fitted - 2, ids) == "ident3d-1"
        assert metrics.protocol_for(fitted - 1, ids) == "ident3d-2"


def rng_matrix(size):
    return np.linalg.qr(np.random.default_rng(5).normal(size=(size, size)))[0]
