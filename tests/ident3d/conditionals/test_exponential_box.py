"""Conditionals on a box: truncated, never clipped."""

import math

import pytest
import torch
from scipy import integrate, special, stats

from ident3d.conditionals import (
    AnisotropicNormal,
    GeneralizedNormal,
    Laplace,
    Normal,
    Uniform,
    VonMisesFisher,
)
from ident3d.conditionals.numerics import power_integral
from ident3d.spaces import Box

KINDS = {
    "normal": Normal(0.1),
    "laplace": Laplace(0.1),
    "p = 3": GeneralizedNormal(3, 0.1),
    "p = 1.5": GeneralizedNormal(1.5, 0.4),
    "anisotropic": AnisotropicNormal(8.0),
    "uniform": Uniform(),
}
ANCHORS = [-1.0, -0.3, 0.98, 1.0]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def draw(conditional, anchor, n=20_000, *, seed=0, dtype=torch.float64, space=None):
    """Draw n positives of one factor around one anchor: (n,)."""
    z = torch.full((n, 1), anchor, dtype=dtype)
    return conditional.sample(z, Box(1) if space is None else space, seeded(seed))[:, 0]


def density(conditional, x, anchor):
    """Return the density at x (K,) float64 around one anchor, on Box(1): (K,)."""
    z_pos = x.unsqueeze(-1)
    return conditional.log_prob(z_pos, torch.full_like(z_pos, anchor), Box(1)).exp()


@pytest.mark.parametrize(
    ("conditional", "mean", "std"),
    [
        (Normal(0.1), 0.91249, 0.06397),
        (Laplace(0.1), 0.89683, 0.10016),
        (GeneralizedNormal(3, 0.1), 0.94051, 0.03894),
        (GeneralizedNormal(2, 0.1 * math.sqrt(2)), 0.91249, 0.06397),
        (AnisotropicNormal(50.0), 0.91249, 0.06397),
    ],
)
def test_corner_moments_are_those_of_the_published_sampler(conditional, mean, std):
    # The published code rejects until a coordinate is inside; at 0.98 of the box these are the moments that it gives.
    x = draw(conditional, 0.98, 200_000)
    assert x.mean().item() == pytest.approx(mean, abs=0.0015)
    assert x.std().item() == pytest.approx(std, abs=0.0015)


@pytest.mark.parametrize("anchor", ANCHORS)
def test_normal_follows_scipys_truncated_normal(anchor):
    law = stats.truncnorm((-1 - anchor) / 0.1, (1 - anchor) / 0.1, anchor, 0.1)
    x = draw(Normal(0.1), anchor)
    assert stats.kstest(x, law.cdf).pvalue > 0.001
    inside = x[:100].unsqueeze(-1)
    expected = torch.from_numpy(law.logpdf(inside[:, 0].numpy()))
    torch.testing.assert_close(Normal(0.1).log_prob(inside, torch.full_like(inside, anchor), Box(1)), expected)


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("p", [1.0, 1.5, 3.0, 12.0])
def test_generalised_normal_follows_its_truncated_distribution(anchor, p):
    free = stats.gennorm(p, anchor, 0.3)
    low, high = free.cdf([-1, 1])
    x = draw(GeneralizedNormal(p, 0.3), anchor)
    assert stats.kstest(x, lambda t: (free.cdf(t) - low) / (high - low)).pvalue > 0.001


@pytest.mark.parametrize("anchor", ANCHORS)
def test_laplace_follows_its_truncated_distribution(anchor):
    free = stats.laplace(anchor, 0.3)
    low, high = free.cdf([-1, 1])
    x = draw(Laplace(0.3), anchor)
    assert stats.kstest(x, lambda t: (free.cdf(t) - low) / (high - low)).pvalue > 0.001


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("conditional", KINDS.values(), ids=KINDS)
def test_densities_integrate_to_one_and_agree_with_the_draws(conditional, anchor):
    edges = torch.linspace(-1, 1, 41, dtype=torch.float64)
    nodes, weights = (torch.from_numpy(array) for array in special.roots_legendre(20))
    pieces = torch.cat([edges, torch.tensor([anchor], dtype=torch.float64)]).sort().values  # the anchor is a kink
    half = pieces.diff() / 2
    x = (pieces[:-1] + half).unsqueeze(-1) + half.unsqueeze(-1) * nodes
    mass = density(conditional, x.flatten(), anchor).view_as(x) @ weights * half
    assert mass.sum().item() == pytest.approx(1, abs=1e-9)
    bins = (torch.bucketize(pieces[:-1] + half, edges) - 1).clamp(min=0)
    expected = torch.zeros(40, dtype=torch.float64).index_add_(0, bins, mass) * 20_000
    counts = torch.histogram(draw(conditional, anchor, seed=1), edges).hist
    big = expected > 5
    rest = torch.stack([counts[~big].sum(), expected[~big].sum()])
    observed, wanted = torch.cat([counts[big], rest[:1]]), torch.cat([expected[big], rest[1:]])
    chi2 = ((observed - wanted).square() / wanted.clamp(min=1)).sum().item()
    assert stats.chi2.sf(chi2, len(wanted) - 1) > 0.001


