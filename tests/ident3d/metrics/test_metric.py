"""The contract: a metric of the user's own, and the intervals and chance level that it gets without asking."""

import numpy as np
import pytest

from ident3d import metrics
from ident3d.metrics.metric import bootstrap, jackknife


class AbsoluteCorrelation(metrics.FactorMetric):
    """The correlation of each factor with the dimension of the same number."""

    label = "same"

    def values(self, evaluation):
        x, z = evaluation.embeddings, evaluation.targets.columns
        return np.abs([np.corrcoef(x[:, i], z[:, i])[0, 1] for i in range(z.shape[1])])


@pytest.fixture
def registered(monkeypatch):
    """The registry as it is, to which a test may add."""
    monkeypatch.setattr(metrics.METRICS, "_entries", dict(metrics.METRICS))
    return metrics.METRICS


class TestJackknife:
    def test_the_interval_of_a_normal_correlation(self, rng):
        n, rho = 4000, 0.6
        widths = []
        for _ in range(20):
            z = rng.normal(size=(n, 1))
            x = rho * z + np.sqrt(1 - rho**2) * rng.normal(size=(n, 1))
            e = metrics.Evaluation.of(z, x, protocol="ident3d-1")
            (draws,) = bootstrap([jackknife(AbsoluteCorrelation().values, e)], 500, rng)
            assert draws.mean() == pytest.approx(AbsoluteCorrelation().values(e)[0], abs=0.002)
            widths.append(draws.std())
        # twenty blocks know a variance to a third, so that the mean of twenty of them is good to a tenth
        assert np.mean(widths) == pytest.approx((1 - rho**2) / np.sqrt(n), rel=0.1)

    def test_a_mean_has_the_interval_of_a_mean(self, rng):
        z, x = rng.normal(size=(1000, 1)), rng.normal(size=(1000, 1))
        e = metrics.Evaluation.of(z, x, protocol="ident3d-1")
        statistic = jackknife(lambda part: part.targets.columns.mean(axis=0), e)
        assert statistic.columns.mean() == pytest.approx(z.mean())
        blocks = z[:, 0].reshape(50, 20).mean(axis=0)
        assert statistic.columns.std() / np.sqrt(1000) == pytest.approx(blocks.std() / np.sqrt(20), rel=1e-9)


class TestExtras:
    def test_values_alone_make_a_metric(self, mixed, registered):
        registered.register("same", AbsoluteCorrelation())
        scores = metrics.score(*mixed, extras=["same"])
        found = scores.metrics["same"]
        assert found.low.mean < found.value.mean < found.high.mean
        assert found.chance.mean == pytest.approx(np.sqrt(2 / np.pi / 600), rel=0.2), "the mean of a half normal"
        assert list(scores.to_json()["metrics"]) == ["r2", "mcc_pearson", "mcc_spearman", "same"]
        assert scores.table().splitlines()[0].split() == ["R2", "MCC", "MCC", "ranks", "same"]
        assert "same" not in metrics.score(*mixed).metrics

    def test_what_is_no_extra_is_in_all_scores(self, mixed, registered):
        metric = AbsoluteCorrelation()
        metric.is_extra = False
        registered.register("same", metric)
        assert "same" in metrics.score(*mixed).metrics

    def test_others_change_nothing(self, mixed, registered):
        registered.register("same", AbsoluteCorrelation())
        alone, beside = metrics.score(*mixed), metrics.score(*mixed, extras=["same"])
        for name, metric in alone.metrics.items():
            assert beside.metrics[name].value == metric.value
            assert beside.metrics[name].low.mean == pytest.approx(metric.low.mean, abs=1e-12)

    def test_a_class_is_refused(self, mixed, registered):
        registered.register("same", AbsoluteCorrelation)
        with pytest.raises(TypeError, match="name an instance of a subclass of Metric"):
            metrics.score(*mixed, extras=["same"])

    def test_a_regressor_makes_a_metric(self, rng, registered):
        def fit(inputs, outputs):
            def features(x):
                return np.c_[np.ones(len(x)), x, x**2]

            weight = np.linalg.lstsq(features(inputs), outputs, rcond=None)[0]
            return lambda new: features(new) @ weight

        registered.register("squares", metrics.ExplainedVariance("R2 squares", fit))
        x = rng.uniform(-1, 1, (2000, 3))
        found = metrics.score(x**2 - 1 / 3, x, extras=["squares"])
        assert found.r2 < 0.1
        assert float(found.metrics["squares"]) == pytest.approx(1)
        assert found.metrics["squares"].chance.mean < 0.05
