"""Images side by side in one."""

import numpy as np

from render.figures import mosaic


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
