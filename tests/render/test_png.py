"""PNG files without what changes from run to run."""

import io

import numpy as np
import pytest
from PIL import Image

from ident3d.scene.world import World
from render.blender.errors import RenderError
from render.blender.png import pixels_only
from tests.render.fake_renderer import FakeRenderer


@pytest.fixture
def png():
    return FakeRenderer().image(World().scene(np.zeros(10)), 0)


def test_the_pixels_stay_and_the_rest_goes(png):
    stripped = pixels_only(png)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(stripped))), np.asarray(Image.open(io.BytesIO(png))))
    assert b"Date" in png
    assert b"Date" not in stripped
    assert pixels_only(stripped) == stripped


def test_the_same_pixels_give_the_same_bytes(png):
    renderer = FakeRenderer()
    renderer.rendered = [1, 2, 3]
    other = renderer.image(World().scene(np.zeros(10)), 0)
    assert other != png
    assert pixels_only(other) == pixels_only(png)


def test_a_damaged_image_is_refused(png):
    for damaged in (b"", png[:30], png[:-1], png[:50] + bytes([png[50] ^ 1]) + png[51:]):
        with pytest.raises(RenderError, match=r"no PNG|damaged at byte"):
            pixels_only(damaged)
