"""The latents of exact positives."""

import numpy as np
import pytest
from scipy.stats import truncnorm

from ident3d.conditionals import Normal, VonMisesFisher
from ident3d.latents import sample_latents
from ident3d.pairs.rendered import exact_positives


def test_positives_have_the_law_of_the_conditional():
    latents = np.full((2000, 10), 0.98, np.float32)
    positives = exact_positives(latents, Normal(0.1), 0)
    law = truncnorm(-1.98 / 0.1, 0.02 / 0.1, loc=0.98, scale=0.1)
    assert positives.dtype == np.float32
    assert np.abs(positives).max() <= 1
    assert positives.mean() == pytest.approx(law.mean(), abs=4 * law.std() / np.sqrt(positives.size))
    assert positives.std() == pytest.approx(law.std(), rel=0.02)
    assert np.abs(np.corrcoef(positives.T) - np.eye(10)).max() < 0.1  # 4.5 standard errors


def test_a_row_depends_on_its_own_index_alone():
    latents = sample_latents(20, seed=5)
    whole = exact_positives(latents, Normal(0.1), 5, split="train")
    for start, stop in ((0, 1), (3, 9), (19, 20)):
        part = exact_positives(latents[start:stop], Normal(0.1), 5, split="train", start=start)
        np.testing.assert_array_equal(part, whole[start:stop])


def test_seeds_and_splits_are_streams_of_their_own():
    latents = sample_latents(3, seed=5)
    drawn = [exact_positives(latents, Normal(0.1), seed, split=split) for seed in (0, 1) for split in ("train", "test")]
    assert len({array.tobytes() for array in drawn}) == 4


def test_a_conditional_of_another_space_is_refused():
    with pytest.raises(ValueError, match="not defined on"):
        exact_positives(sample_latents(3), VonMisesFisher(1.0), 0)
