"""Images side by side in one: mosaics, contact sheets and traversals."""

import numpy as np
import pytest

from ident3d.randomness import integer_seed
from ident3d.scene.world import World
from ident3d.storage.images import decode
from ident3d.storage.native import NativeSplit
from render.figures import contact_sheet, mosaic, traversal_latents, traversal_of
from tests.render.fake_renderer import RESOLUTION, FakeRenderer, Shifted, render_plan_into, small_plan


def test_images_stand_in_their_places():
    images = np.arange(6, dtype=np.uint8).reshape(2, 3, 1, 1, 1) * np.ones((4, 5, 3), np.uint8)
    canvas = np.asarray(mosaic(images))
    assert canvas.shape == (2 * 4 + 2, 3 * 5 + 2 * 2, 3)
    for row in range(2):
        for column in range(3):
            found = canvas[row * 6 : row * 6 + 4, column * 7 : column * 7 + 5]
            np.testing.assert_array_equal(found, images[row, column])
    assert (canvas[4:6] == 255).all()


def test_names_take_room_outside_the_images():
    images = np.zeros((2, 3, 20, 60, 3), np.uint8)
    plain, named = mosaic(images), mosaic(images, ["x", "long name", "y"], ["-1.00", "+1.00"])
    left, top = named.width - plain.width, named.height - plain.height
    assert left > 0
    assert top > 0
    canvas = np.asarray(named)
    np.testing.assert_array_equal(canvas[top:, left:], np.asarray(plain))
    assert (canvas[:top, left:] < 128).any()  # something is written
    assert (canvas[top:, :left] < 128).any()


def test_a_long_name_is_broken_into_lines():
    narrow = np.zeros((1, 1, 10, 40, 3), np.uint8)
    one, two = mosaic(narrow, ["angle"]), mosaic(narrow, ["spotlight angle"])
    assert two.height > one.height


@pytest.fixture
def root(tmp_path):
    return render_plan_into(tmp_path, small_plan())


def test_images_are_evenly_spaced_over_the_split(root):
    sheet = np.asarray(contact_sheet(root, "test", 4))
    stored = NativeSplit(root, "test")
    step = RESOLUTION + 2
    left = sheet.shape[1] - 2 * step + 2
    for place, row in enumerate([0, 3, 6, 9]):
        y, x = (place // 2) * step, left + (place % 2) * step
        np.testing.assert_array_equal(sheet[y : y + RESOLUTION, x : x + RESOLUTION], stored.pixels(row))


def test_a_positive_stands_beside_its_anchor(tmp_path):
    root = render_plan_into(tmp_path, small_plan(conditional=Shifted()))
    sheet = np.asarray(contact_sheet(root, "train", 1))
    stored = NativeSplit(root, "train")
    both = np.concatenate([stored.pixels(0), stored.positives.pixels(0)], axis=1)
    np.testing.assert_array_equal(sheet[:, -2 * RESOLUTION :], both)


def test_a_sheet_holds_no_more_than_there_is(root):
    assert contact_sheet(root, "test", 1000).size == contact_sheet(root, "test", 10).size


def test_bad_requests_are_refused(root):
    with pytest.raises(ValueError, match="number of images is 1 or larger, not 0"):
        contact_sheet(root, "train", 0)
    with pytest.raises(ValueError, match="no split 'validation'"):
        contact_sheet(root, "validation", 4)


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
    with pytest.raises(ValueError, match="steps of a traversal is 2 or larger, not 1"):
        traversal_latents(np.zeros(10, np.float32), 1)


def test_the_image_has_a_column_a_factor_and_a_row_a_step():
    renderer = FakeRenderer()
    image = traversal_of(World(), traversal_latents(np.zeros(10, np.float32), 3), renderer)
    assert sorted(renderer.rendered) == list(np.ndindex(3, 10))
    assert image.width > 10 * RESOLUTION
    assert image.height > 3 * RESOLUTION
    bottom = np.asarray(image)[-RESOLUTION:, -RESOLUTION:]
    last = np.zeros(10)
    last[9] = 1
    png = FakeRenderer().image(World().scene(last), integer_seed(0, "traversal", 29))
    np.testing.assert_array_equal(bottom, decode(png, "expected"))
