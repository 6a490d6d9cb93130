"""Generators that are keyed, and leave the global ones alone."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest
import torch

from ident3d.randomness import generator, integer_seed, torch_generator, uniform_rows


def slow_rows(n, width, seed, purpose, start):
    """Uniform rows, one by one, from a counter that is set for each row."""
    key = np.frombuffer(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:16], dtype=np.uint64)
    blocks = (width + 3) // 4
    rows = []
    for index in range(start, start + n):
        words = np.random.Philox(key=key, counter=index * blocks).random_raw(4 * blocks)[:width]
        rows.append([(2 * (int(word) >> 41) + 1) / 2**23 - 1 for word in words])
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize(("width", "start"), [(1, 0), (4, 3), (10, 0), (10, 10**9)])
def test_rows_are_those_of_their_own_counters(width, start):
    np.testing.assert_array_equal(uniform_rows(7, width, 42, "test", start), slow_rows(7, width, 42, "test", start))


def test_rows_stay_the_same_in_every_version():
    rows = uniform_rows(2, 3, 0, "latents/train") * 2**23
    np.testing.assert_array_equal(rows, [[2588403, -6420059, -3174717], [-5429121, -3685209, 6164333]])
    assert integer_seed(0, "render/train", 5) == 1313464462
    assert generator(0, "bootstrap").integers(1 << 32) == 1484146836


def test_ends_of_the_interval_never_occur():
    rows = uniform_rows(100_000, 4, 0, "ends")
    assert rows.min() > -1
    assert rows.max() < 1
    assert not (rows == 0).any()
    assert np.unique(rows * 2**23 % 2).tolist() == [1]  # odd multiples of 2^-23, exact in float32


def test_keys_tell_seeds_purposes_and_indices_apart():
    keys = [(0, "a", 0), (1, "a", 0), (0, "b", 0), (0, "a", 1), (0, "a/1", 0), (11, "a", 1), (1, "1/a", 1)]
    for draw in (
        lambda *key: generator(*key).integers(1 << 62),
        lambda *key: int(torch.randint(1 << 62, (), generator=torch_generator(*key))),
        lambda *key: integer_seed(*key, bits=62),
    ):
        drawn = [int(draw(*key)) for key in keys]
        assert len(set(drawn)) == len(keys)
        assert drawn == [int(draw(*key)) for key in keys]


def test_a_seed_for_others_has_the_bits_that_were_asked_for():
    for bits in (8, 31, 63):
        seeds = [integer_seed(0, "bits", index, bits) for index in range(200)]
        assert min(seeds) >= 0
        assert 2 ** (bits - 2) < max(seeds) < 2**bits


def test_integers_of_numpy_are_seeds():
    assert integer_seed(np.int64(3), "x", np.int32(4)) == integer_seed(3, "x", 4)


@pytest.mark.parametrize("make", [generator, torch_generator, lambda *key: uniform_rows(1, 1, *key)])
def test_seeds_that_are_none(make):
    for seed in (1.0, "1", None, True):
        with pytest.raises(TypeError, match=r"the seed .* is not an integer"):
            make(seed, "x")
    with pytest.raises(ValueError, match="the seed is 0 or larger, not -1"):
        make(-1, "x")


def test_an_index_is_not_negative():
    with pytest.raises(ValueError, match="an index is 0 or larger, not -1"):
        generator(0, "x", -1)


def test_sizes_of_rows():
    assert uniform_rows(0, 5, 0, "x").shape == (0, 5)
    with pytest.raises(ValueError, match="the width of a row is 1 or larger, not 0"):
        uniform_rows(1, 0, 0, "x")


def test_global_generators_are_left_alone():
    before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002 - what is checked
    generator(0, "x").random()
    torch.rand(1, generator=torch_generator(0, "x"))
    uniform_rows(3, 3, 0, "x")
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


def test_numbers_are_drawn_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None; from ident3d.randomness import generator;"
        "from ident3d.latents import sample_latents; generator(0, 'x'); sample_latents(3)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
