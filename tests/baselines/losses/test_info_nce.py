import pytest
import torch

from baselines.losses import InfoNCE, info_nce


def test_two_orthogonal_pairs_by_hand():
    z = torch.eye(2, dtype=torch.float64)
    # The positive's dot product is 1 and the negative's 0, so the loss is log(1 + exp(-1 / temperature)).
    assert info_nce(z, z).item() == pytest.approx(0.31326168751822286)
    assert info_nce(z, z, temperature=0.5).item() == pytest.approx(0.12692801104297252)


def test_the_module_is_the_function():
    generator = torch.Generator().manual_seed(0)
    z, z_pos, z_neg = (torch.randn(6, 3, generator=generator) for _ in range(3))
    module = InfoNCE(temperature=0.5, negatives="both", symmetric=True)
    assert not list(module.parameters())
    torch.testing.assert_close(module(z, z_pos), info_nce(z, z_pos, temperature=0.5, negatives="both", symmetric=True))
    torch.testing.assert_close(module(z, z_pos, z_neg), info_nce(z, z_pos, z_neg, 0.5, symmetric=True))
    with pytest.raises(ValueError, match="temperature"):
        InfoNCE(temperature=-1)
