"""Walkers: their figure against what the latents say, and their steps against the conditional."""

import numpy as np
import pytest
import torch

from ident3d import Laplace, Normal, VonMisesFisher, walkers
from ident3d.kitti.walking import WALKER_CENTRES, WALKER_HALF_WIDTHS, draw_walkers, walk

PHASES = np.linspace(0, 2 * np.pi, 16, endpoint=False)


def test_the_area_of_a_figure_is_its_latent():
    for area in (150.0, 300.0, 400.0):
        masks = draw_walkers(np.tile([[32.0, 32.0, area]], (len(PHASES), 1)), PHASES, size=256)
        assert masks.sum((1, 2)).mean() / 16 == pytest.approx(
            area, rel=0.01
        )  # edges along the pixels are off by up to half of one


def test_a_figure_moves_and_grows_with_its_latents():
    at = draw_walkers([[30.0, 20.0, 200.0]], [0.5])[0]
    moved = draw_walkers([[35.0, 31.0, 200.0]], [0.5])[0]
    np.testing.assert_array_equal(np.roll(at, (5, 11), (0, 1)), moved)
    # Twice the area is sqrt(2) times the height.
    heights = [
        np.ptp(draw_walkers([[32.0, 32.0, area]], [0.5], size=1024)[0].any(1).nonzero()[0]) for area in (200.0, 400.0)
    ]
    assert heights[1] / heights[0] == pytest.approx(2**0.5, rel=0.01)


def test_the_horizontal_centre_of_mass_is_the_latent():
    masks = draw_walkers(np.tile([[32.0, 25.0, 300.0]], (len(PHASES), 1)), PHASES)
    assert np.average(np.arange(64), weights=masks.sum((0, 1))) == pytest.approx(25.0, abs=0.05)


def coordinates_of(latents):
    return (latents.astype(float) - WALKER_CENTRES) / WALKER_HALF_WIDTHS


def steps(paths):
    """Return the steps that begin where the box cuts nothing off."""
    found = []
    for path in paths:
        coordinates = coordinates_of(path.latents)
        inside = np.abs(coordinates[:-1]).max(1) < 0.6
        found.append((coordinates[1:] - coordinates[:-1])[inside])
    return np.concatenate(found)


@pytest.mark.parametrize(("law", "std", "kurtosis"), [(Laplace(0.05), 0.05 * 2**0.5, 6.0), (Normal(0.05), 0.05, 3.0)])
def test_the_steps_follow_the_conditional(law, std, kurtosis):
    found = steps(walk(1000, 3, law))
    assert len(found) > 7000
    np.testing.assert_allclose(found.std(0), std, rtol=0.06)
    assert np.abs(found.mean(0)).max() < 0.005
    assert ((found / found.std(0)) ** 4).mean() == pytest.approx(kurtosis, rel=0.15)


def test_walkers_are_the_same_for_the_same_seed_and_stay_in_their_box():
    first, again, other = walkers(6, 1), walkers(6, 1), walkers(6, 2)
    assert torch.equal(first.latents, again.latents)
    assert torch.equal(first.pixels(torch.arange(len(first))), again.pixels(torch.arange(len(first))))
    assert not torch.equal(first.lengths, other.lengths)
    assert np.abs(coordinates_of(first.latents.numpy())).max() <= 1 + 1e-6
    assert first.lengths.min() >= 2


def test_a_walker_shows_its_path():
    path = walk(3, 5)[1]
    data = walkers(3, 5)
    rows = data.pedestrians == 1
    np.testing.assert_array_equal(data.latents[rows].numpy(), path.latents)
    shown = draw_walkers(path.latents, path.phases)
    np.testing.assert_array_equal(data.pixels(rows.nonzero()[:, 0])[..., 0].numpy() > 0, shown)


def test_lengths_have_the_mean_that_is_said():
    lengths = np.array([len(path.phases) for path in walk(1000)])
    assert lengths.mean() == pytest.approx(40, abs=3 * lengths.std() / 1000**0.5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0,), ValueError, "number of walkers"),
        ((1.5,), TypeError, "number of walkers"),
        ((1, -1), ValueError, "seed"),
        ((1, 0, VonMisesFisher(3.0)), ValueError, "Box|box"),
    ],
)
def test_bad_walkers(arguments, error, message):
    with pytest.raises(error, match=message):
        walkers(*arguments)


@pytest.mark.parametrize(
    ("latents", "phases", "message"),
    [
        ([[1.0, 2.0]], [0.0], "shapes"),
        ([[1.0, 2.0, 3.0]], [0.0, 1.0], "shapes"),
        ([[1.0, np.nan, 3.0]], [0.0], "finite"),
        ([[1.0, 2.0, 0.0]], [0.0], "positive areas"),
    ],
)
def test_figures_that_cannot_be_drawn(latents, phases, message):
    with pytest.raises(ValueError, match=message):
        draw_walkers(latents, phases)
