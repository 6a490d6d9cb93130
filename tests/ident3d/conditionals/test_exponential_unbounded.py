"""Conditionals on the unbounded space: the plain densities."""

import math

import pytest
import torch
from scipy import stats

from ident3d.conditionals import AnisotropicNormal, GeneralizedNormal, Laplace, Normal, Uniform, VonMisesFisher
from ident3d.spaces import Unbounded

KINDS = [
    (Normal(0.7), stats.norm(0, 0.7)),
    (Laplace(0.7), stats.laplace(0, 0.7)),
    (GeneralizedNormal(1, 0.7), stats.laplace(0, 0.7)),
    (GeneralizedNormal(1.3, 0.7), stats.gennorm(1.3, 0, 0.7)),
    (GeneralizedNormal(3, 0.7), stats.gennorm(3, 0, 0.7)),
    (GeneralizedNormal(50, 0.7), stats.gennorm(50, 0, 0.7)),
    (AnisotropicNormal(2.0), stats.norm(0, 0.5)),
]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("conditional", "law"), KINDS, ids=lambda value: str(value)[:40])
def test_displacements_follow_scipys_law(conditional, law):
    z = torch.full((10_000, 2), 100.0, dtype=torch.float64)
    moved = conditional.sample(z, Unbounded(2), seeded(0)) - z
    assert stats.kstest(moved.flatten(), law.cdf).pvalue > 0.001
    assert law.std() == pytest.approx(conditional.displacement_std(Unbounded(2))[1])


@pytest.mark.parametrize(("conditional", "law"), KINDS, ids=lambda value: str(value)[:40])
def test_densities_are_scipys(conditional, law):
    z = torch.randn(50, 3, dtype=torch.float64, generator=seeded(1))
    moved = 2 * torch.rand(50, 3, dtype=torch.float64, generator=seeded(2)) - 1
    expected = torch.from_numpy(law.logpdf(moved.numpy())).sum(1)
    torch.testing.assert_close(conditional.log_prob(z + moved, z, Unbounded(3)), expected, rtol=1e-9, atol=1e-9)


def test_float32_is_kept():
    z = torch.zeros(1_000, 3)
    for conditional, _ in KINDS:
        z_pos = conditional.sample(z, Unbounded(3), seeded(3))
        assert z_pos.dtype == torch.float32
        assert z_pos.isfinite().all()
        assert conditional.log_prob(z_pos, z, Unbounded(3)).dtype == torch.float32


def test_conditionals_that_need_walls_or_a_sphere_are_refused():
    z = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"uniform.* is not defined on Unbounded.*Box or Sphere"):
        Uniform().sample(z, Unbounded(3), seeded(0))
    with pytest.raises(ValueError, match="use Sphere"):
        VonMisesFisher(1.0).log_prob(z, z, Unbounded(3))
    with pytest.raises(ValueError, match="finite"):
        Normal(1.0).sample(z + math.inf, Unbounded(3), seeded(0))
