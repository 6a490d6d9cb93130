import json
import math
from dataclasses import replace

import numpy as np
import pytest

from ident3d.factors import FACTORS, Factor, Factors
from ident3d.scene.scene import AreaLamp, Scene, SunLamp
from ident3d.scene.templates import HSVColour, HueMap, LightTemplate, ObjectTemplate, Orbit
from ident3d.scene.world import World
from ident3d.storage.layouts import resolve_root

S = 4.4421  # the teapot's largest dimension


def _row(**latents):
    row = np.zeros(10, np.float32)
    for name, value in latents.items():
        row[FACTORS.column(name)] = value
    return row


def _named(scene):
    return {thing.name: thing for thing in (*scene.objects, *scene.lights)}


def test_the_middle_of_the_box_is_the_scene_as_measured():
    things = _named(World().scene(_row()))
    assert things["object"].location == pytest.approx((0, 0, S / 2))
    assert things["object"].rotation == (0, 0, 0)
    assert things["object"].colour == (1, 0, 0)
    assert things["ground"].location == pytest.approx((0, 0, -S))
    assert things["ground"].colour == pytest.approx((1, 0.4, 0.4))
    spot = things["spotlight"]
    assert spot.location == pytest.approx((0, 4, 6 + S))
    assert spot.target == things["object"].location
    assert spot.colour == pytest.approx((1, 0.2, 0.2))
    assert spot.lamp.cone_rad == pytest.approx(math.radians(35))


def test_every_factor_moves_what_it_is_named_after():
    things = _named(
        World().scene(_row(position_x=1, position_y=-1, position_z=0.5, rotation_z=1, spotlight_angle=-1, ground_hue=1))
    )
    assert things["object"].location == pytest.approx((3, -3, 1.5 + S / 2))
    assert things["object"].rotation == pytest.approx((0, 0, math.pi / 2))
    assert things["spotlight"].location == pytest.approx((-4, 0, 6 + S))
    assert things["spotlight"].target == things["object"].location
    assert things["ground"].colour == pytest.approx((0.7, 1, 0.4))  # a quarter turn: between yellow and green


def test_the_published_map_leaves_the_gamut_and_the_wrapped_one_is_held_to_it():
    row = _row(object_hue=-0.8)
    scene = World().with_hue_map("published").scene(row)
    assert _named(scene)["object"].colour == pytest.approx((1, 0, 1.2))
    with pytest.raises(ValueError, match=r"colour of object is outside \[0, 1\]"):
        replace(scene, gamut_checked=True)
    assert _named(World().scene(row))["object"].colour == pytest.approx((0.8, 0, 1))


def test_a_scene_and_a_world_survive_json():
    for world in (World(), World(hue_map=HueMap.PUBLISHED)):
        scene = world.scene(np.linspace(-1, 1, 10))
        assert Scene.from_json(json.loads(json.dumps(scene.to_json()))) == scene
        assert World.from_json(json.loads(json.dumps(world.to_json()))) == world


def test_a_variant_is_another_instance():
    factors = Factors((Factor("tilt", "rotation", -0.1, 0.3, "rad"), Factor("tint", "hue", 0, 1, "rad")))
    world = World(
        factors=factors,
        objects=(ObjectTemplate("slab", "plane", 2.0, HSVColour(0.0, 0.5), rotation=("tilt", 0.0, 0.0)),),
        lights=(LightTemplate("lamp", AreaLamp(1.0), 10.0, (0.0, 1.0, 5.0), "slab", HSVColour("tint", 1.0)),),
    )
    scene = world.scene([0.5, -1.0])
    assert scene.objects[0].rotation == pytest.approx((0.2, 0, 0))
    assert scene.lights[0].location == (0, 1, 5)
    assert scene.lights[0].colour == (1, 0, 0)
    assert World.from_json(json.loads(json.dumps(world.to_json()))) == world


def test_a_factor_without_effect_and_an_effect_without_a_factor_are_refused():
    with pytest.raises(ValueError, match=r"object object: rotation\.z is bound to 'rotation_z', which is not a factor"):
        World(factors=Factors(tuple(factor for factor in FACTORS if factor.name != "rotation_z")))
    with pytest.raises(ValueError, match="nothing is bound to size"):
        World(factors=Factors((*FACTORS, Factor("size", "size", 1, 2, "bu"))))


