"""The anisotropic normal on the sphere: its normaliser, its exact sampler, and how many proposals that keeps."""

import math

import pytest
import torch
from scipy import special

from ident3d.conditionals import AnisotropicNormal, Normal, VonMisesFisher, numerics, sphere
from ident3d.conditionals.sphere import acceptance, log_normaliser, mean_square_displacement
from ident3d.conditionals.sphere import log_normaliser_von_mises_fisher as von_mises_fisher_log_normaliser
from ident3d.errors import Ident3DError
from ident3d.spaces import Box, Sphere, Unbounded

HALVES = [25.0] * 5 + [5.0] * 5
PAPER = {
    "25 and 5": HALVES,
    "12.5 and 2.5": [12.5] * 5 + [2.5] * 5,
    "5 to 25": torch.linspace(5, 25, 10).tolist(),
}


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def diagonal(*values):
    return torch.tensor(values, dtype=torch.float64)


def circle_integrals(z, precision, n=20_000):
    """Return the normaliser's logarithm and E (u - z)^2 on the circle, by the trapezoidal rule, for one anchor (2,)."""
    angle = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n)
    square = (torch.stack([angle.cos(), angle.sin()], 1) - z).square()
    exponent = -square @ precision
    weights = exponent.softmax(0)
    return exponent.logsumexp(0) + math.log(2 * math.pi / n), weights @ square


def sphere_integrals(z, precision, n=400):
    """Return the same on the sphere of R^3, with n Gauss-Legendre heights and n angles."""
    heights, weights = (torch.from_numpy(array) for array in special.roots_legendre(n))
    angle = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n)
    radius = (1 - heights.square()).sqrt().unsqueeze(-1)
    u = torch.stack([radius * angle.cos(), radius * angle.sin(), heights.unsqueeze(-1).expand(n, n)], -1).view(-1, 3)
    square = (u - z).square()
    exponent = -square @ precision + weights.log().repeat_interleave(n)
    return exponent.logsumexp(0) + math.log(2 * math.pi / n), exponent.softmax(0) @ square


