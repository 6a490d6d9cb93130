"""Scores during a training."""

import logging

import numpy as np
import pytest

from baselines.training.evaluation import score_factors
from ident3d import metrics
from ident3d.factors import plain_factors


def test_degenerate_embeddings_are_logged_and_stop_nothing(caplog):
    z = np.random.default_rng(0).uniform(-1, 1, (200, 2)).astype(np.float32)
    x = np.stack([z[:, 0], np.ones(200, np.float32)], axis=1)
    with caplog.at_level(logging.INFO):
        found = score_factors(z, x, factors=plain_factors(2))
    assert found["r2"]["z0"] == pytest.approx(1)
    assert found["mcc"] == pytest.approx({"z0": 1, "z1": 0}, abs=1e-6)
    assert "the embeddings are degenerate: 1 dimension is constant over all rows" in caplog.text
    with pytest.warns(metrics.DegenerateEmbeddingWarning):
        assert float(metrics.mcc(z, x, factors=plain_factors(2))) == pytest.approx(0.5)
