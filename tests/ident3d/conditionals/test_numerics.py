import math

import pytest
import torch

from ident3d.conditionals.numerics import _radial_quadrature, draw_by_rejection, radial_integral, take
from ident3d.randomness import torch_generator


@pytest.mark.parametrize("n", [2, 3, 10, 64])
def test_the_recurrence_along_a_ray_is_the_quadrature_to_rounding(n):
    a = torch.logspace(-2, 6, 60, dtype=torch.float64).repeat_interleave(40)
    c = torch.cat([torch.zeros(1, dtype=torch.float64), torch.logspace(-3, 4, 39, dtype=torch.float64)]).repeat(60)
    c = torch.minimum(c, 3 * a)  # an r near 3 at most, as on rays of the unit sphere
    found, exact = radial_integral(a, c, n), _radial_quadrature(a, c, n)
    size = 1 + 2 * c.square() / a + a + n * (a.log().abs() + 1)  # of the terms that the logarithm is the sum of
    assert ((found.log_value - exact.log_value).abs() / size).max() < 1e-14
    torch.testing.assert_close(found.mean, exact.mean, rtol=1e-12, atol=0)
    torch.testing.assert_close(found.variance, exact.variance, rtol=1e-9, atol=0)


def test_rows_along_a_ray_do_not_depend_on_other_rows():
    a = torch.tensor([1.0, 5.0, 1e9, 40.0], dtype=torch.float64)
    c = torch.tensor([0.5, -3.0, 1e9, 38.0], dtype=torch.float64)
    together = radial_integral(a, c, 10)
    for row in range(4):
        for found, alone in zip(together, radial_integral(a[row : row + 1], c[row : row + 1], 10), strict=True):
            assert torch.equal(found[row : row + 1], alone)


def test_the_integral_along_a_ray_is_a_gamma_function_where_nothing_pulls():
    # The integral of r^(n-1) exp(-a r^2) is Gamma(n/2) / (2 a^(n/2)).
    found = radial_integral(torch.tensor([2.0], dtype=torch.float64), torch.zeros(1, dtype=torch.float64), 7)
    assert found.log_value.item() == pytest.approx(math.lgamma(3.5) - math.log(2) - 3.5 * math.log(2), abs=1e-13)


def test_rejection_proposes_again_only_for_the_rows_that_wait():
    asked = []

    def propose(rows):
        asked.append(rows.tolist())
        chance = torch.where(rows == 1, -torch.inf, 0.0) if len(asked) < 3 else torch.zeros(len(rows))
        return torch.full((len(rows),), float(len(asked))), chance

    drawn = draw_by_rejection(torch.empty(3), propose, torch_generator(0, "test"))
    assert asked == [[0, 1, 2], [1], [1]]
    assert drawn.tolist() == [1.0, 3.0, 1.0]


def test_a_chance_that_is_not_a_number_keeps_nothing():
    rounds = iter([torch.nan, 0.0])
    drawn = draw_by_rejection(
        torch.empty(1), lambda rows: (rows.float(), torch.tensor([next(rounds)])), torch_generator(0, "test")
    )
    assert drawn.tolist() == [0.0]
    assert next(rounds, None) is None


def test_all_rows_are_taken_without_a_copy():
    values = torch.arange(4)
    assert take(values, torch.arange(4)) is values
    assert take(values, torch.tensor([1, 3])).tolist() == [1, 3]
