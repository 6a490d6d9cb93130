"""The slow ray caster beside images of Cycles."""

from pathlib import Path

import numpy as np
from PIL import Image

from ident3d.scene.world import World
from tests.ident3d.live import oracle

REFERENCE = Path(__file__).parents[2] / "render" / "data" / "reference"


def test_the_slow_ray_caster_agrees_with_cycles():
    row = np.load(REFERENCE / "raw_latents.npy")[0]
    pixels = np.random.default_rng(0).integers(40, 184, (60, 2))
    with Image.open(REFERENCE / "000.png") as image:
        expected = np.asarray(image.convert("RGB"))[pixels[:, 1], pixels[:, 0]]
    assert oracle.psnr(oracle.render(World().scene(row), 224, pixels, 64), expected) > 46


def test_stored_images_are_the_ray_casters():
    pixels = np.random.default_rng(1).integers(0, 64, (60, 2))
    with Image.open(oracle.DATA / "oracle-0.png") as image:
        stored = np.asarray(image)[pixels[:, 1], pixels[:, 0]]
    fresh = oracle.render(World().scene(oracle.latents()[0]), 64, pixels, 32)
    assert oracle.psnr(fresh, stored) > 40
