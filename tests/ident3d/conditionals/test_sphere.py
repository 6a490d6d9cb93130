"""Conditionals on a sphere that look the same in every direction, or are projected onto it."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, interpolate, special, stats

from ident3d.conditionals import AnisotropicNormal, GeneralizedNormal, Laplace, Normal, Product, Uniform, VonMisesFisher
from ident3d.conditionals.numerics import radial_integral
from ident3d.conditionals.sphere import log_normaliser_von_mises_fisher as log_normaliser
from ident3d.conditionals.sphere import mean_cosine, mean_fall
from ident3d.spaces import Sphere

# (dimension, kappa, ln of the normaliser of exp(kappa (cos - 1)), mean cosine), from 40-digit Bessel functions
BESSEL = [
    (2, 0.001, 1.8368773164093299, 0.00049999993750001043),
    (2, 1.0, 1.0737914249165241, 0.44638996589653451),
    (2, 100000.0, -4.8375229492741914, 0.99999499998749987),
    (3, 5.0, 0.22839375301487462, 0.80009080398201938),
    (10, 1e-06, 3.2387417794590506, 9.9999999999999162e-8),
    (10, 1.0, 2.2885364065453559, 0.099178382399712559),
    (10, 100.0, -12.531956136130769, 0.95579517288124742),
    (10, 100000.0, -43.537796543917717, 0.99995500078750787),
    (10, 1e8, -74.62261662769359, 0.99999995500000079),
    (10, 1e10, -95.345882386677501, 0.99999999955),
    (1000, 1e10, -10583.392957283828, 0.99999995005000125),
    (1000, 1.0, -2033.0572602567234, 0.00099999900199799603),
    (1000, 100.0, -2127.082385057621, 0.099021395665281644),
    (1000, 5000.0, -3361.2003519771314, 0.90506866256979571),
]
ON_SPHERE = [
    Normal(0.4),
    Normal([0.2, 0.5, 1.0]),
    Laplace(0.4),
    GeneralizedNormal(3, 0.5),
    GeneralizedNormal(1.5, [0.3, 0.6, 0.5]),
    VonMisesFisher(4.0),
    AnisotropicNormal([6.0, 0.5, 2.0]),
    AnisotropicNormal([0.05, 9.0, 9.0]),
    Uniform(),
]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def circle(n):
    angle = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n)
    return torch.stack([angle.cos(), angle.sin()], 1)


def rings(axis, heights, n=48):
    """Return rings of points on the unit sphere of R^3, at given coordinates along an axis: (len(heights), n, 3)."""
    ring = circle(n)
    radius = (1 - heights.square()).clamp(min=0).sqrt().unsqueeze(-1)
    points = torch.empty(len(heights), n, 3, dtype=torch.float64)
    points[..., axis] = heights.unsqueeze(-1)
    points[..., (axis + 1) % 3], points[..., (axis + 2) % 3] = radius * ring[:, 0], radius * ring[:, 1]
    return points


def coordinate_mass(conditional, z, axis, heights):
    """Return, for one coordinate of a positive on the unit sphere of R^3, the mass below each of its values.

    The sphere's area element is d(height) d(angle), so the coordinate's density is 2 pi times a ring's mean density.
    """
    points = rings(axis, heights)
    density = conditional.log_prob(points, z.expand_as(points), Sphere(3)).exp().mean(1) * 2 * math.pi
    return integrate.cumulative_simpson(density.numpy(), x=heights.numpy(), initial=0)


@pytest.mark.parametrize("conditional", ON_SPHERE, ids=str)
def test_draws_follow_the_density_and_the_density_integrates_to_one(conditional):
    z = torch.nn.functional.normalize(torch.tensor([0.3, 0.8, -0.5], dtype=torch.float64), dim=0)
    z_pos = conditional.sample(z.expand(10_000, 3), Sphere(3), seeded(0))
    heights = torch.linspace(-1, 1, 201, dtype=torch.float64)
    for axis in range(3):
        mass = coordinate_mass(conditional, z, axis, heights)
        assert mass[-1] == pytest.approx(1, abs=2e-4)  # Laplace's kinks slow Simpson's rule down
        cdf = interpolate.PchipInterpolator(heights.numpy(), mass / mass[-1])
        assert stats.kstest(z_pos[:, axis], cdf).pvalue > 0.001


@pytest.mark.parametrize("conditional", ON_SPHERE, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_draws_stay_on_the_sphere_in_every_dtype(conditional, dtype):
    z = Sphere(3, 2.0).cast(Sphere(3, 2.0).uniform(1_000, seeded(1)), dtype)
    z_pos = conditional.sample(z, Sphere(3, 2.0), seeded(2))
    assert z_pos.dtype == dtype
    Sphere(3, 2.0).check(z_pos)
    assert conditional.log_prob(z_pos, z, Sphere(3, 2.0)).isfinite().all()


def test_densities_refer_to_the_surface_of_the_sphere_at_hand():
    # on the circle of radius 2, arc length is twice the angle
    grid = 2 * circle(2_000)
    z = (2 * circle(7)[3]).expand_as(grid)
    for conditional in [Normal(0.4), Laplace(0.4), VonMisesFisher(5.0), AnisotropicNormal([2.0, 0.5]), Uniform()]:
        density = conditional.log_prob(grid, z, Sphere(2, 2.0)).exp()
        assert (density.mean() * 4 * math.pi).item() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("n", "kappa", "expected", "cosine"), BESSEL)
def test_von_mises_fisher_constants(n, kappa, expected, cosine):
    assert log_normaliser(kappa, n) == pytest.approx(expected, rel=1e-11, abs=1e-11)
    assert mean_cosine(kappa, n) == pytest.approx(cosine, rel=1e-11)


@pytest.mark.parametrize(("kappa", "cosine"), [(1.0, 0.0991784), (10.0, 0.6336684), (100.0, 0.9557952)])
def test_von_mises_fisher_mean_cosine(kappa, cosine):
    z = Sphere(10).uniform(100_000, seeded(3))
    cosines = (VonMisesFisher(kappa).sample(z, Sphere(10), seeded(4)) * z).sum(1)
    assert cosines.mean().item() == pytest.approx(cosine, abs=4 * cosines.std().item() / math.sqrt(100_000))


@pytest.mark.parametrize("n", [2, 3, 10, 50])
@pytest.mark.parametrize("kappa", [0, 0.5, 20.0, 1e5])
def test_von_mises_fisher_angles(n, kappa):
    # In R^n the cosine t has the density exp(kappa t) (1 - t^2)^((n-3)/2); by angle it has no pole.
    z = Sphere(n).uniform(5_000, seeded(5))
    z_pos = VonMisesFisher(kappa).sample(z, Sphere(n), seeded(6))
    angle = 2 * torch.asin(((z_pos - z).norm(dim=1) / 2).clamp(max=1))
    grid = torch.linspace(0, min(math.pi, 12 * math.sqrt(n) / math.sqrt(kappa + 1)), 4_001, dtype=torch.float64).numpy()
    density = np.exp(kappa * (np.cos(grid) - 1)) * np.sin(np.clip(grid, 0, math.pi)) ** (n - 2)
    mass = integrate.cumulative_simpson(density, x=grid, initial=0)
    cdf = interpolate.PchipInterpolator(grid, mass / mass[-1], extrapolate=False)
    assert stats.kstest(angle, cdf).pvalue > 0.001


def test_a_large_kappa_keeps_its_digits_in_float32():
    z = Sphere(10).uniform(50_000, seeded(7)).float()
    z_pos = VonMisesFisher(1e5).sample(z, Sphere(10), seeded(8))
    square = (z_pos.double() - z.double()).square().sum(1).mean().item()
    assert square == pytest.approx(2 * (1 - mean_cosine(1e5, 10)), rel=0.01)


def test_projected_normal_on_the_circle_has_its_closed_form():
    # Mardia's offset normal: with t = cos(angle) / sigma, (exp(-1/2 sigma^2) / 2 pi) (1 + t Phi(t) / phi(t))
    angle = torch.linspace(-3, 3, 61, dtype=torch.float64)
    for sigma in (0.05, 0.4, 1.0, 5.0):
        t = (angle.cos() / sigma).numpy()
        terms = np.stack([np.full_like(t, -0.5 / sigma**2), np.log(np.abs(t)) + stats.norm.logcdf(t) + t**2 / 2])
        terms[1] += -0.5 / sigma**2 + 0.5 * math.log(2 * math.pi)
        expected = special.logsumexp(terms, axis=0, b=np.stack([np.ones_like(t), np.sign(t)])) - math.log(2 * math.pi)
        z_pos = torch.stack([angle.cos(), angle.sin()], 1)
        z = torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand_as(z_pos)
        actual = Normal(sigma).log_prob(z_pos, z, Sphere(2))
        assert actual[angle.cos() > -0.2].numpy() == pytest.approx(expected[angle.cos().numpy() > -0.2], abs=1e-8)


@pytest.mark.parametrize("sigma", [0.05, 1.0, [0.3, 0.05, 1.0, 0.2, 0.4]])
def test_two_ways_to_project_a_normal_agree(sigma):
    # Normal has a formula of its own; the generalised normal is integrated panel by panel
    z, z_pos = Sphere(5).uniform(200, seeded(9)), Sphere(5).uniform(200, seeded(10))
    scale = [math.sqrt(2) * width for width in sigma] if isinstance(sigma, list) else math.sqrt(2) * sigma
    almost = GeneralizedNormal(2 + 1e-12, scale)
    expected = Normal(sigma).log_prob(z_pos, z, Sphere(5))
    torch.testing.assert_close(almost.log_prob(z_pos, z, Sphere(5)), expected, rtol=1e-8, atol=1e-8)


def test_projected_laplace_density_is_scipys_integral():
    z = torch.tensor([[0.6, -0.8, 0.0]], dtype=torch.float64)
    z_pos = torch.tensor([[0.48, -0.6, 0.64]], dtype=torch.float64)

    def integrand(r):
        gaps = r * z_pos.numpy()[0] - z.numpy()[0]
        return r**2 * stats.laplace(0, 0.1).pdf(gaps).prod()

    expected, _ = integrate.quad(integrand, 0, 5, points=[0.75, 1.25, 0.8 / 0.6], limit=200, epsabs=1e-14)
    actual = Laplace(0.1).log_prob(z_pos, z, Sphere(3)).item()
    assert actual == pytest.approx(math.log(expected), abs=1e-9)


@pytest.mark.parametrize(
    ("a", "c", "n"), [(0.5, -30.0, 2), (2.0, 0.3, 3), (40.0, 25.0, 10), (1e4, 9e3, 50), (3.0, -5.0, 7)]
)
def test_radial_integral_is_scipys(a, c, n):
    mode = (c + math.sqrt(c * c + 2 * a * (n - 1))) / (2 * a)
    top = (n - 1) * math.log(mode) - a * mode**2 + 2 * c * mode

    def weigh(power):
        def integrand(r):
            return r**power * math.exp((n - 1) * math.log(r) - a * r * r + 2 * c * r - top) if r > 0 else 0.0

        return integrate.quad(integrand, 0, mode * 40, points=[mode], limit=500, epsabs=0, epsrel=1e-11)[0]

    mass, mean = weigh(0), weigh(1) / weigh(0)
    ray = radial_integral(*torch.tensor([[a], [c]], dtype=torch.float64), n)
    assert ray.log_value.item() == pytest.approx(top + math.log(mass), rel=1e-9)
    assert ray.mean.item() == pytest.approx(mean, rel=1e-9)
    assert ray.variance.item() == pytest.approx(weigh(2) / mass - mean**2, rel=1e-5)


def test_displacement_std_is_that_of_the_draws():
    z = Sphere(4, 2.0).uniform(20_000, seeded(11))
    for conditional in (VonMisesFisher(3.0), Uniform(), AnisotropicNormal([0.2, 1.0, 1.0, 3.0])):
        moved = conditional.sample(z, Sphere(4, 2.0), seeded(12)) - z
        assert moved.std(0).tolist() == pytest.approx(conditional.displacement_std(Sphere(4, 2.0)), rel=0.03)
    with pytest.raises(ValueError, match="not independent"):
        Normal(0.1).displacement_std(Sphere(4))


def test_bad_input_is_refused():
    z = torch.ones(3, 3)
    with pytest.raises(ValueError, match=r"anchors z must lie in Sphere.*row 0 is \[1.0, 1.0, 1.0\] \(3 such"):
        VonMisesFisher(1.0).sample(z, Sphere(3), seeded(0))
    on_sphere = torch.nn.functional.normalize(z, dim=1)
    with pytest.raises(ValueError, match="positives z_pos must lie in Sphere"):
        VonMisesFisher(1.0).log_prob(z, on_sphere, Sphere(3))
    with pytest.raises(ValueError, match=r"not defined on Sphere.*Box or Unbounded"):
        Product({(0, 1): Normal(0.1), (2,): Normal(0.2)}).sample(on_sphere, Sphere(3), seeded(0))
    for kappa in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="kappa must be 0 or larger and finite"):
            VonMisesFisher(kappa)
    with pytest.raises(TypeError, match="kappa must be a number"):
        VonMisesFisher([1.0, 2.0])


@pytest.mark.parametrize("kappa", [40.0, 1e3, 1e6, 1e12, 1e17, 1e25, 1e30])
def test_the_displacement_of_a_large_kappa_keeps_its_digits(kappa):
    # In R^3 the mean cosine is coth(kappa) - 1 / kappa. In any R^n, positives are at last normal on the flat tangent
    # space of n - 1 dimensions, with variance 1 / kappa: 1 less the cosine is half their square.
    assert mean_fall(kappa, 3) == pytest.approx(1 / kappa, rel=1e-12)
    assert VonMisesFisher(kappa).displacement_std(Sphere(3))[0] == pytest.approx(math.sqrt(2 / (3 * kappa)), rel=1e-12)
    for n in (2, 10, 50):
        second_order = 1 - (n - 3) / (4 * kappa)
        assert mean_fall(kappa, n) == pytest.approx((n - 1) / (2 * kappa) * second_order, rel=1e-12 + (n / kappa) ** 2)
        if kappa < 1e6:
            assert mean_fall(kappa, n) == pytest.approx(1 - mean_cosine(kappa, n), rel=1e-15 * kappa + 1e-12)
