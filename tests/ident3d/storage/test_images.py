"""Single images: what is encoded comes back, in every decoder."""

import io
import zlib

import numpy as np
import pytest
from PIL import Image

import ident3d
from ident3d.errors import DatasetError
from ident3d.storage.images import check_integrity, decode, encode_png, stack


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def file(image, kind, **options):
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (5, 3), (64, 64), (224, 224)])
def test_every_image_comes_back_from_pillow_and_from_decode(shape):
    pixels = noise(*shape)
    encoded = encode_png(pixels)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(encoded))), pixels)
    np.testing.assert_array_equal(decode(encoded, "here"), pixels)
    check_integrity(encoded, "here")


def test_an_image_need_not_lie_in_one_piece():
    pixels = noise(16, 16)[::2, ::-1]
    np.testing.assert_array_equal(decode(encode_png(pixels), "here"), pixels)


def test_the_same_pixels_give_the_same_bytes():
    assert encode_png(noise(8, 8)) == encode_png(noise(8, 8).copy()) != encode_png(noise(8, 8, seed=1))


def test_rendered_images_are_about_as_large_as_with_chosen_filters():
    data = ident3d.ThreeDIdent("sample", split="test")
    images = [np.asarray(data[row][0]) for row in range(32)]
    theirs = sum(len(file(Image.fromarray(image), "PNG", compress_level=6)) for image in images)
    assert sum(map(len, map(encode_png, images))) < 1.1 * theirs


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1"])
def test_other_colours_become_rgb(mode):
    image = Image.fromarray(noise(6, 5)).convert(mode)
    np.testing.assert_array_equal(decode(file(image, "PNG"), "here"), np.asarray(image.convert("RGB")))


def test_a_transparent_colour_is_a_colour():
    pixels = noise(6, 5)
    marked = file(Image.fromarray(pixels), "PNG", transparency=tuple(int(value) for value in pixels[0, 0]))
    np.testing.assert_array_equal(decode(marked, "here"), pixels)


@pytest.mark.parametrize("kind", ["WEBP", "JPEG"])
def test_other_formats(kind):
    encoded = file(Image.fromarray(noise(8, 8)), kind)
    np.testing.assert_array_equal(decode(encoded, "here"), np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB")))


@pytest.mark.parametrize("kept", [0, 4, 20, 26, 60, 200])
def test_a_truncated_image(kept):
    with pytest.raises(DatasetError, match=r"here is not a readable image \(.+\); fetch or render it again"):
        decode(encode_png(noise(16, 16))[:kept], "here")


def test_changed_bytes_do_not_pass_the_check():
    encoded = bytearray(encode_png(noise(16, 16)))
    encoded[100] ^= 1
    with pytest.raises(DatasetError, match="here is not a readable image"):
        check_integrity(bytes(encoded), "here")


def test_a_size_that_no_image_has():
    header = (200_000).to_bytes(4, "big") * 2 + b"\x08\x02\x00\x00\x00"
    bomb = encode_png(noise(2, 2))
    checksum = zlib.crc32(b"IHDR" + header).to_bytes(4, "big")
    with pytest.raises(DatasetError, match="here is not a readable image"):
        decode(bomb[:16] + header + checksum + bomb[33:], "here")


def test_images_of_different_sizes_do_not_stack():
    with pytest.raises(DatasetError, match=r"here: images of different sizes, \[\(2, 2, 3\), \(3, 3, 3\)\]"):
        stack([noise(2, 2), noise(3, 3)], "here")
    assert stack([noise(2, 2), noise(2, 2)], "here").shape == (2, 2, 2, 3)


def test_grey_of_16_bits_is_rounded_not_cut_off():
    grey = np.array([[0, 127, 128, 257], [32_768, 65_535, 65_407, 65_406]], np.uint16)
    file = io.BytesIO()
    Image.fromarray(grey).save(file, "PNG")
    expected = np.round(grey / 257).astype(np.uint8)
    np.testing.assert_array_equal(decode(file.getvalue(), "x"), np.stack([expected] * 3, axis=-1))
