"""Places of lamps and weights of the pixel filter."""

import numpy as np
import pytest

from ident3d.live import kernels
from ident3d.live.sampling import filter_weights, lamp_places

KINDS = [kernels.SUN, kernels.AREA, kernels.SPOT]


@pytest.mark.parametrize("grid", [2, 3, 4, 8])
def test_places_are_spread_evenly_over_lamps(grid):
    sun, area, spot = lamp_places(grid, KINDS).astype(np.float64)
    assert abs(area).max() < 0.5
    np.testing.assert_allclose(np.mean(area**2, axis=(0, 1)), 1 / 12, rtol=0.1)  # of a square of edge 1
    for disc in (sun, spot):
        radius = np.linalg.norm(disc, axis=-1)
        assert radius.max() < 1
        np.testing.assert_allclose(disc.mean(axis=(0, 1)), 0, atol=0.06)
        np.testing.assert_allclose(np.mean(radius**2), 1 / 2, rtol=0.1)
    assert not np.array_equal(sun, spot)


@pytest.mark.parametrize("grid", [2, 3, 4, 8])
def test_a_filter_weighs_nearer_sub_pixels_more(grid):
    weights = filter_weights(grid)
    assert weights.shape == (grid, 3)
    np.testing.assert_allclose(weights.sum(), 1)
    np.testing.assert_allclose(weights, weights[::-1, ::-1])
    assert (weights[:, 1] > weights[:, [0, 2]].max(axis=1)).all()
