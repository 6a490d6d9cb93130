"""What each factor does to the image."""

import numpy as np
import pytest

from ident3d.randomness import integer_seed
from ident3d.scene.world import World
from ident3d.storage.images import decode
from render.figures import traversal, traversal_latents
from tests.render.fake_renderer import RESOLUTION, FakeRenderer


def test_one_factor_at_a_time_goes_through_its_range():
    base = np.linspace(-0.5, 0.4, 10, dtype=np.float32)
    latents = traversal_latents(base, 5)
    assert latents.shape == (5, 10, 10)
    for step in range(5):
        for factor in range(10):
            expected = base.copy()
            expected[factor] = -1 + step / 2
            np.testing.assert_array_equal(latents[step, factor], expected)


def test_a_traversal_of_one_step_is_refused():
    with pytest.raises(ValueError, match="2 or more steps, not 1"):
        traversal_latents(np.zeros(10, np.float32), 1)


def test_the_image_has_a_column_a_factor_and_a_row_a_step():
    renderer = FakeRenderer()
    image = traversal(World(), np.zeros(10, np.float32), 3, renderer)
    assert sorted(renderer.rendered) == list(np.ndindex(3, 10))
    assert image.width > 10 * RESOLUTION
    assert image.height > 3 * RESOLUTION
    bottom = np.asarray(image)[-RESOLUTION:, -RESOLUTION:]
    last = np.zeros(10)
    last[9] = 1
    png = FakeRenderer().image(World().scene(last), integer_seed(0, "traversal", 29))
    np.testing.assert_array_equal(bottom, decode(png, "expected"))