@pytest.mark.parametrize("conditional", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_no_draw_leaves_the_box_or_sits_on_a_wall_by_clipping(conditional, dtype):
    z = torch.tensor([[-1.0, 1.0, 0.0, 0.995]] * 5_000, dtype=dtype)
    z_pos = conditional.sample(z, Box(4), seeded(2))
    assert z_pos.dtype == dtype
    assert z_pos.shape == z.shape
    assert z_pos.isfinite().all()
    assert z_pos.abs().max() <= 1
    if dtype in {torch.float64, torch.float32}:
        assert (z_pos.abs() == 1).float().mean() < 1e-3


@pytest.mark.parametrize("make", [Normal, Laplace, lambda scale: GeneralizedNormal(3, scale)])
@pytest.mark.parametrize("width", [1e-12, 1e-4, 1e3, 1e12])
def test_extreme_widths_neither_overflow_nor_vanish(make, width):
    z = torch.tensor([[-1.0, 0.3, 1.0]] * 2_000)
    z_pos = make(width).sample(z, Box(3), seeded(3))
    assert z_pos.isfinite().all()
    assert z_pos.abs().max() <= 1
    log_prob = make(width).log_prob(z_pos.double(), z.double(), Box(3))
    assert log_prob.isfinite().all() or width == 1e-12  # there, float32 cannot hold the displacement
    if width > 1:  # uniform to all purposes
        assert stats.kstest(z_pos[:, 1], stats.uniform(-1, 2).cdf).pvalue > 0.001
        torch.testing.assert_close(log_prob, torch.full_like(log_prob, -3 * math.log(2)), atol=1e-2, rtol=0)


def test_densities_are_right_far_in_the_tails():
    # 60 standard deviations out; scipy's logpdf of the free normal, since the walls cut nothing off in float64
    z = torch.tensor([[-0.5]], dtype=torch.float64)
    z_pos = torch.tensor([[0.1]], dtype=torch.float64)
    assert Normal(0.01).log_prob(z_pos, z, Box(1)).item() == pytest.approx(stats.norm.logpdf(0.6, 0, 0.01))


@pytest.mark.parametrize(
    ("make", "widths", "stds"),
    [
        (Normal, [0.02, 0.1, 0.2], [0.02, 0.1, 0.2]),
        (Laplace, [0.01, 0.05, 0.1], [0.01414, 0.07071, 0.14142]),
        (lambda scale: GeneralizedNormal(2, scale), [0.02, 0.1, 0.2], [0.01414, 0.07071, 0.14142]),
        (AnisotropicNormal, [1250.0, 50.0, 12.5], [0.02, 0.1, 0.2]),
    ],
)
def test_widths_hold_for_their_own_factor(make, widths, stds):
    z = torch.zeros(100_000, 3, dtype=torch.float64)
    z_pos = make(widths).sample(z, Box(3), seeded(4))
    assert z_pos.std(0).tolist() == pytest.approx(stds, rel=0.02)
    alone = [make(width).log_prob(z_pos[:, [i]], z[:, [i]], Box(1)) for i, width in enumerate(widths)]
    torch.testing.assert_close(make(widths).log_prob(z_pos, z, Box(3)), sum(alone))


def test_other_boxes():
    x = draw(Normal(0.3), 0.9, space=Box(1, 0.0, 1.0))
    law = stats.truncnorm(-3, 1 / 3, 0.9, 0.3)
    assert stats.kstest(x, law.cdf).pvalue > 0.001
    assert Uniform().log_prob(torch.tensor([[0.5]]), torch.tensor([[0.1]]), Box(1, 0.0, 0.5)).item() == pytest.approx(
        math.log(2)
    )


def test_a_positive_outside_the_box_has_density_zero():
    z = torch.zeros(3, 2)
    z_pos = torch.tensor([[0.0, 0.0], [0.0, 1.2], [-5.0, 0.0]])
    for conditional in KINDS.values():
        assert conditional.log_prob(z_pos, z, Box(2)).isinf().tolist() == [False, True, True]


def test_draws_depend_on_the_generator_only():
    z = Box(10).uniform(64, seeded(5)).float()
    state = torch.get_rng_state()
    for conditional in KINDS.values():
        first, again = (conditional.sample(z, Box(10), seeded(6)) for _ in range(2))
        assert torch.equal(first, again)
        assert not torch.equal(first, conditional.sample(z, Box(10), seeded(7)))
    assert torch.equal(torch.get_rng_state(), state)


def test_leading_axes_are_kept():
    z = Box(3).uniform(24, seeded(8)).view(4, 6, 3)
    z_pos = Normal(0.1).sample(z, Box(3), seeded(9))
    assert z_pos.shape == (4, 6, 3)
    assert torch.equal(z_pos.view(24, 3), Normal(0.1).sample(z.view(24, 3), Box(3), seeded(9)))
    assert Normal(0.1).log_prob(z_pos, z, Box(3)).shape == (4, 6)
    for conditional in KINDS.values():
        assert conditional.sample(z[:0], Box(3), seeded(0)).shape == (0, 6, 3)


def test_half_precision_densities_come_in_float32():
    z = torch.zeros(2, 3, dtype=torch.bfloat16)
    assert Normal(0.1).log_prob(z, z, Box(3)).dtype == torch.float32
    assert Normal(0.1).log_prob(z.double(), z, Box(3)).dtype == torch.float64


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_draws_and_densities_on_a_gpu():
    z = Box(10).uniform(20_000, seeded(5)).to("cuda")
    for conditional in KINDS.values():
        z_pos = conditional.sample(z, Box(10), torch.Generator("cuda").manual_seed(0))
        assert z_pos.device == z.device
        torch.testing.assert_close(
            conditional.log_prob(z_pos, z, Box(10)).cpu(), conditional.log_prob(z_pos.cpu(), z.cpu(), Box(10))
        )
    with pytest.raises(ValueError, match="use one device"):
        Normal(0.1).sample(z, Box(10), seeded(0))


def test_bad_input_is_refused():
    z = torch.zeros(4, 3)
    with pytest.raises(ValueError, match=r"von_mises_fisher\(kappa=1.0\) is not defined on Box.*use Sphere"):
        VonMisesFisher(1.0).sample(z, Box(3), seeded(0))
    with pytest.raises(ValueError, match=r"given for 2 factors.*has 3"):
        Normal([0.1, 0.2]).sample(z, Box(3), seeded(0))
    with pytest.raises(ValueError, match=r"anchors z must lie in Box.*row 0"):
        Normal(0.1).sample(z + 2, Box(3), seeded(0))
    with pytest.raises(ValueError, match="anchors z must be finite"):
        Normal(0.1).sample(z * math.nan, Box(3), seeded(0))
    with pytest.raises(ValueError, match=r"\(\.\.\., 4\)"):
        Normal(0.1).sample(z, Box(4), seeded(0))
    with pytest.raises(TypeError, match=r"torch\.Generator, not int"):
        Normal(0.1).sample(z, Box(3), 0)
    with pytest.raises(TypeError, match="int64"):
        Normal(0.1).sample(z.long(), Box(3), seeded(0))
    with pytest.raises(ValueError, match="one shape"):
        Normal(0.1).log_prob(z[:2], z, Box(3))
    with pytest.raises(ValueError, match="positives z_pos must be finite"):
        Normal(0.1).log_prob(z * math.nan, z, Box(3))
    with pytest.raises(TypeError, match="positives z_pos"):
        Normal(0.1).log_prob(z.long(), z, Box(3))


@pytest.mark.parametrize("conditional", [Normal(0.2), Laplace(0.2), GeneralizedNormal(3, 0.2), Uniform()])
def test_displacement_std_is_that_of_the_draws(conditional):
    z = Box(2, 0.0, 1.0).uniform(200_000, seeded(10))
    z_pos = conditional.sample(z, Box(2, 0.0, 1.0), seeded(11))
    assert (z_pos - z).std(0).tolist() == pytest.approx(conditional.displacement_std(Box(2, 0.0, 1.0)), rel=0.01)


def test_displacement_std_of_the_usual_conditional():
    assert Normal(0.1).displacement_std(Box(10)) == pytest.approx((0.0976,) * 10, abs=5e-5)
    assert AnisotropicNormal([50.0, 2.0]).displacement_std(Box(2)) == pytest.approx(
        Normal([0.1, 0.5]).displacement_std(Box(2))
    )


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 20.0, 700.0])
@pytest.mark.parametrize("wall", [1e-200, 1e-12, 0.3, 0.999, 1.0, 1.001, 3.0, math.inf])
@pytest.mark.parametrize("order", [0, 2])
def test_the_integral_of_a_power_is_that_of_adaptive_quadrature(p, wall, order):
    found = power_integral(torch.tensor([wall], dtype=torch.float64), p, order).item()
    if wall < 1e-9:  # exp(-y^p) is 1 there
        expected = wall ** (order + 1) / (order + 1)
    else:
        end = min(wall, 50 ** (1 / p))  # exp(-50) is nothing beside the rest
        bends = [place for place in (1 - 3 / p, 1.0, 1 + 3 / p) if 0 < place < end]
        expected, _ = integrate.quad(
            lambda y: y**order * math.exp(-(y**p)), 0, end, points=bends or None, epsabs=1e-14, limit=500
        )
    assert found == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("p", "scale"), [(20.0, 1e30), (700.0, 3.0), (1e4, 2.1), (1e30, 3.0), (1e30, 1e30)])
