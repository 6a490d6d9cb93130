"""Products of conditionals over groups of factors."""

import pickle

import pytest
import torch
from scipy import stats

from ident3d.conditionals import AnisotropicNormal, GeneralizedNormal, Laplace, Normal, Product, Uniform, VonMisesFisher
from ident3d.factors import FACTORS, Factor, Factors
from ident3d.spaces import Box, Unbounded

CONTENT_STYLE = Product({"position": Normal(0.05), "hue": Laplace([0.1, 0.2, 0.3]), "rest": Uniform()})


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_names_resolve_to_the_columns_of_the_factors():
    assert (
        Product({(0, 1, 2): Normal(0.05), (7, 8, 9): Laplace([0.1, 0.2, 0.3]), (3, 4, 5, 6): Uniform()})
        == CONTENT_STYLE
    )
    assert [columns for columns, _ in CONTENT_STYLE.parts] == [(0, 1, 2), (3, 4, 5, 6), (7, 8, 9)]
    one = Product({"rotation_y": Normal(0.1), "rotation": Normal(0.2), "rest": Normal(0.3)})
    assert dict(one.parts) == {(0, 1, 2, 6, 7, 8, 9): Normal(0.3), (3, 5): Normal(0.2), (4,): Normal(0.1)}
    assert {FACTORS.names[column] for columns, part in one.parts if part == Normal(0.1) for column in columns} == {
        "rotation_y"
    }


def test_names_of_other_factors():
    factors = Factors((Factor("size", "shape", 0, 1, "bu"), Factor("tone", "colour", 0, 1, "bu")))
    product = Product({"colour": Normal(0.1), "size": Uniform()}, factors)
    assert product.parts == (((0,), Uniform()), ((1,), Normal(0.1)))


def test_products_are_values():
    again = Product([([7, 8, 9], Laplace([0.1, 0.2, 0.3])), ([3, 4, 5, 6], Uniform()), ([0, 1, 2], Normal(0.05))])
    assert again == CONTENT_STYLE
    assert hash(again) == hash(CONTENT_STYLE)
    assert pickle.loads(pickle.dumps(again)) == CONTENT_STYLE  # noqa: S301 - our own bytes


def test_every_part_draws_its_own_factors():
    z = Box(10).uniform(20_000, seeded(0))
    z_pos = CONTENT_STYLE.sample(z, Box(10), seeded(1))
    std = (z_pos - z).std(0)
    assert std.tolist() == pytest.approx(CONTENT_STYLE.displacement_std(Box(10)), rel=0.03)
    assert std[:3].max() < 0.06
    assert stats.kstest(z_pos[:, 4], stats.uniform(-1, 2).cdf).pvalue > 0.001
    assert abs(torch.corrcoef(torch.stack([z[:, 4], z_pos[:, 4]]))[0, 1]) < 0.03


def test_log_densities_add():
    z, z_pos = Box(10).uniform(40, seeded(2)), Box(10).uniform(40, seeded(3))
    position = Normal(0.05).log_prob(z_pos[:, :3], z[:, :3], Box(3))
    hue = Laplace([0.1, 0.2, 0.3]).log_prob(z_pos[:, 7:], z[:, 7:], Box(3))
    style = Uniform().log_prob(z_pos[:, 3:7], z[:, 3:7], Box(4))
    torch.testing.assert_close(CONTENT_STYLE.log_prob(z_pos, z, Box(10)), position + hue + style)


def test_columns_need_not_be_sorted():
    z, z_pos = Box(3).uniform(40, seeded(4)), Box(3).uniform(40, seeded(5))
    product = Product({(2, 0): Normal([0.1, 0.5]), (1,): GeneralizedNormal(3, 0.2)})
    expected = Normal([0.5, 0.1]).log_prob(z_pos[:, [0, 2]], z[:, [0, 2]], Box(2))
    expected = expected + GeneralizedNormal(3, 0.2).log_prob(z_pos[:, [1]], z[:, [1]], Box(1))
    torch.testing.assert_close(product.log_prob(z_pos, z, Box(3)), expected)
    assert [law.scale for law in product.coordinates(Box(3))] == pytest.approx([0.5 * 2**0.5, 0.2, 0.1 * 2**0.5])


def test_products_on_the_unbounded_space():
    product = Product({(0,): Normal(0.1), (1, 2): AnisotropicNormal([1.0, 2.0])})
    z = torch.zeros(20_000, 3)
    z_pos = product.sample(z, Unbounded(3), seeded(6))
    assert z_pos.std(0).tolist() == pytest.approx(product.displacement_std(Unbounded(3)), rel=0.03)
    with pytest.raises(ValueError, match=r"uniform\(\) is not defined on Unbounded"):
        CONTENT_STYLE.sample(torch.zeros(3, 10), Unbounded(10), seeded(0))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"position": Normal(0.1), "colour": Normal(0.2)}, "no factor or group is called colour.*the groups position"),
        ({"position": Normal(0.1)}, "nothing is given for rotation_x, .*ground_hue"),
        ({**{group: Normal(0.1) for group in FACTORS.groups}, "rest": Normal(1)}, "no column is left for rest"),
        ({"position": Normal([0.1, 0.2]), "rest": Uniform()}, r"2 factors, and covers the columns \[0, 1, 2\]"),
        ({(0, 1): Normal(0.1), (1, 2): Normal(0.1)}, r"each once, not \[0, 1\], \[1, 2\]"),
        ({(0, 2): Normal(0.1)}, "0, 1, ... each once"),
        ({}, "not none"),
        ({(): Normal(0.1), (0,): Normal(0.1)}, "each once"),
        ([("position", Normal(0.1)), ("position", Normal(0.2))], "may occur once"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        Product(parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"position": 0.1, "rest": Uniform()}, "must be a conditional, not 0.1"),
        ({"position": Normal(0.1), (3,): Uniform()}, "by names or by columns, not by both"),
        ({0.5: Normal(0.1)}, "tuple of column numbers"),
        ({(True,): Normal(0.1)}, "tuple of column numbers"),
    ],
)
def test_parts_of_the_wrong_kind_are_refused(parts, message):
    with pytest.raises(TypeError, match=message):
        Product(parts)


def test_a_product_must_fit_the_space():
    with pytest.raises(ValueError, match="given for 10 factors"):
        CONTENT_STYLE.check(Box(9))
    with pytest.raises(ValueError, match="use Sphere"):
        Product({(0, 1): VonMisesFisher(1.0)}).check(Box(2))
