"""Conditionals as text, and the numbers that they take."""

import copy
import pickle

import numpy as np
import pytest
import torch

from ident3d.conditionals import (
    AnisotropicNormal,
    GeneralizedNormal,
    Laplace,
    Normal,
    Product,
    Uniform,
    VonMisesFisher,
    parse,
    per_factor,
)
from ident3d.factors import Factor, Factors

SCALES = (0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
CANONICAL = {
    "normal(sigma=0.1)": Normal(0.1),
    "normal(sigma=1e-05)": Normal(1e-5),
    "normal(sigma=[0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])": Normal(SCALES),
    "laplace(scale=0.05)": Laplace(0.05),
    "generalized_normal(p=3.0, scale=0.05)": GeneralizedNormal(3, 0.05),
    "generalized_normal(p=1.5, scale=[1.0, 2.0])": GeneralizedNormal(1.5, [1, 2]),
    "von_mises_fisher(kappa=10.0)": VonMisesFisher(10),
    "von_mises_fisher(kappa=0.0)": VonMisesFisher(0),
    "anisotropic_normal(precision=[25.0, 5.0])": AnisotropicNormal([25, 5]),
    "uniform()": Uniform(),
    "product({[0, 1]: normal(sigma=0.1), [2]: uniform()})": Product({(2,): Uniform(), (0, 1): Normal(0.1)}),
    "product({[0]: product({[0]: laplace(scale=1.0)}), [1]: uniform()})": Product(
        {(0,): Product({(0,): Laplace(1)}), (1,): Uniform()}
    ),
}
WRITTEN = {
    " Normal( sigma = 1 ) ": Normal(1.0),
    "normal(0.1)": Normal(0.1),
    "normal([0.1, 0.2])": Normal([0.1, 0.2]),
    "Normal(sigma=(0.1, 0.2,))": Normal([0.1, 0.2]),
    "generalized_normal(3, scale=0.1)": GeneralizedNormal(3, 0.1),
    "GeneralizedNormal(scale=0.1, p=3)": GeneralizedNormal(3, 0.1),
    "vmf(kappa=1)": VonMisesFisher(1),
    "VonMisesFisher(1)": VonMisesFisher(1),
    "uniform": Uniform(),
    "normal(sigma={position: 0.1, rest: 0.5})": Normal(SCALES),
    "normal({'position': 0.1, 'rotation': 0.5, 'spotlight': 0.5, hue: 0.5})": Normal(SCALES),
    "laplace(scale={hue: 0.2, object_hue: 0.1, rest: 1})": Laplace([1] * 7 + [0.1, 0.2, 0.2]),
    "product({position: normal(0.1), rest: uniform})": Product({"position": Normal(0.1), "rest": Uniform()}),
    "Product({(0, 1): Normal(sigma=0.1), (2,): Uniform()})": Product({(0, 1): Normal(0.1), (2,): Uniform()}),
}


@pytest.mark.parametrize(("text", "conditional"), CANONICAL.items())
def test_text_and_conditional_are_each_others_inverse(text, conditional):
    assert str(conditional) == text
    assert parse(text) == conditional
    assert parse(repr(conditional)) == conditional


@pytest.mark.parametrize(("text", "conditional"), WRITTEN.items())
def test_other_ways_to_write_it(text, conditional):
    assert parse(text) == conditional


@pytest.mark.parametrize("conditional", CANONICAL.values(), ids=CANONICAL)
def test_conditionals_are_values(conditional):
    assert pickle.loads(pickle.dumps(conditional)) == conditional  # noqa: S301 - our own bytes
    assert copy.deepcopy(conditional) == conditional
    assert hash(parse(str(conditional))) == hash(conditional)
    assert sum(conditional == other for other in CANONICAL.values()) == 1
    with pytest.raises(AttributeError):
        conditional.sigma = 3


def test_names_refer_to_the_factors_given():
    factors = Factors((Factor("size", "shape", 0, 1, "bu"), Factor("tone", "colour", 0, 1, "bu")))
    assert parse("normal({colour: 2, size: 1})", factors) == Normal([1, 2])
    assert parse("product({tone: normal(2), shape: uniform})", factors) == Product({(0,): Uniform(), (1,): Normal(2)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "norml(sigma=0.1)",
            r"'norml\(sigma=0.1\)': unknown conditional 'norml'; did you mean 'normal'\?; choose",
        ),
        ("normal(sigma=-0.1)", "sigma must be positive and finite, not -0.1"),
        ("normal(sigma=0)", "positive"),
        ("normal(sigma=1e-31)", "sigma must lie between 1e-30 and 1e[+]30, not 1e-31"),
        ("von_mises_fisher(1e31)", "kappa must lie between"),
        ("normal(sigma=1e999)", "positive and finite, not inf"),
        ("normal(sigma=1" + "0" * 400 + ")", "too large"),
        ("normal(sigma=inf)", "expected a number, .*found inf"),
        ("normal(sigma=True)", "expected a number, .*found True"),
        ("normal(sigma='0.1')", "expected a number, .*found '0.1'"),
        ("normal(sigma=[0.1, -1])", "sigma of column 1 must be positive"),
        ("normal(sigma=[])", "not an empty list"),
        ("normal(sigma=[[1]])", "expected a number"),
        ("normal(sigma={position: 1})", "nothing is given for rotation_x"),
        ("normal(sigma={position: 1, nose: 1, rest: 1})", "no factor or group is called nose"),
        ("normal(sigma={position: -1, rest: 1})", "sigma of position must be positive"),
        ("normal(sigma={position: 1, position: 2, rest: 1})", "may occur once"),
        ("normal(sigma={1: 1})", "name of a factor or group, found 1"),
        ("normal(sigma={**a})", "found nothing"),
        ("normal()", r"normal\(sigma\) needs sigma"),
        ("normal", "needs sigma"),
        ("normal(0.1, 0.2)", r"normal\(sigma\) takes 1 value, not 2"),
        ("normal(0.1, sigma=0.2)", "does not take sigma twice"),
        ("normal(width=0.1)", r"normal\(sigma\) does not take width"),
        ("normal(**x)", "does not take"),
        ("normal(*x)", "expected a number"),
        ("normal(sigma=1+1)", r"found 1 \+ 1"),
        ("generalized_normal(p=0.5, scale=1)", "p must be 1 or larger, not 0.5"),
        ("product(normal(1))", r"expected a number, .* or {name: \.\.\., \.\.\.}, found normal\(1\)"),
        ("product({position: 3, rest: uniform})", "expected a conditional, found 3"),
        ("product({[0, a]: uniform})", r"found \[0, a\]"),
        ("product({[0]: uniform, rest: uniform})", "not by both"),
        ("__import__('os').system('true')", "expected a conditional, found"),
        ("normal(sigma=open('x'))", "expected a number"),
        ("normal(sigma=0.1", "it is not of the form"),
        ("normal(sigma=0.1); 1", "it is not of the form"),
        ("", "it is not of the form"),
        ("normal(\0)", "cannot read"),
        ("(" * 5_000, "it is not of the form"),
        ("-" * 15_000 + "1", "cannot read"),
        ("normal(" + "1+" * 900 + "1)", "cannot read"),
        ("normal(" + "1," * 20_000 + ")", "at most 20000 characters"),
    ],
)
def test_texts_that_make_no_sense_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_a_text_is_a_string():
    with pytest.raises(TypeError, match="described by a string, not by Normal"):
        parse(Normal(0.1))


