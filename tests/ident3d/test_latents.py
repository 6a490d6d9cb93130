"""Sampling, checking and scaling latents."""

import math

import numpy as np
import pytest
from scipy import stats

from ident3d.factors import FACTORS, Factor, Factors
from ident3d.latents import check_latents, from_physical, sample_latents, to_physical


def test_any_range_of_a_dataset_can_be_drawn_alone():
    whole = sample_latents(100, seed=5)
    assert whole.shape == (100, 10)
    assert whole.dtype == np.float32
    for start in (0, 1, 37, 99):
        np.testing.assert_array_equal(sample_latents(100 - start, seed=5, start=start), whole[start:])


def test_seeds_and_splits_are_streams_of_their_own():
    drawn = [
        sample_latents(1000, seed, split=split)
        for seed, split in [(0, "train"), (0, "test"), (1, "train"), (1, "test")]
    ]
    values = np.concatenate(drawn)
    assert len(np.unique(values, axis=0)) == 4000
    correlation = np.corrcoef(np.stack([d.ravel() for d in drawn]))
    assert np.abs(correlation - np.eye(4)).max() < 0.05  # 10,000 numbers each: five standard errors


def test_latents_are_uniform_and_independent():
    latents = sample_latents(20_000, seed=0)
    for column in latents.T:
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 1e-4
    correlation = np.corrcoef(latents, rowvar=False)
    assert np.abs(correlation - np.eye(10)).max() < 5 / math.sqrt(20_000)
    following = np.corrcoef(latents[:-1].ravel(), latents[1:].ravel())[0, 1]
    assert abs(following) < 5 / math.sqrt(200_000)


def test_other_factors_have_other_widths():
    factors = Factors(FACTORS[:3])
    assert sample_latents(4, factors=factors).shape == (4, 3)
    assert sample_latents(0).shape == (0, 10)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n": -1}, ValueError, "the number of rows is 0 or larger, not -1"),
        ({"n": 1, "seed": -1}, ValueError, "the seed is 0 or larger, not -1"),
        ({"n": 1, "start": -1}, ValueError, "the first row is 0 or larger, not -1"),
        ({"n": 1, "seed": 0.5}, TypeError, "the seed 0.5 is not an integer"),
        ({"n": 1, "seed": True}, TypeError, "the seed True is not an integer"),
    ],
)
def test_arguments_that_cannot_be_right(arguments, error, message):
    with pytest.raises(error, match=message):
        sample_latents(**arguments)


def test_physical_values_are_those_of_the_scene():
    ends = to_physical([[-1] * 10, [0] * 10, [1] * 10])
    np.testing.assert_allclose(ends, [[-3] * 3 + [-math.pi / 2] * 7, [0] * 10, [3] * 3 + [math.pi / 2] * 7])
    np.testing.assert_allclose(to_physical(np.full(10, 0.5)), [1.5] * 3 + [math.pi / 4] * 7)  # one row alone
    lopsided = Factors((Factor("size", "object", 1.0, 5.0, "bu"),))
    np.testing.assert_allclose(to_physical([[-0.5]], lopsided), [[2.0]])


def test_there_and_back():
    latents = sample_latents(50, seed=1).reshape(5, 10, 10)
    np.testing.assert_allclose(from_physical(to_physical(latents)), latents, atol=1e-15)


@pytest.mark.parametrize("function", [to_physical, from_physical])
@pytest.mark.parametrize("shape", [(), (9,), (10, 9)])
def test_columns_that_are_missing(function, shape):
    with pytest.raises(ValueError, match=r"expected 10 columns \(position_x, .*\), got shape"):
        function(np.zeros(shape))


def test_latents_of_any_layout_and_type_become_rows_of_float32():
    latents = sample_latents(6, seed=2)
    for given in (latents.astype(np.float64), np.asfortranarray(latents), latents[::2], latents.tolist()):
        checked = check_latents(given)
        assert checked.dtype == np.float32
        assert checked.flags.c_contiguous
        np.testing.assert_array_equal(checked, np.asarray(given, np.float32))
    assert check_latents(np.zeros((2, 10), np.int8)).dtype == np.float32


def test_what_rounding_put_outside_is_put_back():
    edge = np.full((1, 10), np.nextafter(np.float32(1), np.float32(2)))
    assert check_latents(edge).max() == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"latents must be finite: row 3, rotation_y is nan \(2 such values in all\)"),
        (-np.inf, "row 3, rotation_y is -inf"),
        (1.1, r"raw latents lie in \[-1, 1\]: row 3, rotation_y is 1.1 \(2 such values in all\).*from_physical first"),
    ],
)
def test_the_first_wrong_value_is_named(value, message):
    latents = sample_latents(6).astype(np.float64)
    latents[3, 4] = latents[5, 0] = value
    with pytest.raises(ValueError, match=message):
        check_latents(latents)


@pytest.mark.parametrize("latents", [np.zeros(10), np.zeros((2, 9)), np.full((2, 10), "a"), np.zeros((2, 10), bool)])
def test_latents_of_another_shape_or_type(latents):
    with pytest.raises(ValueError, match=r"expected numeric latents of shape \(N, 10\)"):
        check_latents(latents)
