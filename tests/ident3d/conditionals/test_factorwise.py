"""Conditionals of one's own, from a log density and a sampler alone."""

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from ident3d import FACTORS, Box, PositivePairs, Unbounded, sample_latents, true_mutual_information
from ident3d.conditionals import (
    CONDITIONALS,
    FactorwiseConditional,
    Laplace,
    Normal,
    Product,
    Uniform,
    mutual_information_per_factor,
    parse,
)
from ident3d.errors import NotLoadedError
from ident3d.marginals import Marginal
from ident3d.pairs import realised_conditional
from ident3d.storage.manifest import Manifest
from tests.ident3d.conditionals.student_t import StudentT, narrow
from tests.ident3d.pairs.images import NumberedImages

NAME = "tests.ident3d.conditionals.student_t"


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@dataclass(frozen=True)
class PlainNormal(FactorwiseConditional):
    """A normal that knows none of its closed forms, and whose density is not normalised."""

    scale: float

    def log_density(self, x):
        return 500 - x.square() / 2

    def draw(self, n, generator):
        return torch.randn(n, dtype=torch.float64, generator=generator)


@dataclass(frozen=True)
class PlainLaplace(FactorwiseConditional):
    """Likewise a Laplace, whose density has a kink."""

    scale: float

    def log_density(self, x):
        return -x.abs()

    def draw(self, n, generator):
        unit = torch.rand(n, dtype=torch.float64, generator=generator) - 0.5
        return -unit.sign() * torch.log1p(-2 * unit.abs())


@pytest.mark.parametrize(("plain", "known"), [(PlainNormal, Normal), (PlainLaplace, Laplace)])
@pytest.mark.parametrize("scale", [1e-5, 0.1, 1.0, 1e3])
def test_quadrature_finds_the_closed_forms(plain, known, scale):
    box = Box(3)
    z = box.uniform(200, seeded(0))
    z[:2] = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    z_pos = box.settle(z + scale * torch.randn(z.shape, dtype=torch.float64, generator=seeded(1)))
    mine, theirs = plain(scale), known(scale)
    torch.testing.assert_close(mine.log_prob(z_pos, z, box), theirs.log_prob(z_pos, z, box), rtol=1e-9, atol=1e-9)
    assert mine.displacement_std(box) == pytest.approx(theirs.displacement_std(box), rel=1e-7)
    assert mine.displacement_std(Unbounded(1)) == pytest.approx(theirs.displacement_std(Unbounded(1)), rel=1e-9)
    assert true_mutual_information(mine, box) == pytest.approx(true_mutual_information(theirs, box), abs=1e-6)


@pytest.mark.parametrize(("df", "scale"), [(0.7, 0.1), (3, 0.2), (30, 2.0)])
def test_student_t_is_scipys(df, scale):
    conditional, box = StudentT(df, scale), Box(1)
    z = torch.tensor([[-1.0], [-0.2], [0.9]], dtype=torch.float64)
    z_pos = torch.tensor([[0.3], [-0.2], [-0.9]], dtype=torch.float64)
    law = stats.t(df, loc=z.numpy(), scale=scale)
    plain = law.logpdf(z_pos.numpy())[:, 0]
    mass = np.log(law.cdf(1) - law.cdf(-1))[:, 0]
    np.testing.assert_allclose(conditional.log_prob(z_pos, z, Unbounded(1)), plain, atol=1e-9)
    np.testing.assert_allclose(conditional.log_prob(z_pos, z, box), plain - mass, atol=1e-9)
    drawn = conditional.sample(z[2].expand(4000, 1), box, seeded(0))[:, 0].numpy()
    low, high = stats.t.cdf(-1, df, 0.9, scale), stats.t.cdf(1, df, 0.9, scale)
    assert stats.kstest(drawn, lambda x: (stats.t.cdf(x, df, 0.9, scale) - low) / (high - low)).pvalue > 0.001


def test_student_t_shares_what_adaptive_quadrature_finds():
    df, scale = 3, 0.2

    def mass(z):
        return stats.t.cdf(1, df, z, scale) - stats.t.cdf(-1, df, z, scale)

    x = np.linspace(-1, 1, 4001)
    middle, step = (x[1:] + x[:-1]) / 2, x[1] - x[0]
    density = stats.t.pdf(middle[:, None], df, middle, scale) / mass(middle)  # positives by anchors
    marginal = density.mean(axis=1)
    expected = (density * np.log(density / marginal[:, None])).sum() * step / len(middle)
    assert true_mutual_information(StudentT(df, scale), Box(1)) == pytest.approx(expected, abs=1e-5)
    square = integrate.dblquad(
        lambda x, z: (x - z) ** 2 * stats.t.pdf(x, df, z, scale) / mass(z) / 2, -1, 1, -1, 1, epsabs=1e-7
    )[0]
    assert StudentT(df, scale).displacement_std(Box(1))[0] == pytest.approx(math.sqrt(square), rel=1e-6)


def test_a_law_without_variance_says_so():
    assert StudentT(3, 0.1).displacement_std(Unbounded(1)) == pytest.approx((0.1 * math.sqrt(3),))
    assert StudentT(2.2).displacement_std(Unbounded(1)) == pytest.approx((math.sqrt(11),), rel=1e-4)
    assert StudentT(2).displacement_std(Unbounded(1)) == (math.inf,)
    assert StudentT(1).displacement_std(Unbounded(2)) == (math.inf, math.inf)


