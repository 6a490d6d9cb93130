"""The scores as a whole: chance, intervals, ceiling, JSON and table."""

import json

import pytest

from ident3d import metrics


class TestScore:
    def test_a_shuffled_embedding_scores_at_chance(self, mixed, rng):
        z, x = mixed
        scores = metrics.score(z, x[rng.permutation(600)])
        for metric in scores.metrics.values():
            assert float(metric) == pytest.approx(metric.chance.mean, abs=0.03)
        assert metrics.score(z, x).r2 > 0.9

    def test_chance_grows_with_the_width(self, rng):
        z = rng.normal(size=(300, 2))
        narrow, wide = (metrics.score(z, rng.normal(size=(300, d))).metrics["mcc_pearson"] for d in (2, 60))
        assert wide.chance.mean > narrow.chance.mean + 0.05

    def test_intervals_hold_the_value(self, mixed):
        for metric in metrics.score(*mixed).metrics.values():
            assert metric.low.mean < metric.value.mean < metric.high.mean
            for name, value in metric.value.per_factor.items():
                assert metric.low.per_factor[name] < value < metric.high.per_factor[name]

    def test_json_is_strict_and_complete(self, mixed):
        data = metrics.score(*mixed, fingerprint="abc", extras=("dci", "nonlinear_r2")).to_json()
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        assert data["protocol"] == "ident3d-1"
        assert data["fingerprint"] == "abc"
        assert set(data["metrics"]) == {"r2", "mcc_pearson", "mcc_spearman", "nonlinear_r2"}
        assert set(data["disentanglement"]) == {"disentanglement", "completeness", "informativeness"}

    def test_table_has_a_line_for_each_factor(self, mixed):
        ceiling = metrics.score(mixed[0], mixed[0])
        table = metrics.score(*mixed, ceiling=ceiling).table()
        assert [line.split()[0] for line in table.splitlines()[1:4]] == ["position_x", "position_y", "position_z"]
        assert "ceiling" in table
        assert "1.0000" in table

    def test_a_ceiling_of_something_else_is_refused(self, mixed):
        z, x = mixed
        others = {
            "factors z0, z1, not position_x": metrics.score(z[:, :2], x),
            "protocol paper, not ident3d-1": metrics.score(z, x, protocol="paper"),
            "rows [0-9]+, not [0-9]+": metrics.score(z[:-1], x[:-1]),
            "fingerprint a, not b": metrics.score(z, x, fingerprint="a"),
        }
        for message, ceiling in others.items():
            with pytest.raises(ValueError, match=message):
                metrics.score(z, x, ceiling=ceiling, fingerprint="b")

    def test_a_constant_latent_is_in_no_score_and_named(self, mixed):
        z, x = mixed
        z = z.copy()
        z[:, 4] = 0.25
        with pytest.warns(metrics.DegenerateEmbeddingWarning, match="rotation_y"):
            scores = metrics.score(z, x)
        assert scores.constant_factors == ("rotation_y",)
        assert len(scores.metrics["r2"].value.per_factor) == 9


@pytest.fixture
def degenerate(mixed):
    """Latents of which one is constant, and embeddings with a constant dimension and a copy."""
    z, x = mixed[0].copy(), mixed[1].copy()
    z[:, 4] = 0.25
    x[:, 2] = 7
    x[:, 5] = 1 - 2 * x[:, 1]
    return z, x


@pytest.mark.parametrize("metric", [metrics.mcc, metrics.affine_r2, metrics.nonlinear_r2])
def test_a_metric_alone_warns_of_what_all_do(degenerate, metric):
    with pytest.warns(metrics.DegenerateEmbeddingWarning) as expected:
        metrics.score(*degenerate)
    with pytest.warns(metrics.DegenerateEmbeddingWarning) as found:
        metric(*degenerate)
    assert [str(one.message) for one in found] == [str(one.message) for one in expected]
    assert [one.filename for one in found] == [__file__]


class TestPointScores:
    def test_they_are_those_of_score(self, mixed):
        whole = metrics.score(*mixed)
        found, faults = metrics.point_scores(*mixed, metrics=["mcc_spearman", "r2"])
        assert list(found) == ["mcc_spearman", "r2"]
        for name, scores in found.items():
            assert scores.per_factor == pytest.approx(whole.metrics[name].value.per_factor, abs=1e-12)
        assert faults == ()

    def test_what_is_wrong_is_returned_and_not_warned_of(self, degenerate):
        _, faults = metrics.point_scores(*degenerate)
        with pytest.warns(metrics.DegenerateEmbeddingWarning):
            assert faults == metrics.score(*degenerate).warnings
        assert len(faults) == 3

    def test_a_metric_without_a_number_per_factor(self, mixed):
        with pytest.raises(TypeError, match="the metric 'dci' has no number per factor"):
            metrics.point_scores(*mixed, metrics=["dci"])
