"""The true mutual information of a positive pair's latents."""

import math

import pytest
import torch
from scipy import special

from ident3d.conditionals import (
    AnisotropicNormal,
    GeneralizedNormal,
    Laplace,
    Normal,
    Product,
    Uniform,
    VonMisesFisher,
)
from ident3d.conditionals.information import mutual_information_per_factor, true_mutual_information
from ident3d.spaces import Box, Sphere, Unbounded


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def from_table(log_density, weights):
    """Return the mutual information of a table of conditional densities: rows are anchors, columns positives."""
    table = log_density + weights.log()
    table = table - table.logsumexp(1, keepdim=True)
    marginal = (table + weights.log().unsqueeze(1) - weights.sum().log()).logsumexp(0)
    return ((table.exp() * (table - marginal)).sum(1) @ weights / weights.sum()).item()


@pytest.mark.parametrize(("sigma", "expected"), [(0.1, 1.646943), (0.5, 0.318904)])
def test_normal_on_the_box(sigma, expected):
    assert true_mutual_information(Normal(sigma), Box(1)) == pytest.approx(expected, abs=1e-6)
    assert true_mutual_information(Normal(sigma), Box(10)) == pytest.approx(10 * expected, abs=1e-5)
    assert mutual_information_per_factor(Normal(sigma), Box(3)) == pytest.approx((expected,) * 3, abs=1e-6)
    assert true_mutual_information(Normal(sigma / 2), Box(1, 0.0, 1.0)) == pytest.approx(expected, abs=1e-6)
    assert true_mutual_information(AnisotropicNormal(0.5 / sigma**2), Box(1)) == pytest.approx(expected, abs=1e-6)
    as_generalised = GeneralizedNormal(2, sigma * math.sqrt(2))
    assert true_mutual_information(as_generalised, Box(1)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "conditional",
    [Laplace(0.1), Laplace(2.0), GeneralizedNormal(1.5, 0.3), GeneralizedNormal(3, 0.1), GeneralizedNormal(12, 0.7)],
    ids=str,
)
def test_other_powers_on_the_box_are_those_of_a_fine_table(conditional):
    n = 1_200
    x = -1 + (torch.arange(n, dtype=torch.float64) + 0.5) * (2 / n)
    anchors = x.repeat_interleave(n).unsqueeze(1)
    log_density = conditional.log_prob(x.repeat(n).unsqueeze(1), anchors, Box(1)).view(n, n)
    table = from_table(log_density, torch.full((n,), 2 / n, dtype=torch.float64))
    assert true_mutual_information(conditional, Box(1)) == pytest.approx(table, abs=2e-4)


def test_very_narrow_and_very_wide_conditionals():
    # narrow: the walls do not matter, ln 2 - ln(sqrt(2 pi e) sigma)
    narrow = math.log(2) - math.log(math.sqrt(2 * math.pi * math.e) * 1e-6)
    assert true_mutual_information(Normal(1e-6), Box(1)) == pytest.approx(narrow, abs=1e-5)
    assert true_mutual_information(Laplace(1e-6), Box(1)) == pytest.approx(-math.log(math.e * 1e-6), abs=1e-5)
    for conditional in (Normal(1e4), Laplace(1e12), GeneralizedNormal(2.5, 1e15), Uniform()):
        assert 0 <= true_mutual_information(conditional, Box(10)) < 1e-7
    block = GeneralizedNormal(100, 1e-6)  # almost uniform within 1e-6 of the anchor
    assert true_mutual_information(block, Box(1)) == pytest.approx(math.log(1e6), abs=0.02)


def test_factors_add():
    widths = [0.1, 0.5, 0.1]
    each = mutual_information_per_factor(Normal(widths), Box(3))
    assert each == pytest.approx((1.646943, 0.318904, 1.646943), abs=1e-6)
    assert true_mutual_information(Normal(widths), Box(3)) == pytest.approx(sum(each))
    product = Product({(1,): Normal(0.1), (0, 3): Uniform(), (2,): Normal(0.5)})
    assert mutual_information_per_factor(product, Box(4)) == pytest.approx((0, 1.646943, 0.318904, 0), abs=1e-6)


@pytest.mark.parametrize(("kappa", "expected"), [(0.0, 0.0), (1.0, 0.049385), (100.0, 11.350216)])
def test_von_mises_fisher(kappa, expected):
    assert true_mutual_information(VonMisesFisher(kappa), Sphere(10)) == pytest.approx(expected, abs=1e-6)
    assert true_mutual_information(VonMisesFisher(kappa), Sphere(10, 3.0)) == pytest.approx(expected, abs=1e-6)


def test_equal_precisions_are_a_von_mises_fisher():
    expected = true_mutual_information(VonMisesFisher(10.0), Sphere(10))
    assert true_mutual_information(AnisotropicNormal(5.0), Sphere(10)) == pytest.approx(expected)
    assert true_mutual_information(AnisotropicNormal([5.0] * 10), Sphere(10)) == pytest.approx(expected)
    nearly = AnisotropicNormal([5.0] * 9 + [5.0001])
    assert true_mutual_information(nearly, Sphere(10)) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("precision", [[3.0, 1.0], [20.0, 0.5], [200.0, 100.0]])
