"""Affine R2, MCC, dimension and the scores as a whole."""

import itertools
import json
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr

from ident3d import metrics
from ident3d.factors import Factor, Factors
from ident3d.metrics.evaluation import hashed_half

PLAIN = metrics.plain_factors


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def mixed(rng):
    """(600, 10) latents, and embeddings that are a noisy affine map of them."""
    z = rng.uniform(-1, 1, (600, 10))
    return z, z @ rng.normal(size=(10, 12)) + 0.3 * rng.normal(size=(600, 12)) + 5


CIRCLE = Factors((Factor("turn", "angle", -np.pi, np.pi, "rad", period=2 * np.pi),))


class TestHalves:
    def test_the_hash_is_splitmix64(self):
        # first outputs of the published generator from the states 0 and 1234567
        assert 0xE220A8397B1DCDAF >> 63 == 1
        assert 6457827717110365317 >> 63 == 0
        np.testing.assert_array_equal(hashed_half(np.array([0, 1234567])), [False, True])

    def test_halves_are_even_and_do_not_follow_the_ids(self):
        fitted = hashed_half(np.arange(100_000))
        assert abs(fitted.mean() - 0.5) < 0.01
        assert abs(np.corrcoef(fitted[1:], fitted[:-1])[0, 1]) < 0.02

    def test_scores_are_the_same_in_any_order_bit_for_bit(self, mixed, rng):
        z, x = mixed
        ids = rng.choice(10**12, size=600, replace=False)
        order = rng.permutation(600)
        first = metrics.score(z, x, ids).to_json()
        assert first == metrics.score(z[order], x[order], ids[order]).to_json()

    def test_ids_decide_the_halves(self, mixed):
        z, x = mixed
        ids = np.arange(600) * 7 + 3
        fitted = hashed_half(ids)
        weight = np.linalg.lstsq(np.c_[x, np.ones(600)][fitted], z[fitted], rcond=None)[0]
        error = z[~fitted] - np.c_[x, np.ones(600)][~fitted] @ weight
        expected = 1 - (error**2).sum(0) / ((z[~fitted] - z[~fitted].mean(0)) ** 2).sum(0)
        found = metrics.affine_r2(z, x, ids)
        np.testing.assert_allclose(list(found.per_factor.values()), expected, atol=1e-12)

    def test_paper_takes_the_first_4096_rows(self, rng):
        z = rng.normal(size=(5000, 2))
        x = z.copy()
        x[4096:] = 0
        assert metrics.score(z, x, factors=PLAIN(2), protocol="paper").rows == 4096
        assert float(metrics.affine_r2(z, x, protocol="paper")) == pytest.approx(1)


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
        assert float(metrics.affine_r2(z, wide)) == pytest.approx(float(metrics.affine_r2(z, x)), abs=1e-9)

    def test_one_latent_one_dimension(self, rng):
        z = rng.normal(size=(50, 1))
        assert float(metrics.affine_r2(z, -3 * z + 1)) == pytest.approx(1)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_torch_tensors(self, mixed, dtype):
        z, x = mixed
        found = metrics.affine_r2(torch.tensor(z), torch.tensor(x, dtype=dtype, requires_grad=True))
        assert float(found) == pytest.approx(float(metrics.affine_r2(z, x)), abs=1e-2)


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
        assert float(metrics.mcc(z, x)) < 0.55

    def test_spearman_averages_ties(self, rng):
        z, x = rng.integers(0, 5, (200, 1)), rng.integers(0, 3, (200, 1)) + 0.0
        x += z
        expected = abs(spearmanr(z[:, 0], x[:, 0]).statistic)
        assert float(metrics.mcc(z, x, correlation="spearman")) == pytest.approx(expected, abs=1e-12)

    def test_unknown_correlation(self, mixed):
        with pytest.raises(ValueError, match="no correlation 'kendall'; expected one of pearson, spearman"):
            metrics.mcc(*mixed, correlation="kendall")


