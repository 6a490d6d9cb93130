"""The factors against the published description of the scene."""

import json
import math

import numpy as np
import pytest

from ident3d.factors import FACTORS, Factor, Factors

QUARTER = math.pi / 2
PUBLISHED = [
    ("position_x", -3, 3),
    ("position_y", -3, 3),
    ("position_z", -3, 3),
    ("rotation_x", -QUARTER, QUARTER),
    ("rotation_y", -QUARTER, QUARTER),
    ("rotation_z", -QUARTER, QUARTER),
    ("spotlight_angle", -QUARTER, QUARTER),
    ("object_hue", -QUARTER, QUARTER),
    ("spotlight_hue", -QUARTER, QUARTER),
    ("ground_hue", -QUARTER, QUARTER),
]


def test_the_ten_factors_are_those_of_the_published_dataset():
    assert [(factor.name, factor.low, factor.high) for factor in FACTORS] == PUBLISHED
    assert [factor.unit for factor in FACTORS] == ["bu"] * 3 + ["rad"] * 7
    assert FACTORS.groups == {"position": [0, 1, 2], "rotation": [3, 4, 5], "spotlight": [6], "hue": [7, 8, 9]}


def test_factors_are_a_sequence():
    assert len(FACTORS) == 10
    assert FACTORS[0].name == "position_x"
    assert [factor.name for factor in FACTORS[7:]] == ["object_hue", "spotlight_hue", "ground_hue"]
    assert FACTORS[3] in FACTORS
    np.testing.assert_array_equal(FACTORS.low, [low for _, low, _ in PUBLISHED])
    np.testing.assert_array_equal(FACTORS.high, [high for _, _, high in PUBLISHED])


def test_a_factor_is_found_by_its_name():
    assert FACTORS.column("ground_hue") == 9
    with pytest.raises(KeyError, match=r"no factor 'colour'; the factors are position_x, .*ground_hue"):
        FACTORS.column("colour")


def test_angles_of_3dident_cover_half_a_circle_and_so_close_none():
    assert not any(factor.is_circular for factor in FACTORS)
    assert Factor("turn", "turn", -math.pi, math.pi, "rad", period=2 * math.pi).is_circular
    assert not Factor("place", "place", -math.pi, math.pi, "bu").is_circular


def test_factors_survive_json():
    assert Factors.from_json(json.loads(json.dumps(FACTORS.to_json()))) == FACTORS


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (math.nan, 1), (0, math.inf)])
def test_a_range_is_finite_and_not_empty(low, high):
    with pytest.raises(ValueError, match=f"factor size: expected finite low < high, not {low} and {high}"):
        Factor("size", "object", low, high, "bu")


def test_a_range_does_not_exceed_its_period():
    with pytest.raises(ValueError, match=r"factor turn: the range 7 exceeds its period 6\.28"):
        Factor("turn", "object", 0, 7, "rad", period=6.28)


@pytest.mark.parametrize("items", [(), (FACTORS[0], FACTORS[0])])
def test_names_are_there_and_unique(items):
    with pytest.raises(ValueError, match="expected at least one factor and unique names"):
        Factors(items)
