import json
import math
from dataclasses import replace

import pytest

from ident3d.scene.scene import Body, Camera, Light, LightKind, Material, Scene

BODY = Body("slab", "plane", 2.0, (0, 0, 1), (0, 0, 0.5), (1, 0.5, 0), Material())
LAMP = Light("lamp", LightKind.SPOT, 10.0, 0.1, (0, 0, 5), (0, 0, 1), cone=1.0, blend=0.0, draws=2)


def test_plain_data_hold_a_scene():
    scene = Scene(Camera(), (BODY,), (LAMP,))
    assert Scene.from_json(json.loads(json.dumps(scene.to_json()))) == scene
    with pytest.raises(ValueError, match=r"scene\.bodies is missing: expected a list"):
        Scene.from_json({"camera": {}})


def test_colours_outside_the_gamut_are_only_let_through_where_the_scene_says_so():
    red = replace(BODY, colour=(1.5, -0.3, 0))
    with pytest.raises(ValueError, match=r"colour of slab is outside \[0, 1\]"):
        Scene(Camera(), (red,), ())
    assert Scene(Camera(), (red,), (), gamut_checked=False).bodies == (red,)


def test_names_are_unique():
    with pytest.raises(ValueError, match="names of bodies and lights are unique"):
        Scene(Camera(), (BODY,), (replace(LAMP, name="slab"),))


@pytest.mark.parametrize(
    ("thing", "changes", "message"),
    [
        (LAMP, {"kind": LightKind.SUN}, "only a spot has a cone"),
        (LAMP, {"cone": None}, "a spot has a cone"),
        (LAMP, {"cone": 4.0}, "a spot has a cone"),
        (LAMP, {"target": LAMP.location}, "own location"),
        (LAMP, {"power": 0.0}, "power: expected a positive number"),
        (LAMP, {"size": -1.0}, "size of 0 or larger"),
        (LAMP, {"draws": 0}, "draws: expected a positive number"),
        (BODY, {"location": (0, 0, math.inf)}, "three finite numbers"),
        (BODY, {"scale": math.nan}, "scale: expected a positive number"),
        (Camera(), {"location": (0, 0, 9)}, "no direction is up"),
        (Camera(), {"lens_mm": -35.0}, "lens_mm: expected a positive number"),
        (Material(), {"ior": 0.0}, "ior: expected a positive number"),
        (Material(), {"coat": 1.5}, r"coat in \[0, 1\]"),
    ],
)
def test_impossible_things_are_refused(thing, changes, message):
    with pytest.raises(ValueError, match=message):
        replace(thing, **changes)