class TestCircularFactors:
    def test_a_wrap_costs_nothing_in_r2(self, rng):
        raw = rng.uniform(-1, 1, (2000, 1))
        x = np.hstack([np.cos(np.pi * raw + 1), np.sin(np.pi * raw + 1)])
        assert float(metrics.affine_r2(raw, x, factors=CIRCLE)) == pytest.approx(1)
        assert float(metrics.affine_r2(raw, x)) < 0.7, "on a line the same embeddings pay for the wrap"

    def test_mcc_is_the_multiple_correlation(self, rng):
        raw = rng.uniform(-1, 1, (500, 1))
        x = np.cos(np.pi * raw - 0.4) + 0.5 * rng.normal(size=(500, 1))
        design = np.c_[np.cos(np.pi * raw), np.sin(np.pi * raw), np.ones(500)]
        fit = design @ np.linalg.lstsq(design, x, rcond=None)[0]
        expected = pearsonr(fit[:, 0], x[:, 0]).statistic
        assert float(metrics.mcc(raw, x, factors=CIRCLE)) == pytest.approx(expected, abs=1e-10)

    def test_where_the_circle_is_cut_changes_nothing(self, rng):
        raw = rng.uniform(-1, 1, (500, 1))
        x = np.cos(np.pi * raw - 0.4)
        turned = np.mod(raw + 1 + 0.7, 2) - 1
        for correlation in ("pearson", "spearman"):
            found = [float(metrics.mcc(z, x, factors=CIRCLE, correlation=correlation)) for z in (raw, turned)]
            assert found[0] == pytest.approx(found[1], abs=1e-3)
            assert found[0] > 0.98

    def test_physical_values_are_refused(self, rng):
        with pytest.raises(ValueError, match="turn lies on a circle"):
            metrics.affine_r2(rng.uniform(-3, 3, (50, 1)), rng.normal(size=(50, 2)), factors=CIRCLE)


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


class TestDimension:
    def test_closed_form(self, rng):
        x = np.linalg.qr(rng.normal(size=(500, 3)) - 0)[0]
        x = np.linalg.qr(x - x.mean(0))[0] * np.sqrt([4.0, 2.0, 1.0])
        found = metrics.score(rng.normal(size=(500, 2)), x @ np.linalg.qr(rng.normal(size=(3, 3)))[0]).dimension
        assert found.rank == 3
        assert found.participation_ratio == pytest.approx(49 / 21)

    def test_dead_doubled_and_collinear_dimensions_are_named_once(self, rng):
        z = rng.normal(size=(300, 3)).astype(np.float32)
        x = np.c_[z, 7 * np.ones(300), -2 * z[:, 1] + 3, z.sum(axis=1)].astype(np.float32)
        with pytest.warns(metrics.DegenerateEmbeddingWarning) as caught:
            scores = metrics.score(z, x)
        assert len(caught) == 1
        assert scores.dimension.rank == 3
        assert "constant over all rows and score nothing: 3" in scores.warnings[0]
        assert "copy of another, up to shift and scale: 4 of 1" in scores.warnings[1]
        assert "the 4 distinct dimensions are collinear: they span 3" in scores.warnings[2]
        assert scores.r2 == pytest.approx(1)

    def test_a_collapsed_encoder_scores_nothing(self, mixed):
        z, _ = mixed
        with pytest.warns(metrics.DegenerateEmbeddingWarning, match="10 dimensions are constant.*and 2 more"):
            scores = metrics.score(z, np.ones((600, 10)))
        assert scores.mcc == 0
        assert scores.r2 <= 0
        assert scores.dimension == metrics.Dimension(0, 0.0)
        json.dumps(scores.to_json(), allow_nan=False)

    def test_sound_embeddings_raise_no_warning(self, mixed):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert metrics.score(*mixed).warnings == ()


class TestBadInput:
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_the_row_is_named(self, mixed, bad):
        z, x = mixed
        x = x.copy()
        x[17, 3] = bad
        with pytest.raises(ValueError, match="embeddings must be finite: row 17, column 3"):
            metrics.score(z, x)

    def test_latents_name_row_and_factor(self, mixed):
        z, x = mixed
        z = z.copy()
        z[5, 7] = np.nan
        with pytest.raises(ValueError, match="row 5, object_hue"):
            metrics.score(z, x)

    @pytest.mark.parametrize(
        ("changes", "error", "message"),
        [
            ({"embeddings": np.zeros((599, 3))}, ValueError, "599 embeddings and 600 latents"),
            ({"embeddings": np.zeros(600)}, ValueError, "shape \\(rows, columns\\)"),
            ({"embeddings": np.zeros((600, 0))}, ValueError, "at least one of each"),
            ({"embeddings": np.full((600, 3), "a")}, TypeError, "real numbers"),
            ({"embeddings": np.random.default_rng(0).normal(size=(600, 400))}, ValueError, "too few rows .* 400"),
            ({"latents": np.ones((600, 10))}, ValueError, "none of the 10 latents varies"),
            ({"ids": np.zeros(600, int)}, ValueError, "0 occurs more than once"),
            ({"ids": np.arange(599)}, ValueError, "one id for each of the 600 rows"),
            ({"ids": np.arange(600.0)}, TypeError, "ids must be integers"),
            ({"protocol": "ident3d-0"}, ValueError, "no protocol 'ident3d-0'; the protocols are ident3d-1, paper"),
            ({"extras": ["sap"]}, ValueError, "no extra sap"),
            ({"factors": PLAIN(9)}, ValueError, "expected latents with 9 columns"),
        ],
    )
    def test_refused(self, mixed, changes, error, message):
        with pytest.raises(error, match=message):
            metrics.score(**{"latents": mixed[0], "embeddings": mixed[1], **changes})