def test_anisotropic_normal_on_the_circle(precision):
    n = 1_500
    angle = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n)
    points = torch.stack([angle.cos(), angle.sin()], 1)
    log_density = -(points.unsqueeze(1) - points).square() @ torch.tensor(precision, dtype=torch.float64)
    expected = from_table(log_density, torch.ones(n, dtype=torch.float64))
    assert true_mutual_information(AnisotropicNormal(precision), Sphere(2)) == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize("precision", [[6.0, 0.5, 2.0], [20.0, 20.0, 4.0]])
def test_anisotropic_normal_on_the_sphere(precision):
    heights, weights = (torch.from_numpy(array) for array in special.roots_legendre(40))
    angle = torch.arange(48, dtype=torch.float64) * (2 * math.pi / 48)
    radius = (1 - heights.square()).sqrt().unsqueeze(-1)
    rings = [radius * angle.cos(), radius * angle.sin(), heights.unsqueeze(-1).expand(40, 48)]
    points = torch.stack(rings, -1).view(-1, 3)
    scaled = points * torch.tensor(precision, dtype=torch.float64).sqrt()
    expected = from_table(-torch.cdist(scaled, scaled).square(), weights.repeat_interleave(48))
    assert true_mutual_information(AnisotropicNormal(precision), Sphere(3)) == pytest.approx(expected, abs=0.006)


def test_anisotropic_normal_at_the_papers_setting_is_that_of_its_draws():
    # E ln p(z_pos | z) + ln |S|, but for the divergence of the positives from uniform, which is below 0.001
    conditional = AnisotropicNormal([25.0] * 5 + [5.0] * 5)
    z = Sphere(10).uniform(20_000, seeded(0))
    log_prob = conditional.log_prob(conditional.sample(z, Sphere(10), seeded(1)), z, Sphere(10))
    expected = log_prob.mean().item() + Sphere(10).log_volume
    error = log_prob.std().item() / math.sqrt(20_000)
    actual = true_mutual_information(conditional, Sphere(10))
    assert actual == pytest.approx(expected, abs=4 * error)
    assert actual == pytest.approx(5.4875, abs=0.003)
    assert true_mutual_information(conditional, Sphere(10)) == actual


@pytest.mark.parametrize(("sigma", "n"), [(0.05, 10), (1.0, 10), (0.3, 2), (0.5, 3)])
def test_projected_normal(sigma, n):
    z = Sphere(n, 2.0).uniform(20_000, seeded(2))
    log_prob = Normal(2 * sigma).log_prob(Normal(2 * sigma).sample(z, Sphere(n, 2.0), seeded(3)), z, Sphere(n, 2.0))
    expected = log_prob.mean().item() + Sphere(n, 2.0).log_volume
    error = log_prob.std().item() / math.sqrt(20_000)
    assert true_mutual_information(Normal(sigma), Sphere(n)) == pytest.approx(expected, abs=4 * error)
    assert true_mutual_information(Normal(2 * sigma), Sphere(n, 2.0)) == pytest.approx(
        true_mutual_information(Normal(sigma), Sphere(n)), abs=1e-9
    )


def test_what_is_not_known_is_refused():
    with pytest.raises(ValueError, match=r"laplace\(scale=0.1\) on Sphere.* is not known"):
        true_mutual_information(Laplace(0.1), Sphere(3))
    with pytest.raises(ValueError, match="is not known"):
        true_mutual_information(Normal([0.1, 0.2, 0.3]), Sphere(3))
    with pytest.raises(ValueError, match="cannot be uniform on Unbounded"):
        true_mutual_information(Normal(0.1), Unbounded(3))
    with pytest.raises(ValueError, match="not defined on Box"):
        true_mutual_information(VonMisesFisher(1.0), Box(3))
    with pytest.raises(ValueError, match="given for 2 factors"):
        true_mutual_information(Normal([0.1, 0.2]), Box(3))
    with pytest.raises(ValueError, match="on a Box only"):
        mutual_information_per_factor(VonMisesFisher(1.0), Sphere(3))
    assert true_mutual_information(Uniform(), Sphere(3)) == 0


@pytest.mark.parametrize("n", [2, 3, 10])
@pytest.mark.parametrize("kappa", [1e9, 1e17, 1e30])
def test_a_large_kappa_shares_what_a_normal_on_the_flat_tangent_space_does(n, kappa):
    entropy = (n - 1) / 2 * math.log(2 * math.pi * math.e / kappa)
    expected = Sphere(n).log_volume - entropy
    assert true_mutual_information(VonMisesFisher(kappa), Sphere(n)) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("scale", "expected"), [(0.3, 1.29129087), (1.0, 0.28738300), (1.5, 0.06377833), (3.0, 0.0)])
def test_a_window_of_uniform_density_on_the_box(scale, expected):
    # Expected values by nested adaptive quadrature, with breaks where the walls begin to cut the window.
    assert true_mutual_information(GeneralizedNormal(1e30, scale), Box(1)) == pytest.approx(expected, abs=1e-6)
    assert true_mutual_information(GeneralizedNormal(20, 1e30), Box(1)) == 0
