"""MCC: the assignment, circles, and the intervals against the obvious way and a closed form."""

import itertools

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from ident3d import metrics
from ident3d.metrics.evaluation import Evaluation
from ident3d.metrics.mcc import (
    circular_ranks,
    correlation_statistic,
    correlations,
    match,
    rank_correlation_statistic,
    ranks,
)
from ident3d.metrics.metric import bootstrap, interval


def evaluation(z, x, factors=None):
    return Evaluation.of(z, x, factors=factors, protocol="paper")


class TestMcc:
    def test_assignment_is_the_best_of_all(self, rng):
        z = rng.normal(size=(100, 4))
        x = z @ rng.normal(size=(4, 4))
        table = np.abs(np.corrcoef(z.T, x.T)[:4, 4:])
        best = max(sum(table[i, p[i]] for i in range(4)) for p in itertools.permutations(range(4))) / 4
        assert float(metrics.mcc(z, x)) == pytest.approx(best, abs=1e-12)

    def test_more_dimensions_than_factors(self, rng):
        z = rng.normal(size=(100, 2))
        x = np.hstack([rng.normal(size=(100, 5)), -z])
        assert float(metrics.mcc(z, x)) == pytest.approx(1)

    def test_factors_without_a_dimension_count_0(self, rng):
        z = rng.normal(size=(100, 4))
        found = metrics.mcc(z, z[:, 2:3])
        assert found.per_factor == pytest.approx({"z0": 0, "z1": 0, "z2": 1, "z3": 0})
        assert found.mean == pytest.approx(0.25)

    def test_a_doubled_dimension_serves_once(self, rng):
        z = rng.normal(size=(4000, 2))
        x = np.repeat(z[:, :1], 2, axis=1)
        with pytest.warns(metrics.DegenerateEmbeddingWarning, match="1 of 0"):
            assert float(metrics.mcc(z, x)) < 0.55

    def test_spearman_averages_ties(self, rng):
        z, x = rng.integers(0, 5, (200, 1)), rng.integers(0, 3, (200, 1)) + 0.0
        x += z
        expected = abs(spearmanr(z[:, 0], x[:, 0]).statistic)
        assert float(metrics.mcc(z, x, correlation="spearman")) == pytest.approx(expected, abs=1e-12)

    def test_unknown_correlation(self, mixed):
        with pytest.raises(ValueError, match="unknown correlation 'kendall'; choose from pearson, spearman"):
            metrics.mcc(*mixed, correlation="kendall")


class TestCircularFactors:
    def test_mcc_is_the_multiple_correlation(self, rng, circle):
        raw = rng.uniform(-1, 1, (500, 1))
        x = np.cos(np.pi * raw - 0.4) + 0.5 * rng.normal(size=(500, 1))
        design = np.c_[np.cos(np.pi * raw), np.sin(np.pi * raw), np.ones(500)]
        fit = design @ np.linalg.lstsq(design, x, rcond=None)[0]
        expected = pearsonr(fit[:, 0], x[:, 0]).statistic
        assert float(metrics.mcc(raw, x, factors=circle)) == pytest.approx(expected, abs=1e-10)

    def test_where_the_circle_is_cut_changes_nothing(self, rng, circle):
        raw = rng.uniform(-1, 1, (500, 1))
        x = np.cos(np.pi * raw - 0.4)
        turned = np.mod(raw + 1 + 0.7, 2) - 1
        for correlation in ("pearson", "spearman"):
            found = [float(metrics.mcc(z, x, factors=circle, correlation=correlation)) for z in (raw, turned)]
            assert found[0] == pytest.approx(found[1], abs=1e-3)
            assert found[0] > 0.98


def test_correlation_of_each_draw_is_that_of_the_drawn_rows(rng):
    z = rng.normal(size=(50, 2))
    e = evaluation(z, -z[:, ::-1] + rng.normal(size=(50, 2)))
    matching = match(correlations(e.embeddings, z, e.targets))
    (found,) = bootstrap(
        [correlation_statistic(matching, e.embeddings, e.targets.columns, e.targets)], 4, np.random.default_rng(3)
    )
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


def test_circular_rank_correlation_moves_like_the_one_that_is_ranked_again(rng, circle):
    z = rng.uniform(-1, 1, (800, 1))
    x = np.cos(np.pi * z - 0.4) + 0.5 * rng.normal(size=(800, 1))
    e = evaluation(z, x, circle)
    ranked, target_ranks = ranks(e.embeddings), circular_ranks(e.targets)
    matching = match(correlations(ranked, target_ranks, e.targets))
    statistic = rank_correlation_statistic(matching, ranked, target_ranks, e.targets)
    (found,) = bootstrap([statistic], 300, np.random.default_rng(3))
    replay = np.random.default_rng(3).integers(0, 800, size=(300, 800))
    slow = []
    for rows in replay:
        again = evaluation(z[rows] + 1e-9 * rng.normal(size=(800, 1)), x[rows], circle)
        slow.append(correlations(ranks(again.embeddings), circular_ranks(again.targets), again.targets)[0, 0])
    assert found.std() == pytest.approx(np.std(slow), rel=0.05)
    assert np.corrcoef(found[:, 0], slow)[0, 1] > 0.98


def test_width_of_the_interval_of_a_normal_correlation(rng):
    n, rho = 4000, 0.6
    z = rng.normal(size=(n, 1))
    e = evaluation(z, rho * z + np.sqrt(1 - rho**2) * rng.normal(size=(n, 1)))
    matching = match(correlations(e.embeddings, z, e.targets))
    (draws,) = bootstrap([correlation_statistic(matching, e.embeddings, e.targets.columns, e.targets)], 2000, rng)
    low, high = interval(metrics.plain_factors(1), draws)
    assert high.mean - low.mean == pytest.approx(2 * 1.96 * (1 - rho**2) / np.sqrt(n), rel=0.08)