def test_it_is_a_part_of_products_and_a_marginal():
    product = Product({(0,): StudentT(3, 0.2), (1, 2): Uniform(), (3,): Normal(0.1)})
    alone = true_mutual_information(StudentT(3, 0.2), Box(1))
    assert mutual_information_per_factor(product, Box(4)) == pytest.approx((alone, 0, 0, 1.646943), abs=1e-6)
    z = Box(4).uniform(50, seeded(0))
    z_pos = product.sample(z, Box(4), seeded(1))
    parts = StudentT(3, 0.2).log_prob(z_pos[:, :1], z[:, :1], Box(1)) + Normal(0.1).log_prob(
        z_pos[:, 3:], z[:, 3:], Box(1)
    )
    torch.testing.assert_close(product.log_prob(z_pos, z, Box(4)), parts - 2 * math.log(2))
    assert Marginal(StudentT(3)).sample(5, Box(2), seeded(0)).abs().max() <= 1


def test_it_serves_pairs_and_tells_what_they_realise():
    data = NumberedImages(500)
    pairs = PositivePairs(data, StudentT(3, 0.3), 32)
    assert pairs.batch(0).z_pos.shape == (32, 10)
    with pytest.warns(UserWarning, match=r"StudentT\(df=3, scale=0.1\)"):
        found = realised_conditional(sample_latents(500), StudentT(3, 0.1), draws=500)
    assert found.nominal_std == pytest.approx(StudentT(3, 0.1).displacement_std(Box(10)), rel=0.3)


def test_scales_per_factor():
    conditional = StudentT(3, (0.1, 0.2))
    assert conditional.dim == 2
    assert mutual_information_per_factor(conditional, Box(2)) == pytest.approx(
        (true_mutual_information(StudentT(3, 0.1), Box(1)), true_mutual_information(StudentT(3, 0.2), Box(1)))
    )
    with pytest.raises(ValueError, match="given for 2 factors"):
        conditional.check(Box(3))


@pytest.mark.parametrize("conditional", [StudentT(3, 0.2), StudentT(2.5, (0.1, 0.2)), Product({(0,): StudentT(3)})])
def test_its_text_is_its_inverse(conditional):
    text = str(conditional)
    assert f"{NAME}:StudentT(" in text
    assert parse(text) == conditional
    assert pickle.loads(pickle.dumps(conditional)) == conditional  # noqa: S301 - our own bytes


def test_it_is_written_as_any_other():
    text = f"{NAME}:StudentT"
    assert parse(f"{text}(df=3, scale=0.2)") == parse(f" {text} (3, 0.2)") == StudentT(3, 0.2)
    assert parse(f"{text}(3)") == StudentT(3)
    assert parse(f"{text}(3, {{position: 0.1, rest: 0.5}})") == StudentT(3, (0.1,) * 3 + (0.5,) * 7)
    by_name = f"product({{position:{text}(3, 0.1), [3] : {text}(df=4), rest: uniform}})"
    assert parse(by_name.replace("[3]", "rotation_x")) == Product(
        {"position": StudentT(3, 0.1), "rotation_x": StudentT(4), "rest": Uniform()}
    )


def test_a_manifest_keeps_it(tmp_path):
    plan = Manifest({"train": 8}, 8, 16, FACTORS, seed=0, pairs=str(StudentT(3, 0.2)))
    plan.write(tmp_path)
    assert parse(Manifest.read(tmp_path).pairs) == StudentT(3, 0.2)


def test_a_registered_name_is_as_good(monkeypatch):
    monkeypatch.setattr(CONDITIONALS, "_entries", dict(CONDITIONALS))
    CONDITIONALS.register("student_t", StudentT)
    CONDITIONALS.register("narrow", narrow)
    assert str(StudentT(3, 0.2)) == "student_t(df=3, scale=0.2)"
    for text in ("student_t(3, 0.2)", "StudentT(df=3, scale=0.2)", "student_t(scale=0.2, df=3)"):
        assert parse(text) == StudentT(3, 0.2)
    assert parse("narrow") == parse("narrow()") == StudentT(5, 0.05)
    assert parse("narrow({position: 0.1, rest: 0.2})").dim == 10


def test_a_text_from_a_file_imports_no_module(monkeypatch, tmp_path):
    (tmp_path / "hostile_tails.py").write_text("raise SystemExit('this ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for text in ("hostile_tails:StudentT(3)", "product({position: hostile_tails:StudentT(3), rest: uniform})"):
        with pytest.raises(NotLoadedError, match="import hostile_tails first"):
            parse(text, may_import=False)
    with pytest.raises(NotLoadedError, match="unknown conditional 'heavy_tails'"):
        parse("heavy_tails(3)", may_import=False)
    assert parse(f"{NAME}:StudentT(3)", may_import=False) == StudentT(3)  # it is imported already
    assert parse("normal(0.1)", may_import=False) == parse("normal(0.1)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{NAME}:StudentT()", r"StudentT\(df, scale\) needs df"),
        (f"{NAME}:StudentT(3, nu=2)", "does not take nu"),
        (f"{NAME}:StudentT(3, StudentT)", "expected a number"),
        (f"{NAME}:narrow(0.1)", "narrow is not a class derived from ident3d.Conditional"),
        ("os:system(1)", "os:system is not a class derived from"),
        ("os:nothing(1)", "'os' has no 'nothing'"),
        ("no_such_lab:StudentT(3)", "there is no module 'no_such_lab'"),
        (f"{NAME}:StudentT:again(3)", "expected package.module:Class"),
        (f"f():{NAME}", "expected package.module:Class"),
        (f"{NAME}@StudentT(3)", "not of the form"),
        (f"{{{NAME}:StudentT(3)}}", "expected a conditional"),
        ("ident3d.conditionals:Conditional()", "abstract"),
    ],
)
def test_what_makes_no_sense_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)
