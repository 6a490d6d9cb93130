import pytest
import torch

from baselines.losses import AnInfoNCE, an_info_nce, delta_info_nce, info_nce


def batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(6, 3, generator=generator, dtype=dtype) for _ in range(2)]


def test_an_identity_precision_is_the_squared_distance():
    z, z_pos = batch()
    torch.testing.assert_close(an_info_nce(z, z_pos), delta_info_nce(z, z_pos, p=2))
    torch.testing.assert_close(an_info_nce(z, z_pos, precision=[4.0] * 3), delta_info_nce(2 * z, 2 * z_pos, p=2))


def test_the_precision_gets_its_gradient():
    z, z_pos = batch()
    precision = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(
        lambda diagonal: an_info_nce(z, z_pos, precision=diagonal, negatives="both", symmetric=True), precision
    )


def test_the_module_starts_where_it_is_told_and_keeps_lambda_in_its_state():
    for initial in (1e-3, 1.0, 25.0, 300.0):
        assert AnInfoNCE(3, initial).precision.tolist() == pytest.approx([initial] * 3, rel=1e-5)
    module = AnInfoNCE(3, [25.0, 5.0, 1.0])
    assert module.precision.tolist() == pytest.approx([25.0, 5.0, 1.0], rel=1e-5)
    assert list(module.state_dict()) == ["raw_precision"]
    other = AnInfoNCE(3)
    other.load_state_dict(module.state_dict())
    assert torch.equal(other.precision, module.precision)


def test_lambda_learns_and_stays_positive():
    z, z_pos = batch(torch.float32)
    z_pos = z + torch.tensor([0.01, 0.5, 3.0]) * (z_pos - z)  # the third factor says nothing about the pair
    module = AnInfoNCE(3)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
    for _ in range(200):
        optimiser.zero_grad()
        module(z, z_pos).backward()
        optimiser.step()
    first, second, third = module.precision.tolist()
    assert first > second > third > 0
    with torch.no_grad():
        module.raw_precision.fill_(-1e4)
    module.zero_grad()
    module(z, z_pos).backward()
    assert module.raw_precision.grad.isfinite().all()


def test_an_isotropic_lambda_on_a_sphere_is_info_nce_with_a_learned_temperature():
    z, z_pos = (torch.nn.functional.normalize(view, dim=1) for view in batch())
    module = AnInfoNCE(3, 4.0, isotropic=True, negatives="both", symmetric=True)
    assert [p.numel() for p in module.parameters()] == [1]
    assert module.precision.tolist() == pytest.approx([4.0] * 3)
    # |a - b|^2 = 2 - 2 a.b, so that Lambda = 1 / (2 temperature).
    expected = info_nce(z, z_pos, temperature=1 / 8, negatives="both", symmetric=True)
    torch.testing.assert_close(module(z, z_pos), expected, check_dtype=False)
    with pytest.raises(ValueError, match="one precision for all dimensions"):
        AnInfoNCE(3, [1.0, 2.0, 3.0], isotropic=True)


def test_in_a_box_of_learned_sizes_info_nce_is_an_info_nce():
    # Why a box cannot tell the two losses apart: Lambda_k = s_k^2 / temperature, for values and for gradients.
    z, z_pos = batch()
    size, temperature = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64), 0.1
    found = []
    for loss in (
        lambda a, b: delta_info_nce(size * a, size * b, p=2, temperature=temperature),
        lambda a, b: an_info_nce(a, b, precision=size.square() / temperature),
    ):
        a, b = z.clone().requires_grad_(), z_pos.clone().requires_grad_()
        value = loss(a, b)
        found.append((value.detach(), *torch.autograd.grad(value, (a, b))))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("precision", [[1.0, 2.0], torch.ones(2)])
def test_a_precision_of_another_width_is_refused(precision):
    with pytest.raises(ValueError, match=r"one number or \(3,\), not \(2,\)"):
        an_info_nce(*batch(), precision=precision)


@pytest.mark.parametrize("precision", [0.0, -1.0, float("nan"), [1.0, 1.0, 0.0]])
def test_a_precision_that_is_not_positive_is_refused(precision):
    with pytest.raises(ValueError, match="expected a positive, finite precision"):
        an_info_nce(*batch(), precision=precision)
    with pytest.raises(ValueError, match="expected a positive, finite precision"):
        AnInfoNCE(3, precision)
