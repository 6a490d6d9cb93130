import pytest
import torch

from baselines.losses import SupervisedMSE, supervised_mse


def test_the_mean_squared_error_by_hand():
    embeddings, latents = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])
    assert supervised_mse(embeddings, latents).item() == 2.5
    assert SupervisedMSE()(embeddings.bfloat16(), latents).dtype == torch.float32


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(3, 1\)"):
        supervised_mse(torch.zeros(3, 2), torch.zeros(3, 1))