@pytest.mark.parametrize("precision", [(3.0, 1.0), (0.01, 0.02), (30.0, 0.01), (1e4, 1.0), (1.0, 1e4), (500.0, 500.0)])
def test_normaliser_and_moments_on_the_circle(precision):
    anchors = torch.cat([torch.eye(2, dtype=torch.float64), Sphere(2).uniform(20, seeded(0))])
    expected = [circle_integrals(z, diagonal(*precision)) for z in anchors]
    logarithms, squares = (torch.stack(values) for values in zip(*expected, strict=True))
    torch.testing.assert_close(log_normaliser(anchors, diagonal(*precision)), logarithms, rtol=1e-9, atol=1e-9)
    actual = mean_square_displacement(anchors, diagonal(*precision))
    torch.testing.assert_close(actual, squares, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("precision", [(25.0, 5.0, 5.0), (100.0, 1.0, 1.0), (0.1, 0.2, 0.3), (300.0, 7.0, 0.01)])
def test_normaliser_and_moments_on_the_sphere(precision):
    anchors = torch.cat([torch.eye(3, dtype=torch.float64), Sphere(3).uniform(5, seeded(1))])
    expected = [sphere_integrals(z, diagonal(*precision)) for z in anchors]
    logarithms, squares = (torch.stack(values) for values in zip(*expected, strict=True))
    torch.testing.assert_close(log_normaliser(anchors, diagonal(*precision)), logarithms, rtol=1e-9, atol=1e-9)
    actual = mean_square_displacement(anchors, diagonal(*precision))
    torch.testing.assert_close(actual, squares, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("n", [2, 10, 64])
@pytest.mark.parametrize("value", [1e-6, 0.5, 50.0, 1e5, 1e12])
def test_equal_precisions_are_a_von_mises_fisher(n, value):
    z = Sphere(n).uniform(5, seeded(2))
    expected = von_mises_fisher_log_normaliser(2 * value, n)  # |u - z|^2 = 2 - 2 cos
    assert log_normaliser(z, diagonal(*[value] * n)).tolist() == pytest.approx([expected] * 5, rel=1e-10, abs=1e-10)


def test_normaliser_in_ten_dimensions_is_that_of_monte_carlo():
    z = Sphere(10).uniform(1, seeded(3))
    precision = diagonal(*[6.0] * 5, *[1.5] * 5)
    u = Sphere(10).uniform(400_000, seeded(4))
    weights = (-(u - z).square() @ precision).exp()
    error = weights.std().item() / math.sqrt(400_000) / weights.mean().item()
    assert error < 0.01
    expected = weights.mean().log().item() + Sphere(10).log_volume
    assert log_normaliser(z, precision).item() == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize("precision", PAPER.values(), ids=PAPER)
def test_draws_have_the_exact_moments_around_every_kind_of_anchor(precision):
    anchors = torch.eye(10, dtype=torch.float64)[[0, 9]]
    anchors = torch.cat([anchors, Sphere(10).uniform(2, seeded(5))])
    for z in anchors:
        square = (AnisotropicNormal(precision).sample(z.expand(20_000, 10), Sphere(10), seeded(6)) - z).square()
        expected = mean_square_displacement(z.unsqueeze(0), diagonal(*precision))[0]
        error = square.std(0) / math.sqrt(20_000)
        assert ((square.mean(0) - expected).abs() < 4.5 * error).all()


@pytest.mark.parametrize(
    ("content", "style", "expected"), [(12.5, 2.5, (0.03485, 0.11334)), (25, 5, (0.01833, 0.07021))]
)
def test_displacements_are_those_measured_for_the_papers_settings(content, style, expected):
    conditional = AnisotropicNormal([content] * 5 + [style] * 5)
    z = Sphere(10).uniform(40_000, seeded(7))
    square = (conditional.sample(z, Sphere(10), seeded(8)) - z).square().mean(0)
    assert (square[:5].mean().item(), square[5:].mean().item()) == pytest.approx(expected, rel=0.01)
    exact = torch.tensor(conditional.displacement_std(Sphere(10))).square()
    assert (exact[:5].mean().item(), exact[5:].mean().item()) == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("precision", PAPER.values(), ids=PAPER)
def test_the_sampler_keeps_most_proposals_at_the_papers_settings(precision):
    assert acceptance(Sphere(10).uniform(5_000, seeded(9)), diagonal(*precision), seeded(10)) > 0.8


@pytest.mark.parametrize(
    ("precision", "share"),
    [
        ([50.0] * 10, 0.95),
        ([1e5] * 10, 0.95),
        ([1e-6] * 10, 0.95),
        (torch.linspace(1, 100, 10).tolist(), 0.6),
        ([1000.0] + [1.0] * 9, 0.25),
        ([1.0] + [1000.0] * 9, 0.25),
        ([100.0, 1.0, 1.0], 0.3),
    ],
)
def test_the_sampler_keeps_a_usable_share_elsewhere(precision, share):
    assert acceptance(Sphere(len(precision)).uniform(5_000, seeded(11)), diagonal(*precision), seeded(12)) > share


def test_no_proposal_is_denser_than_the_envelope():
    # the bound of the rejection must hold at every point; the densest points are near the axes
    for precision in ([1000.0, 1.0, 1.0], HALVES, [3.0, 0.01]):
        n = len(precision)
        z = torch.cat([Sphere(n).uniform(2_000, seeded(13)), torch.eye(n, dtype=torch.float64)])
        envelope = sphere._Envelope.around(z, diagonal(*precision))
        for seed in range(20):
            _, log_chance = envelope.propose(torch.arange(len(z)), seeded(seed))
            assert log_chance.max() < 1e-9


def test_a_hopeless_sampler_says_so(monkeypatch):
    monkeypatch.setattr(numerics, "_MOST_ROUNDS", 3)
    with pytest.raises(Ident3DError, match=r"of 500 rows in 3 rounds.*differ too much"):
        AnisotropicNormal([1e6, 1e-3]).sample(Sphere(2).uniform(500, seeded(14)), Sphere(2), seeded(15))


def test_the_radius_scales_the_precision():
    z = Sphere(3, 2.0).uniform(100, seeded(16))
    z_pos = Sphere(3, 2.0).uniform(100, seeded(17))
    large = AnisotropicNormal([1.0, 2.0, 3.0]).log_prob(z_pos, z, Sphere(3, 2.0))
    unit = AnisotropicNormal([4.0, 8.0, 12.0]).log_prob(z_pos / 2, z / 2, Sphere(3))
    torch.testing.assert_close(large, unit - 2 * math.log(2))
    torch.testing.assert_close(
        AnisotropicNormal(5.0).log_prob(z_pos, z, Sphere(3, 2.0)),
        VonMisesFisher(40.0).log_prob(z_pos, z, Sphere(3, 2.0)),
    )


def test_off_the_sphere_it_is_a_normal():
    precision, sigma = [12.5, 50.0], [0.2, 0.1]
    for space in (Box(2), Unbounded(2)):
        z, z_pos = Box(2).uniform(50, seeded(18)), Box(2).uniform(50, seeded(19))
        torch.testing.assert_close(
            AnisotropicNormal(precision).log_prob(z_pos, z, space), Normal(sigma).log_prob(z_pos, z, space)
        )
        drawn = AnisotropicNormal(precision).sample(z, space, seeded(20))
        torch.testing.assert_close(drawn, Normal(sigma).sample(z, space, seeded(20)))


def test_the_precision_must_fit_the_sphere():
    with pytest.raises(ValueError, match="given for 3 factors"):
        AnisotropicNormal([1.0, 2.0, 3.0]).sample(Sphere(4).uniform(2, seeded(0)), Sphere(4), seeded(0))
