"""Marginals of the synthetic experiments."""

import math
import pickle

import pytest
import torch
from scipy import integrate, stats

from ident3d.conditionals import GeneralizedNormal, Laplace, Normal, Uniform, VonMisesFisher
from ident3d.conditionals.sphere import mean_cosine
from ident3d.marginals import Marginal, parse
from ident3d.spaces import Box, Sphere, Unbounded


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("marginal", "space", "law"),
    [
        (Marginal(), Box(3, 0.0, 1.0), stats.uniform(0, 1)),
        (Marginal(Normal(0.2)), Box(3, 0.0, 1.0), stats.truncnorm(-2.5, 2.5, 0.5, 0.2)),
        (Marginal(Normal(1.0)), Unbounded(3), stats.norm(0, 1)),
        (Marginal(Laplace(1.0)), Unbounded(3), stats.laplace(0, 1)),
        (Marginal(GeneralizedNormal(3, 1.0)), Unbounded(3), stats.gennorm(3, 0, 1)),
    ],
)
def test_marginals_of_the_tables(marginal, space, law):
    z = marginal.sample(5_000, space, seeded(0), torch.float64)
    assert stats.kstest(z.flatten(), law.cdf).pvalue > 0.001
    expected = torch.from_numpy(law.logpdf(z.numpy())).sum(1)
    torch.testing.assert_close(marginal.log_prob(z, space), expected, rtol=1e-9, atol=1e-9)


def test_a_concentrated_marginal_on_the_sphere_lies_around_its_pole():
    z = Marginal(VonMisesFisher(10.0)).sample(50_000, Sphere(10, 2.0), seeded(1))
    assert z.dtype == torch.float32
    assert z.mean(0).tolist() == pytest.approx([2 * mean_cosine(10.0, 10)] + [0.0] * 9, abs=0.02)


def test_a_normal_marginal_on_the_sphere_is_projected():
    normal = torch.randn(50_000, 5, dtype=torch.float64, generator=seeded(2))
    normal[:, 0] += 1
    expected = torch.nn.functional.normalize(normal, dim=1)[:, 0]
    z = Marginal(Normal(1.0)).sample(50_000, Sphere(5), seeded(3), torch.float64)
    assert stats.ks_2samp(z[:, 0], expected).pvalue > 0.001


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dtype_and_shape(dtype):
    for space in (Box(4), Sphere(4), Unbounded(4)):
        z = Marginal(Normal(0.3)).sample(7, space, seeded(4), dtype)
        assert z.shape == (7, 4)
        assert z.dtype == dtype
        space.check(z)
    assert Marginal().sample(0, Box(4), seeded(4)).shape == (0, 4)


def test_outside_the_box_the_density_is_zero():
    z = torch.tensor([[0.5, 0.5], [0.5, 1.5]])
    for law in (Uniform(), Normal(0.3)):
        assert Marginal(law).log_prob(z, Box(2, 0.0, 1.0)).isinf().tolist() == [False, True]


@pytest.mark.parametrize("kappa", [0.0, 1.0, 10.0, 100.0])
def test_mass_to_move_on_the_sphere(kappa):
    # by the cosine t of the angle to the pole, whose uniform density is proportional to (1 - t^2)^(7/2) in R^10
    def bend(t):
        return (1 - t * t) ** 3.5

    area = integrate.quad(bend, -1, 1)[0]
    mass = integrate.quad(lambda t: math.exp(kappa * (t - 1)) * bend(t), -1, 1, epsabs=1e-16)[0]
    expected = integrate.quad(
        lambda t: abs(math.exp(kappa * (t - 1)) / mass - 1 / area) * bend(t) / 2, -1, 1, limit=500
    )[0]
    marginal = Marginal(VonMisesFisher(kappa))
    assert marginal.distance_to_uniform(Sphere(10), seeded(5), 40_000) == pytest.approx(expected, abs=0.008)


def test_mass_to_move_on_a_box():
    # one factor: half the integral of |p - 1|
    law = stats.truncnorm(-2.5, 2.5, 0.5, 0.2)
    expected = integrate.quad(lambda x: abs(law.pdf(x) - 1) / 2, 0, 1)[0]
    actual = Marginal(Normal(0.2)).distance_to_uniform(Box(1, 0.0, 1.0), seeded(6), 40_000)
    assert actual == pytest.approx(expected, abs=0.008)
    assert Marginal().distance_to_uniform(Box(3), seeded(7), 10) == 0


def test_text_and_values():
    assert parse("uniform") == Marginal()
    assert parse("normal(sigma=1)") == Marginal(Normal(1.0))
    assert str(Marginal(VonMisesFisher(10))) == "von_mises_fisher(kappa=10.0)"
    assert parse(str(Marginal(Laplace(2)))) == Marginal(Laplace(2.0))
    assert hash(Marginal()) == hash(Marginal(Uniform()))
    assert pickle.loads(pickle.dumps(Marginal(Normal(1)))) == Marginal(Normal(1))  # noqa: S301 - our own bytes


def test_bad_input_is_refused():
    with pytest.raises(TypeError, match="made of a conditional"):
        Marginal("uniform")
    with pytest.raises(ValueError, match="not defined on Unbounded"):
        Marginal().sample(3, Unbounded(2), seeded(0))
    with pytest.raises(ValueError, match="not defined on Box"):
        Marginal(VonMisesFisher(1)).log_prob(torch.zeros(2, 2), Box(2))
    with pytest.raises(ValueError, match="0 or larger, not -1"):
        Marginal().sample(-1, Box(2), seeded(0))
    with pytest.raises(TypeError, match=r"torch\.Generator"):
        Marginal().sample(3, Box(2), None)
    with pytest.raises(TypeError, match="floating-point"):
        Marginal().sample(3, Box(2), seeded(0), torch.int64)
    with pytest.raises(ValueError, match="finite"):
        Marginal().log_prob(torch.full((1, 2), math.nan), Box(2))
    with pytest.raises(ValueError, match="lie in Sphere"):
        Marginal().log_prob(torch.zeros(1, 2), Sphere(2))
    with pytest.raises(ValueError, match="not defined on Unbounded"):
        Marginal(Normal(1.0)).distance_to_uniform(Unbounded(2), seeded(0))
    with pytest.raises(ValueError, match="draws is 1 or larger, not 0"):
        Marginal().distance_to_uniform(Box(2), seeded(0), 0)
