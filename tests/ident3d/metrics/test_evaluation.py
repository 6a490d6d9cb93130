"""Halves, refused input and the diagnosis of dimensions."""

import json
import warnings

import numpy as np
import pytest

from ident3d import ThreeDIdent, metrics
from ident3d.metrics.evaluation import hashed_half

PLAIN = metrics.plain_factors


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
        first = metrics.score(z, x, ids, latent_ids=ids).to_json()
        assert first == metrics.score(z[order], x[order], ids[order], latent_ids=ids[order]).to_json()

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


class Dataset:
    """What score needs of a dataset."""

    def __init__(self, latents, ids):
        self.latents, self.ids = latents, ids
        self.factors = metrics.plain_factors(latents.shape[1])
        self.fingerprint = "abc"

    def __len__(self):
        return len(self.latents)


class TestIds:
    def test_ids_on_both_sides_join(self, mixed, rng):
        z, x = mixed
        ids = np.arange(600) * 3 + 7
        expected = metrics.score(z, x, ids).to_json()
        order, other = rng.permutation(600), rng.permutation(600)
        assert metrics.score(z[other], x[order], ids[order], latent_ids=ids[other]).to_json() == expected
        for metric in (metrics.affine_r2, metrics.mcc, metrics.nonlinear_r2):
            found = metric(z[other], x[order], ids[order], latent_ids=ids[other])
            assert found == metric(z, x, ids)
        points = metrics.point_scores(z[other], x[order], ids[order], latent_ids=ids[other])
        assert points == metrics.point_scores(z, x, ids)

    def test_embeddings_of_some_rows_are_joined_to_theirs(self, mixed, rng):
        z, x = mixed
        some = rng.permutation(600)[:300]
        found = metrics.score(z, x[some], some, latent_ids=np.arange(600))
        expected = metrics.score(z[np.sort(some)], x[np.sort(some)], np.sort(some))
        assert found.rows == 300
        assert found.to_json() == expected.to_json()

    def test_shuffled_ids_on_one_side_mean_nothing(self, mixed, rng):
        z, x = mixed
        order = rng.permutation(600)
        with pytest.raises(
            ValueError, match=r"ids are not ascending, .* give latent_ids=\.\.\. as well, the same where"
        ):
            metrics.score(z, x[order], ids=order)
        with pytest.raises(ValueError, match=r"latent_ids are not ascending, .* give ids=\.\.\. as well"):
            metrics.mcc(z[order], x, latent_ids=order)
        assert metrics.score(z, x, latent_ids=np.arange(600) + 5).r2 == metrics.score(z, x, np.arange(600) + 5).r2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"ids": np.arange(600) + 1}, "1 of 600 ids of embeddings are of no latents, such as 600"),
            ({"latent_ids": np.zeros(600, int)}, "latent_ids must be unique: 0 occurs more than once"),
            ({"latent_ids": np.arange(599)}, "each of the 600 rows, got latent_ids of shape"),
        ],
    )
    def test_ids_that_cannot_be_joined(self, mixed, arguments, message):
        both = {"ids": np.arange(600), "latent_ids": np.arange(600)} | arguments
        with pytest.raises(ValueError, match=message):
            metrics.score(*mixed, **both)

    def test_a_dataset_brings_latents_ids_factors_and_fingerprint(self, mixed, rng):
        z, x = mixed
        ids, order = np.arange(600) * 2, rng.permutation(600)
        expected = metrics.score(z, x, ids, factors=metrics.plain_factors(10), fingerprint="abc").to_json()
        data = Dataset(z, ids)
        assert metrics.score(data, x).to_json() == expected
        assert metrics.score(data, x[order], ids[order]).to_json() == expected
        assert metrics.score(Dataset(z[order], ids[order]), x[order]).to_json() == expected
        assert metrics.affine_r2(data, x).mean == expected["metrics"]["r2"]["value"]["mean"]
        with pytest.raises(ValueError, match="got 599 embeddings and 600 latents; with ids on both sides"):
            metrics.score(data, x[:599])
        with pytest.raises(TypeError, match=r"embeddings must be an array .* not .*Dataset"):
            metrics.score(x, data)

    def test_the_sample_is_scored_as_it_is(self):
        data = ThreeDIdent("sample", split="test")
        scores = metrics.score(data, data.latents)
        assert (scores.rows, scores.fingerprint) == (256, data.fingerprint)
        assert metrics.score(data[100:], data.latents[100:]).rows == 156


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
        assert "1 dimension is constant over all rows and scores nothing: 3" in scores.warnings[0]
        assert "copy of another, up to shift and scale: 4 of 1" in scores.warnings[1]
        assert "the 4 distinct dimensions are collinear: they span 3" in scores.warnings[2]
        assert scores.r2 == pytest.approx(1)

    @pytest.mark.parametrize(("dtype", "least"), [(np.float32, 1e-5), (np.float64, 1e-6)])
    def test_what_the_fit_can_use_is_no_copy(self, rng, dtype, least):
        u, v = rng.normal(size=(2, 4000))
        for size in (1e-1, 1e-3, least):
            x = np.c_[u, u + size * v].astype(dtype)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                scores = metrics.score(np.c_[u, v], x)
            assert scores.r2 > 0.98
            assert scores.dimension.rank == 2

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("offset", [0, 3, 1000])
    def test_a_copy_is_one_however_it_is_rounded(self, rng, dtype, offset):
        u, v = rng.normal(size=(2, 4000)).astype(dtype)
        copy = (dtype(-2.3) * u + dtype(offset)).astype(dtype)
        with pytest.warns(metrics.DegenerateEmbeddingWarning, match="1 dimension is a copy of another.*: 2 of 0"):
            metrics.score(np.c_[u, v], np.c_[u, v, copy])

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
            (
                {"protocol": "ident3d-0"},
                ValueError,
                "unknown protocol 'ident3d-0'; did you mean 'ident3d-2'\\?; choose from ident3d-1, ident3d-2, paper",
            ),
            ({"extras": ["sap"]}, ValueError, "unknown metric 'sap'; choose from r2, mcc_pearson"),
            ({"factors": PLAIN(9)}, ValueError, "expected latents with 9 columns"),
        ],
    )
    def test_refused(self, mixed, changes, error, message):
        with pytest.raises(error, match=message):
            metrics.score(**{"latents": mixed[0], "embeddings": mixed[1], **changes})

    def test_physical_values_of_a_circle(self, rng, circle):
        with pytest.raises(ValueError, match="turn is circular"):
            metrics.affine_r2(rng.uniform(-3, 3, (50, 1)), rng.normal(size=(50, 2)), factors=circle)
