import json
import math
from dataclasses import replace

import pytest

from ident3d.scene.scene import AreaLamp, Camera, Light, Material, Scene, SceneObject, SpotLamp, SunLamp

SLAB = SceneObject("slab", "plane", 2.0, (0, 0, 1), (0, 0, 0.5), (1, 0.5, 0), Material())
SPOT = SpotLamp(radius=0.1, cone_rad=1.0, blend=0.0)
LAMP = Light("lamp", SPOT, 10.0, (0, 0, 5), (0, 0, 1), sampling_weight=2)


def test_plain_data_hold_a_scene():
    scene = Scene(Camera(), (SLAB,), (LAMP,))
    assert Scene.from_json(json.loads(json.dumps(scene.to_json()))) == scene
    with pytest.raises(ValueError, match=r"scene\.bodies is missing: expected a list"):
        Scene.from_json({"camera": {}})


def test_colours_outside_the_gamut_are_only_let_through_where_the_scene_says_so():
    red = replace(SLAB, colour=(1.5, -0.3, 0))
    with pytest.raises(ValueError, match=r"colour of slab is outside \[0, 1\]"):
        Scene(Camera(), (red,), ())
    assert Scene(Camera(), (red,), (), gamut_checked=False).objects == (red,)


def test_names_are_unique():
    with pytest.raises(ValueError, match="names of objects and lights are unique"):
        Scene(Camera(), (SLAB,), (replace(LAMP, name="slab"),))


@pytest.mark.parametrize(
    ("thing", "changes", "message"),
    [
        (SPOT, {"cone_rad": 4.0}, "a spot has a cone"),
        (SPOT, {"cone_rad": 0.0}, "a spot has a cone"),
        (SPOT, {"blend": 1.5}, "a spot has a cone"),
        (SPOT, {"radius": -1.0}, "radius: expected a size of 0 or larger"),
        (SunLamp(0.1), {"diameter_rad": -1.0}, "diameter_rad: expected a size of 0 or larger"),
        (AreaLamp(0.1), {"edge": math.nan}, "edge: expected a size of 0 or larger"),
        (LAMP, {"target": LAMP.location}, "own location"),
        (LAMP, {"power": 0.0}, "power: expected a positive number"),
        (LAMP, {"sampling_weight": 0}, "sampling_weight: expected a positive number"),
        (SLAB, {"location": (0, 0, math.inf)}, "three finite numbers"),
        (SLAB, {"scale": math.nan}, "scale: expected a positive number"),
        (Camera(), {"location": (0, 0, 9)}, "no direction is up"),
        (Camera(), {"clip_end": 0.05}, "clip_start below clip_end"),
        (Camera(), {"lens_mm": -35.0}, "lens_mm: expected a positive number"),
        (Material(), {"ior": 0.0}, "ior: expected a positive number"),
        (Material(), {"coat": 1.5}, r"coat in \[0, 1\]"),
    ],
)
def test_impossible_things_are_refused(thing, changes, message):
    with pytest.raises(ValueError, match=message):
        replace(thing, **changes)


def test_every_light_has_the_same_fields_in_json():
    lights = Scene(Camera(), (), (LAMP, Light("sun", SunLamp(0.2), 1.0, (0, 0, 5), (0, 0, 1)))).to_json()["lights"]
    assert lights[0] == {
        "name": "lamp",
        "kind": "spot",
        "power": 10.0,
        "size": 0.1,
        "location": [0, 0, 5],
        "target": [0, 0, 1],
        "colour": [1.0, 1.0, 1.0],
        "cone": 1.0,
        "blend": 0.0,
        "draws": 2,
    }
    assert list(lights[0]) == list(lights[1])
    assert (lights[1]["kind"], lights[1]["cone"], lights[1]["blend"]) == ("sun", None, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "sun"}, "a spot has a cone and a blend and no other light has"),
        ({"cone": None}, "a spot has a cone and a blend"),
        ({"kind": "laser"}, "unknown kind of light 'laser'; choose from sun, area, spot"),
    ],
)
def test_the_json_of_an_impossible_light_is_refused(changes, message):
    data = Scene(Camera(), (), (LAMP,)).to_json()
    data["lights"][0] |= changes
    with pytest.raises(ValueError, match=message):
        Scene.from_json(data)