def test_a_factor_whose_range_its_place_does_not_take_is_refused():
    teapot, ground = World().objects
    pale = replace(teapot, colour=HSVColour("object_hue", "saturation"))
    with pytest.raises(ValueError, match=r"object object: colour\.saturation is a number in \[0, 1\], but its factor"):
        World(Factors((*FACTORS, Factor("saturation", "hue", 0.5, 1.5, "1"))), objects=(pale, ground))
    world = World(Factors((*FACTORS, Factor("saturation", "hue", 0.5, 1.0, "1"))), objects=(pale, ground))
    assert world.scene([0] * 10 + [-1]).objects[0].colour == (1, 0.5, 0.5)
    assert World.from_json(json.loads(json.dumps(world.to_json()))) == world


@pytest.mark.parametrize(
    ("latents", "message"),
    [
        (np.zeros((2, 10)), "one row of 10 latents"),
        (np.zeros(9), "10"),
        (np.full(10, np.nan), "finite"),
        (np.full(10, 1.5), r"\[-1, 1\]"),
    ],
)
def test_rows_that_are_no_latents_are_refused(latents, message):
    with pytest.raises(ValueError, match=message):
        World().scene(latents)


def test_names_that_occur_twice_and_targets_that_are_not_there_are_refused_together():
    lamp = LightTemplate("object", SunLamp(0.1), 1.0, Orbit(0.0, 1.0, 1.0), "moon")
    with pytest.raises(ValueError, match="are not: object\nlight object is aimed at 'moon'; the objects"):
        World(lights=(lamp, *World().lights))


def test_the_worlds_of_manifests_are_read_and_written_as_they_stand():
    manifest = json.loads((resolve_root("sample") / "manifest.json").read_text())
    render = manifest["render"]
    data = {"factors": manifest["factors"], "hue_map": render["hue_map"], **render["world"]}
    assert World.from_json(data) == World()
    assert json.dumps(World().to_json()) == json.dumps(data)  # the order of the fields too


def test_everything_that_is_wrong_with_a_file_is_named_at_once(tmp_path):
    data = World().to_json()
    data["factors"][0] |= {"low": 4.0}  # above its high
    del data["camera"]["clip_end"]
    data["camera"]["zoom"] = 2
    data["bodies"][0]["shape"] = "cow"
    data["bodies"][1]["paint"] |= {"hue": "sky_hue", "saturation": 1.5}
    data["bodies"][1]["location"] = [0.0, 0.0]
    data["lights"][0]["kind"] = "laser"
    data["lights"][1]["power"] = "bright"
    data["lights"][2]["target"] = "moon"
    path = tmp_path / "world.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match="world") as refused:
        World.read(path)
    said = str(refused.value).replace(str(path), "world").splitlines()
    assert said == [
        "world.factors[0]: factor position_x: expected finite low < high, not 4.0 and 3.0",
        "world.camera.zoom: no such field; the fields are location, target, lens_mm, sensor_mm, clip_start, clip_end",
        "world.bodies[0]: unknown shape 'cow'; choose from utah_teapot, plane",
        "world.bodies[1].paint: saturation is a number in [0, 1], not 1.5",
        "world.bodies[1].location: expected a list of 3 items, got [0.0, 0.0]",
        "world.lights[0]: unknown kind of light 'laser'; choose from sun, area, spot",
        "world: light spotlight is aimed at 'moon'; the objects are object, ground",
        "world: light area: power is bound to 'bright', which is not a factor; the factors are "
        + ", ".join(FACTORS.names),
    ]


def test_what_is_no_file_of_a_world_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        World.read(tmp_path / "none.json")
    path = tmp_path / "world.json"
    for text, said in (
        ("[]", "expected an object"),
        ("{", "not strict JSON"),
        ("{}", r"world\.json\.bodies is missing"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            World.read(path)
    path.write_text(json.dumps(World().to_json()))
    assert World.read(path) == World()
