import numpy as np
import pytest
import torch
from torch.nn import functional as F

from baselines.synthetic.experiments import table1
from baselines.synthetic.networks import MixingNetwork, condition_numbers, draw_weights
from baselines.synthetic.training import identity_snapshot
from ident3d.randomness import torch_generator


def test_the_columns_have_length_one():
    weights = draw_weights(5, seed=0, candidates=50)
    assert weights.shape == (3, 5, 5)
    torch.testing.assert_close(weights.norm(dim=1), torch.ones(3, 5, dtype=torch.float64))


def test_each_layer_is_the_best_conditioned_of_the_candidates():
    weights = draw_weights(4, seed=3, candidates=200)
    for layer in range(3):
        generator = torch_generator(3, "synthetic/mixing", layer)
        drawn = (torch.rand(200, 4, 4, dtype=torch.float64, generator=generator) * 2 - 1).numpy()
        drawn /= np.sqrt((drawn**2).sum(1, keepdims=True))
        best = min(drawn, key=np.linalg.cond)
        np.testing.assert_allclose(weights[layer], best)


def test_condition_numbers_are_those_of_numpy():
    matrices = torch.randn(20, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(condition_numbers(matrices), [np.linalg.cond(m) for m in matrices.numpy()], rtol=1e-6)


def test_a_singular_matrix_has_no_small_condition_number():
    assert condition_numbers(torch.zeros(1, 3, 3, dtype=torch.float64)).item() > 1e6


def test_the_network_is_the_plain_loop():
    z = torch.rand(2, 7, 3, generator=torch.Generator().manual_seed(0))
    mixed = MixingNetwork((0, 1), 3)(z)
    for run, seed in enumerate((0, 1)):
        first, second, third = draw_weights(3, seed).float()
        by_hand = F.leaky_relu(F.leaky_relu(z[run] @ first, 0.2) @ second, 0.2) @ third
        torch.testing.assert_close(mixed[run], by_hand)


def test_the_network_is_inverted():
    z = 2 * torch.rand(2, 100, 10, generator=torch.Generator().manual_seed(0)) - 1
    network = MixingNetwork((0, 5), 10)
    torch.testing.assert_close(network.invert(network(z)).float(), z, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("number", [1, 5, 9, 11, 12])
def test_observations_score_what_the_paper_reports_for_the_identity_model(number):
    row = table1()[number - 1]
    scores = identity_snapshot(row.experiment, range(3)).mean("r2")
    # With a nonlinearity after the last map the scores would be 51 to 55.
    assert 100 * np.mean(scores) == pytest.approx(row.identity.mean, abs=6)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="dim >= 1"):
        draw_weights(0, seed=0)
