import math

import pytest
import torch

from baselines.losses import DeltaInfoNCE, delta_info_nce


def test_two_pairs_by_hand():
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
    positive = z + torch.tensor([1.0, 0.0])
    for p, metric, near, far in ((1, False, 1, 7), (2, False, 1, 25), (2, True, 1, 5), (3, False, 1, 91)):
        expected = math.log1p(math.exp(near - far))
        assert delta_info_nce(z, positive, p=p, metric=metric).item() == pytest.approx(expected, rel=1e-12)


def test_small_distances_far_from_the_origin_keep_their_digits():
    generator = torch.Generator().manual_seed(0)
    z = 1000 + 1e-3 * torch.randn(64, 10, generator=generator)
    z_pos = z + 1e-3 * torch.randn(64, 10, generator=generator)
    arguments = {"p": 2, "temperature": 1e-6, "negatives": "both", "reduction": "none"}
    exact = delta_info_nce(z.double(), z_pos.double(), **arguments)
    assert 1 < exact.mean() < 20  # neither saturated nor trivial
    torch.testing.assert_close(delta_info_nce(z, z_pos, **arguments).double(), exact, rtol=1e-4, atol=1e-4)


def test_squared_distances_near_zero_keep_their_digits():
    generator = torch.Generator().manual_seed(0)
    z = torch.rand(64, 10, generator=generator) * 2 - 1
    z_pos = z + 1e-4 * torch.randn(64, 10, generator=generator)
    z_neg = torch.cat([z_pos, z + 1e-3])  # some negatives as close as the positives
    single, double = z.clone().requires_grad_(), z.double().requires_grad_()
    loss = delta_info_nce(single, z_pos, z_neg, temperature=0.1, reduction="none")
    exact = delta_info_nce(double, z_pos.double(), z_neg.double(), temperature=0.1, reduction="none")
    torch.testing.assert_close(loss.double(), exact, rtol=1e-5, atol=1e-5)
    loss.sum().backward()
    exact.sum().backward()
    torch.testing.assert_close(single.grad.double(), double.grad, rtol=1e-4, atol=1e-4)


def test_the_metric_neither_overflows_nor_underflows():
    z = torch.tensor([[0.0, 0.0], [1e30, 0.0], [2e-30, 0.0]])
    z_neg = torch.tensor([[3e-30, 4e-30]])
    value = delta_info_nce(z[:1], z[1:2], z_neg, p=2, metric=True, temperature=1e30)
    assert value.item() == pytest.approx(math.log(1 + math.e), rel=1e-6)
    value = delta_info_nce(z[:1], z[2:], z_neg, p=2, metric=True, temperature=1e-30)
    assert value.item() == pytest.approx(math.log1p(math.exp(-3)), rel=1e-5)


def test_the_module_is_the_function():
    generator = torch.Generator().manual_seed(0)
    z, z_pos = (torch.randn(6, 3, generator=generator) for _ in range(2))
    module = DeltaInfoNCE(p=3, temperature=2.0, metric=True, symmetric=True)
    torch.testing.assert_close(
        module(z, z_pos), delta_info_nce(z, z_pos, p=3, temperature=2.0, metric=True, symmetric=True)
    )


@pytest.mark.parametrize("p", [0.5, 0, -1, math.inf, math.nan])
@pytest.mark.parametrize("metric", [False, True])
def test_an_exponent_below_one_is_refused(p, metric):
    with pytest.raises(ValueError, match=r"finite exponent p of at least 1"):
        delta_info_nce(torch.zeros(3, 2), torch.zeros(3, 2), p=p, metric=metric)
    with pytest.raises(ValueError, match=r"finite exponent p of at least 1"):
        DeltaInfoNCE(p=p, metric=metric)
