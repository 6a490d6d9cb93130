"""The intervals against the obvious way, and against closed forms."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from ident3d.factors import Factor, Factors
from ident3d.metrics import plain_factors
from ident3d.metrics.bootstrap import (
    bootstrap,
    correlation_statistic,
    interval,
    r2_statistic,
    rank_correlation_statistic,
)
from ident3d.metrics.evaluation import Evaluation
from ident3d.metrics.mcc import circular_ranks, correlations, match, ranks
from ident3d.metrics.r2 import AffineMap, determination

CIRCLE = Factors((Factor("turn", "angle", -np.pi, np.pi, "rad", period=2 * np.pi),))


def evaluation(z, x, factors=None):
    return Evaluation.of(z, x, factors=factors, protocol="paper")


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def test_r2_of_each_draw_is_that_of_the_drawn_rows(rng):
    z = rng.normal(size=(60, 2))
    e = evaluation(z, z + 0.5 * rng.normal(size=(60, 2)))
    scored = ~e.fitted
    prediction = AffineMap.fit(e.embeddings[e.fitted], z[e.fitted])(e.embeddings[scored])
    (found,) = bootstrap([r2_statistic(prediction, e.targets, scored)], 5, np.random.default_rng(3))
    replay = np.random.default_rng(3).integers(0, 60, size=(5, 60))
    for draw, rows in zip(found, replay, strict=True):
        rows = rows[scored[rows]] - 30  # noqa: PLW2901 - the scored rows among those drawn
        np.testing.assert_allclose(draw, determination(z[scored][rows], prediction[rows], e.targets), atol=1e-12)


def test_correlation_of_each_draw_is_that_of_the_drawn_rows(rng):
    z = rng.normal(size=(50, 2))
    e = evaluation(z, -z[:, ::-1] + rng.normal(size=(50, 2)))
    matching = match(correlations(e.embeddings, z, e.targets))
    (found,) = bootstrap([correlation_statistic(matching, e.embeddings, e.targets)], 4, np.random.default_rng(3))
    replay = np.random.default_rng(3).integers(0, 50, size=(4, 50))
    for draw, rows in zip(found, replay, strict=True):
        expected = [abs(np.corrcoef(z[rows, i], e.embeddings[rows, 1 - i])[0, 1]) for i in range(2)]
        np.testing.assert_allclose(draw, expected, atol=1e-12)


@pytest.mark.parametrize("decimals", [9, 0])
def test_rank_correlation_moves_like_the_one_that_is_ranked_again(rng, decimals):
    z = rng.normal(size=(800, 1))
    x = (z + 0.7 * rng.normal(size=(800, 1))).round(decimals)
    z = z.round(decimals)
    e = evaluation(z, x)
    ranked, target_ranks = ranks(e.embeddings), circular_ranks(e.targets)
    statistic = rank_correlation_statistic(
        match(correlations(ranked, target_ranks, e.targets)), ranked, target_ranks, e.targets
    )
    (found,) = bootstrap([statistic], 400, np.random.default_rng(3))
    replay = np.random.default_rng(3).integers(0, 800, size=(400, 800))
    slow = np.array([spearmanr(z[rows, 0], x[rows, 0]).statistic for rows in replay])
    assert found.std() == pytest.approx(slow.std(), rel=0.02)
    assert np.corrcoef(found[:, 0], slow)[0, 1] > 0.99


def test_circular_rank_correlation_moves_like_the_one_that_is_ranked_again(rng):
    z = rng.uniform(-1, 1, (800, 1))
    x = np.cos(np.pi * z - 0.4) + 0.5 * rng.normal(size=(800, 1))
    e = evaluation(z, x, CIRCLE)
    ranked, target_ranks = ranks(e.embeddings), circular_ranks(e.targets)
    matching = match(correlations(ranked, target_ranks, e.targets))
    statistic = rank_correlation_statistic(matching, ranked, target_ranks, e.targets)
    (found,) = bootstrap([statistic], 300, np.random.default_rng(3))
    replay = np.random.default_rng(3).integers(0, 800, size=(300, 800))
    slow = []
    for rows in replay:
        again = evaluation(z[rows] + 1e-9 * rng.normal(size=(800, 1)), x[rows], CIRCLE)
        slow.append(correlations(ranks(again.embeddings), circular_ranks(again.targets), again.targets)[0, 0])
    assert found.std() == pytest.approx(np.std(slow), rel=0.05)
    assert np.corrcoef(found[:, 0], slow)[0, 1] > 0.98


def test_width_of_the_interval_of_a_normal_correlation(rng):
    n, rho = 4000, 0.6
    z = rng.normal(size=(n, 1))
    e = evaluation(z, rho * z + np.sqrt(1 - rho**2) * rng.normal(size=(n, 1)))
    matching = match(correlations(e.embeddings, z, e.targets))
    (draws,) = bootstrap([correlation_statistic(matching, e.embeddings, e.targets)], 2000, rng)
    low, high = interval(plain_factors(1), draws)
    assert high.mean - low.mean == pytest.approx(2 * 1.96 * (1 - rho**2) / np.sqrt(n), rel=0.08)


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
        e = evaluation(z, x)
        fit = AffineMap.fit(x[e.fitted], z[e.fitted])
        (draws,) = bootstrap([r2_statistic(fit(x[~e.fitted]), e.targets, ~e.fitted)], 300, rng)
        low, high = interval(plain_factors(3), draws)
        truth = determination(population_z, fit(population_x), e.targets).mean()
        hits += low.mean <= truth <= high.mean
    assert 0.89 < hits / trials < 0.98
