import colorsys
import math

import numpy as np
import pytest

from ident3d.scene.scene import AreaLamp, SpotLamp
from ident3d.scene.templates import HSVColour, HueMap, LightTemplate, ObjectTemplate, Orbit


@pytest.mark.parametrize(
    ("turns", "saturation", "expected"),
    [
        (-0.05, 1.0, (1, -0.3, 0)),
        (-0.15, 1.0, (1, -0.9, 0)),
        (-0.2, 1.0, (1, 0, 1.2)),
        (-0.25, 1.0, (1, 0, 1.5)),
        (-0.15, 0.8, (1, -0.52, 0.2)),
        (-0.15, 0.6, (1, -0.14, 0.4)),
        (-0.25, 0.6, (1, 0.4, 1.3)),
    ],
)
def test_published_map_leaves_the_gamut_as_in_the_downloadable_dataset(turns, saturation, expected):
    assert HueMap.PUBLISHED.rgb(turns * 2 * math.pi, saturation) == pytest.approx(expected)


@pytest.mark.parametrize("saturation", [0.0, 0.6, 0.8, 1.0])
def test_wrapped_map_is_hsv_of_the_angle_modulo_a_turn(saturation):
    for angle in np.linspace(-4, 4, 101):
        hue = (angle / (2 * math.pi)) % 1
        assert HueMap.WRAPPED.rgb(angle, saturation, 0.7) == pytest.approx(colorsys.hsv_to_rgb(hue, saturation, 0.7))


def test_wrapped_map_stays_in_the_gamut_and_tells_all_hues_apart():
    angles = np.linspace(-math.pi / 2, math.pi / 2, 1001)
    colours = np.array([HueMap.WRAPPED.rgb(angle, 1.0) for angle in angles])
    assert HueMap.WRAPPED.stays_in_gamut
    assert colours.min() >= 0
    assert colours.max() <= 1
    assert np.abs(np.diff(colours, axis=0)).sum(axis=1).min() > 1e-3
    assert len(np.unique(colours.round(6), axis=0)) == len(angles)


def test_the_maps_agree_where_the_angle_is_positive():
    for angle in np.linspace(0, math.pi / 2, 50):
        assert HueMap.PUBLISHED.rgb(angle, 0.8) == pytest.approx(HueMap.WRAPPED.rgb(angle, 0.8))
    assert not HueMap.PUBLISHED.stays_in_gamut


def test_published_map_shows_one_red_for_many_negative_hues_once_negative_channels_are_black():
    raw = [-0.47, -0.26, -0.14]
    shown = {tuple(np.clip(HueMap.PUBLISHED.rgb(z * math.pi / 2, 1.0), 0, None)) for z in raw}
    assert shown == {(1.0, 0.0, 0.0)}


@pytest.mark.parametrize(
    ("angle", "saturation", "value"), [(math.nan, 1, 1), (math.inf, 1, 1), (0, 1.1, 1), (0, -0.1, 1), (0, 1, 2)]
)
def test_what_is_no_angle_or_no_saturation_is_refused(angle, saturation, value):
    with pytest.raises(ValueError, match=r"finite angle|lie in \[0, 1\]"):
        HueMap.WRAPPED.rgb(angle, saturation, value)


def test_every_number_of_a_colour_and_of_an_orbit_may_be_bound():
    values = {"tint": math.pi / 3, "strength": 0.25, "light": 0.5, "far": 2.0, "up": 7.0}
    colour = HSVColour("tint", "strength", "light")
    assert colour.rgb(values, HueMap.WRAPPED) == pytest.approx(colorsys.hsv_to_rgb(1 / 6, 0.25, 0.5))
    assert Orbit("tint", "far", "up").point(values) == pytest.approx((math.sqrt(3), 1, 7))


def test_scale_and_power_may_be_bound():
    values = {"size": 3.0, "watts": 40.0}
    slab = ObjectTemplate("slab", "plane", "size", HSVColour(0.0, 0.0))
    assert slab.resolve(values, HueMap.WRAPPED).scale == 3
    lamp = LightTemplate("lamp", AreaLamp(1.0), "watts", (0.0, 0.0, 5.0), "slab")
    assert lamp.resolve(values, HueMap.WRAPPED, {"slab": (0.0, 1.0, 0.0)}).power == 40
    assert lamp.resolve(values, HueMap.WRAPPED, {"slab": (0.0, 1.0, 0.0)}).target == (0, 1, 0)


def test_constants_out_of_their_range_are_all_named():
    with pytest.raises(ValueError, match=r"saturation is a number in \[0, 1\], not 1\.2, value is .* not -1"):
        HSVColour("tint", 1.2, -1.0)
    with pytest.raises(ValueError, match="object slab: scale is a positive number, not 0"):
        ObjectTemplate("slab", "plane", 0.0, HSVColour(0.0, 0.0))
    with pytest.raises(ValueError, match=r"object slab: rotation\.y is a finite number, not nan"):
        ObjectTemplate("slab", "plane", 1.0, HSVColour(0.0, 0.0), rotation=(0.0, math.nan, 0.0))
    with pytest.raises(ValueError, match=r"light lamp: power is a positive number, not -1.*, target\.z is"):
        LightTemplate("lamp", AreaLamp(1.0), -1.0, Orbit("turn", 1.0, 1.0), (0.0, 0.0, math.inf))
    with pytest.raises(ValueError, match="a sampling weight is 1 or larger, not 0"):
        LightTemplate("lamp", SpotLamp(0.1, 1.0, 0.0), 1.0, (0.0, 0.0, 1.0), "slab", sampling_weight=0)


def test_an_unknown_shape_is_refused():
    with pytest.raises(ValueError, match="unknown shape 'cow'; choose from utah_teapot, plane"):
        ObjectTemplate("object", "cow", 1.0, HSVColour(0.0, 1.0))
