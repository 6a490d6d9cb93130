"""The decoded cache: what can be wrong with its files."""

import json

import numpy as np
import pytest

from ident3d.errors import DatasetError
from ident3d.storage.conversion import convert
from ident3d.storage.decoded import DecodedSplit, decoded_splits
from ident3d.storage.images import decode


@pytest.fixture
def cache(native, tmp_path):
    """The folder of a cache that no shards lie beside."""
    return convert(native.root, tmp_path / "out", "decoded") / "decoded"


def test_arrays_are_mapped_and_latents_can_be_written_to_without_changing_the_file(cache):
    split = DecodedSplit(cache.parent, "train")
    assert decoded_splits(cache.parent) == ["train", "test"]
    assert not split.pixels(0).flags.writeable
    before = (cache / "train-latents.npy").read_bytes()
    split.latents[:] = 0
    assert (cache / "train-latents.npy").read_bytes() == before


def test_images_are_plain_arrays_in_the_order_of_numpy(cache, native):
    pixels = np.load(cache / "train-pixels.npy")
    np.testing.assert_array_equal(pixels, native.pixels["train"])
    assert pixels.dtype == np.uint8


def test_images_are_encoded_when_somebody_asks(cache, native):
    encoded = DecodedSplit(cache.parent, "train").encoded(12)
    np.testing.assert_array_equal(decode(encoded, "row 12"), native.pixels["train"][12])


@pytest.mark.parametrize("array", ["pixels", "latents", "ids"])
@pytest.mark.parametrize("kept", [0, 50, -1])
def test_a_truncated_array(cache, array, kept):
    path = cache / f"train-{array}.npy"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DatasetError, match=rf"train-{array}\.npy cannot be read .*convert the dataset again"):
        DecodedSplit(cache.parent, "train")


def test_an_array_that_is_missing(cache):
    (cache / "train-latents.npy").unlink()
    with pytest.raises(DatasetError, match=r"train-latents\.npy cannot be read"):
        DecodedSplit(cache.parent, "train")


def test_arrays_of_different_lengths(cache):
    np.save(cache / "train-latents.npy", np.zeros((69, 10), np.float32))
    with pytest.raises(DatasetError, match="70 images, 69 rows of latents and 70 ids"):
        DecodedSplit(cache.parent, "train")


def test_counts_that_the_record_does_not_know(cache):
    path = cache / "cache.json"
    data = json.loads(path.read_text())
    del data["sha256"]
    path.write_text(json.dumps(data).replace('"train": 70', '"train": 71'))
    with pytest.raises(DatasetError, match=r"70 rows, but cache\.json says 71"):
        DecodedSplit(cache.parent, "train")


def test_images_of_another_type(cache):
    np.save(cache / "train-pixels.npy", np.zeros((70, 8, 8, 3)))
    with pytest.raises(DatasetError, match=r"expected \(N, H, W, 3\) uint8, not \(70, 8, 8, 3\) float64"):
        DecodedSplit(cache.parent, "train")


def test_latents_of_another_width(cache):
    np.save(cache / "train-latents.npy", np.zeros((70, 9), np.float32))
    with pytest.raises(DatasetError, match=r"latents of shape \(70, 9\) for 10 factors"):
        DecodedSplit(cache.parent, "train")


def test_latents_that_are_not_finite(cache):
    latents = np.load(cache / "train-latents.npy")
    latents[4, 2] = np.nan
    np.save(cache / "train-latents.npy", latents)
    with pytest.raises(DatasetError, match=r"row 4, position_z is nan .*convert the dataset again"):
        DecodedSplit(cache.parent, "train")


@pytest.mark.parametrize("change", [{"schema_version": 2}, {"manifest": {}}, {"signatures": None, "manifest": None}])
def test_a_record_of_another_kind(cache, change):
    path = cache / "cache.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DatasetError, match=r"cache\.json"):
        DecodedSplit(cache.parent, "train")


def test_a_cache_without_a_record(cache):
    (cache / "cache.json").unlink()
    with pytest.raises(DatasetError, match=r"cache\.json cannot be read .*convert the dataset again"):
        DecodedSplit(cache.parent, "train")
