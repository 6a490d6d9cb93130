"""Latents, and embeddings that know most of them."""

import numpy as np
import pytest

from ident3d.factors import Factor, Factors


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def mixed(rng):
    """(600, 10) latents, and embeddings that are a noisy affine map of them."""
    z = rng.uniform(-1, 1, (600, 10))
    return z, z @ rng.normal(size=(10, 12)) + 0.3 * rng.normal(size=(600, 12)) + 5


@pytest.fixture(scope="session")
def circle():
    """One factor, on a circle."""
    return Factors((Factor("turn", "angle", -np.pi, np.pi, "rad", period=2 * np.pi),))