def test_scales_come_in_many_forms():
    assert Normal(np.float32(0.5)) == Normal(0.5)
    assert Normal(np.array([0.5, 1])) == Normal(torch.tensor([0.5, 1.0])) == Normal((0.5, 1)) == Normal([0.5, 1.0])
    assert Normal({"position": 0.1, "rest": 0.5}) == Normal(SCALES)
    assert per_factor({"position": 0.1, "rest": 0.5}, "sigma") == SCALES
    assert Normal(torch.tensor(0.5)).sigma == 0.5
    assert Normal([0.5]) != Normal(0.5)  # one is for one factor, the other for any number of them
    assert Normal(0.1) != Laplace(0.1)


@pytest.mark.parametrize("make", [Normal, Laplace, AnisotropicNormal, lambda width: GeneralizedNormal(3, width)])
@pytest.mark.parametrize("width", [0, -1.0, float("nan"), float("inf"), [0.1, 0.0], np.array([0.1, -2]), []])
def test_scales_are_positive_and_finite(make, width):
    with pytest.raises(ValueError, match=r"positive and finite|empty"):
        make(width)


@pytest.mark.parametrize("width", [None, "0.1", True, [[0.1]], [None], {"position": "a", "rest": 1}])
def test_scales_are_numbers(width):
    with pytest.raises(TypeError, match="must be a number"):
        Normal(width)


@pytest.mark.parametrize("p", [0.99, float("inf"), float("nan"), -1])
def test_exponents_below_one_are_refused(p):
    with pytest.raises(ValueError, match="p must be"):
        GeneralizedNormal(p, 0.1)
