import pytest
import torch

from baselines.losses import contrast as partition
from baselines.losses.costs import MinkowskiDistance, MinkowskiPower, NegativeDot, SquaredEuclidean

COSTS = [
    NegativeDot(),
    SquaredEuclidean(),
    MinkowskiPower(1),
    MinkowskiPower(2.5),
    MinkowskiPower(3),
    MinkowskiDistance(1),
    MinkowskiDistance(2),
]


def sets(rows, columns, dim=4):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, dim, generator=generator, dtype=torch.float64).requires_grad_() for n in (rows, columns)]


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_matrix_and_pairs_agree(cost):
    a, b = sets(5, 7)
    torch.testing.assert_close(cost.matrix(a, b), cost.paired(a.unsqueeze(1), b.unsqueeze(0)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_the_derivative_is_that_of_the_value(cost):
    own = torch.tensor([[0, 3], [1, 4], [2, 5]])
    for left_out in (None, own):
        torch.autograd.gradcheck(lambda a, b, ids=left_out: partition.log_partition(cost, a, b, ids), sets(3, 7))


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_blocks_change_nothing(cost, monkeypatch):
    a, b = sets(23, 23)
    own = torch.arange(23).unsqueeze(1)
    whole = partition.log_partition(cost, a, b, own)
    gradients = torch.autograd.grad(whole.sum(), (a, b))
    monkeypatch.setitem(partition._NUMBERS_PER_BLOCK, "cpu", 23 * 4 * 5)
    blocks = partition.log_partition(cost, a, b, own)
    torch.testing.assert_close(blocks, whole, rtol=1e-13, atol=0)
    torch.testing.assert_close(torch.autograd.grad(blocks.sum(), (a, b)), gradients, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_no_block_holds_more_numbers_than_it_may(cost, monkeypatch):
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                largest = max(largest, result.numel())
            return result

    monkeypatch.setitem(partition._NUMBERS_PER_BLOCK, "cpu", 4096)
    a, b = sets(300, 300)
    with Watch():
        partition.log_partition(cost, a, b).sum().backward()
    assert largest <= 4096


def wide_sets(rows, columns):
    """Embeddings so far apart that most float32 shares underflow: the costs go up to some hundreds."""
    generator = torch.Generator().manual_seed(0)
    return [(12 * torch.rand(n, 4, generator=generator)).requires_grad_() for n in (rows, columns)]


@pytest.mark.parametrize("kept", [2**22, 0])
@pytest.mark.parametrize("cost", [SquaredEuclidean(), MinkowskiPower(3)], ids=str)
def test_shares_that_underflow_change_neither_value_nor_gradient(cost, kept, monkeypatch):
    monkeypatch.setitem(partition._NUMBERS_KEPT, "cpu", kept)
    a, b = wide_sets(60, 60)
    own = torch.arange(60).unsqueeze(1)
    logits = -cost.matrix(a, b).scatter(1, own, torch.inf)
    assert (logits - logits.amax(1, keepdim=True) < -88).float().mean() > 0.3
    found = partition.log_partition(cost, a, b, own)
    assert torch.equal(found, torch.logsumexp(logits, 1))
    gradients = torch.autograd.grad(found.sum(), (a, b))
    plain = cost.pull(-torch.softmax(logits, 1), a, b)
    for ours, theirs in zip(gradients, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_no_share_is_subnormal():
    exponents = torch.tensor([0.0, -1.0, -43.0, -44.0, -100.0, -torch.inf])
    shares = partition._exp(exponents.clone())
    torch.testing.assert_close(shares[:3], exponents[:3].exp(), rtol=1e-6, atol=0)
    torch.testing.assert_close(shares[3:], torch.full((3,), torch.finfo(torch.float32).tiny ** 0.5), rtol=1e-4, atol=0)


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_shares_that_are_computed_again_are_those_that_are_kept(cost, monkeypatch):
    a, b = sets(23, 23)
    own = torch.arange(23).unsqueeze(1)
    kept = torch.autograd.grad(partition.log_partition(cost, a, b, own).sum(), (a, b))
    monkeypatch.setitem(partition._NUMBERS_KEPT, "cpu", 0)
    again = torch.autograd.grad(partition.log_partition(cost, a, b, own).sum(), (a, b))
    torch.testing.assert_close(kept, again, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("far", [1e30, float("nan")])
def test_costs_that_are_not_finite_give_no_finite_value_by_mistake(far):
    a = torch.tensor([[far, 0.0], [0.0, 0.0], [1.0, 0.0]])
    value = partition.log_partition(SquaredEuclidean(), a, a, torch.arange(3).unsqueeze(1))
    plain = torch.logsumexp(-SquaredEuclidean().matrix(a, a).scatter(1, torch.arange(3).unsqueeze(1), torch.inf), 1)
    assert not plain[0] > -1e37
    assert not value[0] > -1e37


@pytest.mark.parametrize("cost", [MinkowskiDistance(1), MinkowskiDistance(2), MinkowskiDistance(3)], ids=str)
def test_the_metric_has_no_slope_between_equal_points(cost):
    a = torch.zeros(2, 3, requires_grad=True)
    partition.log_partition(cost, a, torch.zeros(4, 3)).sum().backward()
    assert torch.equal(a.grad, torch.zeros(2, 3))
    a.grad = None
    cost.paired(a, torch.zeros(2, 3)).sum().backward()
    assert torch.equal(a.grad, torch.zeros(2, 3))