def test_a_large_power_wider_than_the_box_is_uniform_on_it(p, scale):
    conditional, space = GeneralizedNormal(p, scale), Box(3)
    z = torch.tensor([[0.3, -1.0, 1.0]], dtype=torch.float64)
    z_pos = torch.tensor([[-0.9, 0.999, -1.0]], dtype=torch.float64)
    assert conditional.log_prob(z_pos, z, space).item() == pytest.approx(-3 * math.log(2), abs=1e-12)
    assert conditional.displacement_std(space) == pytest.approx((2 / math.sqrt(6),) * 3, rel=1e-12)


def test_a_large_power_is_uniform_within_its_scale():
    # Of an anchor at 0.8, positives within 0.5 and the box: [0.3, 1]; of one at 0: [-0.5, 0.5].
    conditional, space = GeneralizedNormal(1e30, 0.5), Box(1)
    for anchor, inside, outside, width in (
        (0.8, (0.31, 1.0), (0.29, -1.0), 0.7),
        (0.0, (-0.49, 0.49), (0.51, 1.0), 1.0),
    ):
        z = torch.tensor([[anchor], [anchor]], dtype=torch.float64)
        density = conditional.log_prob(torch.tensor(inside, dtype=torch.float64)[:, None], z, space)
        assert density.tolist() == pytest.approx([-math.log(width)] * 2, abs=1e-12)
        beyond = conditional.log_prob(torch.tensor(outside, dtype=torch.float64)[:, None], z, space)
        assert beyond.tolist() == [-math.inf] * 2
        drawn = draw(conditional, anchor)
        low, high = max(anchor - 0.5, -1), min(anchor + 0.5, 1)
        assert stats.kstest(drawn, stats.uniform(low, high - low).cdf).pvalue > 0.001


@pytest.mark.parametrize("scale", [0.3, 0.8, 1.0, 1.5, 3.0])
def test_the_displacement_of_a_window_that_the_walls_cut(scale):
    def square(z):
        low, high = min(z + 1, scale), min(1 - z, scale)
        return (low**3 + high**3) / (3 * (low + high))

    bends = [place for place in (scale - 1, 1 - scale) if -1 < place < 1]
    expected = integrate.quad(square, -1, 1, points=bends or None)[0] / 2
    found = GeneralizedNormal(1e30, scale).displacement_std(Box(1))[0]
    assert found == pytest.approx(math.sqrt(expected), rel=1e-12)
    if scale == 1:
        assert found == pytest.approx(math.sqrt(5 / 18), rel=1e-12)  # the mean of (z^2 - z + 1) / 3 over [0, 1]
