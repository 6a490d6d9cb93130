"""Counts, and the names that take one or another plain argument: what is none is told so."""

import numpy as np
import pytest
import torch

from ident3d import Box, Factor, Factors, Normal, Product, Sphere, sample_latents, true_mutual_information
from ident3d.arguments import check_count
from ident3d.conditionals import mutual_information_per_factor
from ident3d.marginals import Marginal


@pytest.mark.parametrize("number", [3, np.int8(3), torch.tensor(3), 2**70])
def test_integers_of_every_kind_are_counts(number):
    check_count(number, "the step", 3)
    with pytest.raises(ValueError, match=f"the step is {2**80} or larger, not"):
        check_count(number, "the step", 2**80)


@pytest.mark.parametrize("number", [3.0, "3", None, True, torch.tensor(3.5), np.zeros(2), [3]])
def test_what_is_no_integer_is_no_count(number):
    with pytest.raises(TypeError, match=r"the step .* is not an integer"):
        check_count(number, "the step", 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sample_latents(1.5), "the number of rows 1.5 is not an integer"),
        (lambda: sample_latents(3, start=0.5), "the first row 0.5 is not an integer"),
        (lambda: Factor("size", "object", "a", 1.0, "bu"), "numbers for low, high and period, not Factor.*low='a'"),
        (lambda: Factor("size", "object", 0.0, 1.0, "rad", "a"), "numbers for low, high and period, not Factor"),
        (lambda: Factor("", "object", 0.0, 1.0, "rad"), "a factor with a name"),
        (lambda: Factors(("a", "b")), "expected a tuple of factors, not"),
        (lambda: Factors([Factor("size", "object", 0.0, 1.0, "bu")]), "expected a tuple of factors, not"),
        (lambda: Box(3, "a", 1), "the lower wall of a box is a number, not 'a'"),
        (lambda: Box(3, 0, None), "the upper wall of a box is a number, not None"),
        (lambda: Sphere(3, "a"), "the radius of a sphere is a number, not 'a'"),
        (lambda: Product(5), "a conditional for each factor, group or tuple of columns, not 5"),
        (lambda: Product([Normal(1.0)]), "a conditional for each factor, group or tuple of columns, not"),
        (lambda: Marginal().sample(1.5, Box(3), torch.Generator()), "the number of latents .* is not an integer"),
        (lambda: Marginal().sample(3, Box(3), torch.Generator(), float), "a floating-point dtype, not"),
        (
            lambda: Marginal().distance_to_uniform(Box(3), torch.Generator(), 2.5),
            "the number of draws 2.5 is not",
        ),
        (lambda: true_mutual_information("normal(1)", Box(3)), "expected a conditional, .* not 'normal"),
        (lambda: mutual_information_per_factor("normal(1)", Box(3)), "expected a conditional, .* not 'normal"),
    ],
)
def test_what_is_of_another_kind_is_named(make, message):
    with pytest.raises(TypeError, match=message):
        make()
