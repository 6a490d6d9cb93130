import json
import math
from dataclasses import replace

import numpy as np
import pytest

from ident3d.factors import FACTORS, Factor, Factors
from ident3d.scene.scene import LightKind, Scene
from ident3d.scene.world import BodyLaw, HueMap, LightLaw, Orbit, Paint, World

S = 4.4421  # the teapot's largest dimension


def _row(**latents):
    row = np.zeros(10, np.float32)
    for name, value in latents.items():
        row[FACTORS.column(name)] = value
    return row


def _named(scene):
    return {thing.name: thing for thing in (*scene.bodies, *scene.lights)}


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
    assert spot.cone == pytest.approx(math.radians(35))


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
        bodies=(BodyLaw("slab", "plane", 2.0, Paint(0.0, 0.5), rotation=("tilt", 0.0, 0.0)),),
        lights=(LightLaw("lamp", LightKind.AREA, 10.0, 1.0, (0.0, 1.0, 5.0), "slab", Paint("tint", 1.0)),),
    )
    scene = world.scene([0.5, -1.0])
    assert scene.bodies[0].rotation == pytest.approx((0.2, 0, 0))
    assert scene.lights[0].location == (0, 1, 5)
    assert scene.lights[0].colour == (1, 0, 0)
    assert World.from_json(json.loads(json.dumps(world.to_json()))) == world


def test_a_factor_without_effect_and_an_effect_without_a_factor_are_refused():
    with pytest.raises(ValueError, match=r"names factors that there are not: \['rotation_z'\]"):
        World(factors=Factors(tuple(factor for factor in FACTORS if factor.name != "rotation_z")))
    with pytest.raises(ValueError, match=r"leaves out: \['size'\]"):
        World(factors=Factors((*FACTORS, Factor("size", "size", 1, 2, "bu"))))


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


def test_wrong_laws_are_refused():
    with pytest.raises(ValueError, match="no shape 'cow'"):
        BodyLaw("object", "cow", 1.0, Paint(0.0, 1.0))
    with pytest.raises(ValueError, match="saturation and value"):
        Paint(0.0, 1.2)
    with pytest.raises(ValueError, match="a spot has a cone"):
        LightLaw("lamp", LightKind.SPOT, 1.0, 0.1, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="aimed at 'moon'"):
        World(lights=(LightLaw("lamp", LightKind.SUN, 1.0, 0.1, Orbit(0.0, 1.0, 1.0), "moon"),))
    with pytest.raises(ValueError, match=r"world\.factors is missing"):
        World.from_json({"camera": {}})
