import math

import pytest
import torch

from baselines.synthetic.studies.figure2 import mass_to_move


def test_the_mass_to_move_grows_from_none_to_all():
    for panel, few, many in (("sphere", 0.01, 1e3), ("box", 0.01, 1e4)):
        assert mass_to_move(panel, few, 4) < 0.01
        assert mass_to_move(panel, many, 4) > 0.99


def test_the_mass_to_move_is_half_the_integral_of_the_difference():
    # On the circle the density of the angle is exp(kappa cos) / (2 pi I_0(kappa)).
    kappa, angles = 2.0, torch.linspace(-math.pi, math.pi, 100_001, dtype=torch.float64)
    density = (kappa * angles.cos()).exp() / (2 * math.pi * torch.special.i0(torch.tensor(kappa, dtype=torch.float64)))
    expected = torch.trapezoid((density - 1 / (2 * math.pi)).abs(), angles).item() / 2
    assert mass_to_move("sphere", kappa, 2) == pytest.approx(expected, abs=0.005)
