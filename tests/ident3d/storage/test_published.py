"""The layout of the published archives."""

import json
import math
import shutil

import numpy as np
import pytest
from PIL import Image

from ident3d.errors import DatasetError
from ident3d.storage.published import PublishedSplit, image_name, published_splits


@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 99, 100, 101, 1000, 25_000, 250_000])
def test_names_are_padded_to_the_digits_of_the_published_archives(count):
    digits = max(1, math.ceil(math.log10(count)))
    assert image_name(0, count) == "0" * digits + ".png"
    assert image_name(count - 1, count) == str(count - 1).rjust(digits, "0") + ".png"


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("digits", [None, 6])
def test_images_belong_to_latents_by_their_number(tmp_path, make_published, nested, digits):
    made = make_published(tmp_path / "data", {"train": 101, "test": 9}, digits=digits, nested=nested)
    assert published_splits(made.root) == ["train", "test"]
    split = PublishedSplit(made.root, "train")
    for row in (0, 1, 9, 10, 99, 100):
        np.testing.assert_array_equal(split.pixels(row), made.pixels["train"][row])
    assert split.latents.dtype == np.float32
    np.testing.assert_array_equal(split.latents, made.latents["train"])


def test_a_split_may_have_any_name_but_a_hidden_one(published):
    shutil.copytree(published.root / "test", published.root / "validation")
    shutil.copytree(published.root / "test", published.root / ".test.unpacking")
    assert published_splits(published.root) == ["validation", "train", "test"]
    assert len(PublishedSplit(published.root, "validation").ids) == 9


def test_other_files_among_the_images_are_no_images(published):
    (published.root / "train" / "images" / "Thumbs.db").write_bytes(b"")
    (published.root / "train" / "images" / "._00.png").write_bytes(b"what macOS puts into archives")
    assert len(PublishedSplit(published.root, "train").ids) == 70


def test_counts_that_disagree(published):
    (published.root / "train" / "images" / "17.png").unlink()
    with pytest.raises(DatasetError, match=r"69 images in .* but 70 rows of latents"):
        PublishedSplit(published.root, "train")


def test_an_image_under_a_wrong_name(published):
    images = published.root / "train" / "images"
    (images / "17.png").rename(images / "70.png")
    with pytest.raises(DatasetError, match=r"17\.png is missing, though there are 70 images"):
        PublishedSplit(published.root, "train")


def test_names_without_padding(tmp_path, make_published):
    made = make_published(tmp_path / "data", {"train": 101}, digits=1)
    np.testing.assert_array_equal(PublishedSplit(made.root, "train").pixels(7), made.pixels["train"][7])


def test_names_of_which_only_some_are_padded(published):
    images = published.root / "train" / "images"
    (images / "03.png").rename(images / "3.png")
    with pytest.raises(DatasetError, match="all with the same number of digits"):
        PublishedSplit(published.root, "train")


def test_an_image_that_vanishes_later(published):
    split = PublishedSplit(published.root, "train")
    (published.root / "train" / "images" / "17.png").unlink()
    with pytest.raises(DatasetError, match=r"17\.png is missing; fetch the archive again"):
        split.pixels(17)


@pytest.mark.parametrize("kept", [0, 8, 60, -60])
def test_a_truncated_image(published, kept):
    path = published.root / "train" / "images" / "17.png"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DatasetError, match=r"17\.png is not a readable image"):
        PublishedSplit(published.root, "train").pixels(17)


def test_grey_and_transparent_images_are_read_as_rgb(published):
    grey = np.arange(64, dtype=np.uint8).reshape(8, 8)
    Image.fromarray(grey).save(published.root / "train" / "images" / "00.png")
    Image.fromarray(np.dstack([published.pixels["train"][1], grey])).save(
        published.root / "train" / "images" / "01.png"
    )
    split = PublishedSplit(published.root, "train")
    np.testing.assert_array_equal(split.pixels(0), np.dstack([grey] * 3))
    np.testing.assert_array_equal(split.pixels(1), published.pixels["train"][1])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1.001])
def test_latents_that_no_image_can_have(published, value):
    path = published.root / "train" / "raw_latents.npy"
    latents = np.load(path)
    latents[3, 9] = value
    np.save(path, latents)
    with pytest.raises(DatasetError, match=rf"raw_latents\.npy: .*row 3, ground_hue is {value}"):
        PublishedSplit(published.root, "train")


@pytest.mark.parametrize(
    "array",
    [np.zeros((70, 9)), np.zeros(70), np.zeros((70, 10), dtype=complex), np.full((70, 10), "a"), np.float64(0)],
    ids=["nine columns", "one axis", "complex", "text", "no axis"],
)
def test_latents_of_another_shape_or_type(published, array):
    np.save(published.root / "train" / "raw_latents.npy", array)
    with pytest.raises(DatasetError, match=r"expected numeric latents of shape \(N, 10\)"):
        PublishedSplit(published.root, "train")


@pytest.mark.parametrize("data", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_latents_that_are_no_array(published, data):
    (published.root / "train" / "raw_latents.npy").write_bytes(data)
    with pytest.raises(DatasetError, match=r"raw_latents\.npy cannot be read as an array"):
        PublishedSplit(published.root, "train")


def test_latents_that_would_run_code_are_not_unpickled(published):
    np.save(published.root / "train" / "raw_latents.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DatasetError, match="Python objects"):
        PublishedSplit(published.root, "train")


def test_no_latents_at_all(published):
    np.save(published.root / "train" / "raw_latents.npy", np.zeros((0, 10)))
    with pytest.raises(DatasetError, match="holds no latents"):
        PublishedSplit(published.root, "train")


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f8"])
def test_latents_of_any_float_type_and_order(published, dtype):
    path = published.root / "train" / "raw_latents.npy"
    np.save(path, np.asfortranarray(published.latents["train"].astype(dtype)))
    split = PublishedSplit(published.root, "train")
    assert split.latents.flags.c_contiguous
    np.testing.assert_array_equal(split.latents, published.latents["train"])


def test_a_manifest_that_says_otherwise(native, tmp_path):
    from ident3d.storage.conversion import convert

    root = convert(native.root, tmp_path / "out", "published")
    data = json.loads((root / "manifest.json").read_text())
    (root / "manifest.json").write_text(json.dumps(data | {"splits": {"train": 71}}))
    with pytest.raises(DatasetError, match=r"holds 70 rows, but .*manifest\.json says 71"):
        PublishedSplit(root, "train")
    with pytest.raises(DatasetError, match="says no such split"):
        PublishedSplit(root, "test")


def test_a_split_that_is_not_there(published):
    with pytest.raises(FileNotFoundError, match="holds no split 'val' in the published layout"):
        PublishedSplit(published.root, "val")
