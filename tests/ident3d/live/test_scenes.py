"""The columns of many scenes beside the scenes that a world makes one by one."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from ident3d.factors import Factor, Factors
from ident3d.latents import sample_latents
from ident3d.live import kernels
from ident3d.live.scenes import Scenes, UnsupportedWorldError
from ident3d.scene.scene import AreaLamp, SpotLamp, SunLamp
from ident3d.scene.templates import HueMap
from ident3d.scene.world import World
from tests.ident3d.live.oracle import euler


def _variant():
    """Return a world with other ranges, and with the object's size and saturation as factors."""
    teapot, ground = World().objects
    colour = replace(teapot.colour, saturation="object_saturation")
    factors = (
        *(replace(factor, low=0.5 * factor.low, high=0.7 * factor.high) for factor in World().factors),
        Factor("object_saturation", "saturation", 0.2, 0.9, "1"),
        Factor("object_size", "size", 0.8, 1.6, "1"),
    )
    return World(factors=Factors(factors), objects=(replace(teapot, colour=colour, scale="object_size"), ground))


@pytest.mark.parametrize("world", [World(), World().with_hue_map(HueMap.PUBLISHED), _variant()])
def test_columns_are_the_scenes_of_the_world(world):
    latents = sample_latents(20, seed=3, factors=world.factors)
    arrays = Scenes(world).arrays(torch.from_numpy(latents))
    images, lights = arrays.images.double().numpy(), arrays.lights.double().numpy()
    for row, image, lamps in zip(latents, images, lights, strict=True):
        scene = world.scene(row)
        thing, ground = scene.objects
        turn = euler(thing.rotation)

        def place(vector, turn=turn, thing=thing):
            return turn @ vector * thing.scale + thing.location

        np.testing.assert_allclose(place(image[kernels.CAMERA]), scene.camera.location, atol=1e-5)
        np.testing.assert_allclose(turn @ image[kernels.FORWARD], [-math.sqrt(0.5), 0, -math.sqrt(0.5)], atol=1e-6)
        np.testing.assert_allclose(turn @ image[kernels.RIGHT], [0, 25 / 35, 0], atol=1e-6)
        np.testing.assert_allclose(turn @ image[kernels.GROUND_NORMAL], [0, 0, 1], atol=1e-6)
        height = image[kernels.GROUND_HEIGHT, 0] * image[kernels.GROUND_NORMAL]
        np.testing.assert_allclose(place(height)[2], ground.location[2], atol=1e-5)
        np.testing.assert_allclose(image[kernels.OBJECT_COLOUR], np.maximum(thing.colour, 0), atol=1e-6)
        np.testing.assert_allclose(image[kernels.GROUND_COLOUR], np.maximum(ground.colour, 0), atol=1e-6)
        for lamp, light in zip(lamps, scene.lights, strict=True):
            axis = np.subtract(light.target, light.location)
            np.testing.assert_allclose(place(lamp[kernels.LOCATION]), light.location, atol=1e-5)
            np.testing.assert_allclose(turn @ lamp[kernels.AXIS], axis / np.linalg.norm(axis), atol=1e-6)
            np.testing.assert_allclose(
                lamp[kernels.POWER], _strength(light, thing.scale) * np.array(light.colour), rtol=1e-5, atol=1e-5
            )


def _strength(light, scale):
    if isinstance(light.lamp, SunLamp):
        return light.power * 2 / (1 + math.cos(light.lamp.diameter_rad / 2))
    if isinstance(light.lamp, AreaLamp):
        return light.power / math.pi / scale**2
    assert isinstance(light.lamp, SpotLamp)
    return light.power / (4 * math.pi) / scale**2


def test_a_ground_whose_end_is_seen_is_refused():
    teapot, ground = World().objects
    with pytest.raises(UnsupportedWorldError, match=r"the scale of ground is 20\.0, and a constant of 400 or larger"):
        Scenes(World(objects=(teapot, replace(ground, scale=20.0))))


def test_too_many_lights_are_refused():
    spare = tuple(replace(World().lights[0], name=f"sun {number}") for number in range(13))
    with pytest.raises(UnsupportedWorldError, match="draws 1 to 15 lights; this world has 16"):
        Scenes(World(lights=(*World().lights, *spare)))
