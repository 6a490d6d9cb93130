"""The decoded cache: what can be wrong with its files."""

import json
import logging
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from ident3d.errors import DatasetError
from ident3d.storage.conversion import convert
from ident3d.storage.decoded import CacheRecord, DecodedSplit, decoded_splits
from ident3d.storage.images import decode, encode_png
from ident3d.storage.layouts import open_split
from ident3d.storage.verification import verify


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


class TestAnImageReplacedByOneOfEqualSize:
    """Names and sizes are as before: the time of the file tells that it may be another, and its checksum that it is."""

    @pytest.fixture
    def root(self, published):
        for path in published.root.glob("*/images/*.png"):
            path.write_bytes(_padded(path.read_bytes()))
        convert(published.root, published.root, "decoded")
        return published.root

    def replace(self, root):
        path = root / "train" / "images" / "33.png"
        path.write_bytes(_padded(encode_png(np.zeros((8, 8, 3), np.uint8))))
        later(path)

    def test_is_noticed_by_the_dataset(self, root):
        self.replace(root)
        with pytest.raises(DatasetError, match="was not made from the images beside it"):
            open_split(root, "train")
        assert open_split(root, "test").layout == "decoded"

    def test_is_noticed_by_convert_and_decoded_again(self, root):
        self.replace(root)
        convert(root, root, "decoded")
        assert not open_split(root, "train").pixels(33).any()

    def test_is_noticed_by_verify(self, root):
        assert not [fault for fault in verify(root).faults if "decoded" in fault]
        self.replace(root)
        assert any("decoded cache of the split 'train'" in fault for fault in verify(root).faults)

    def test_is_found_by_convert_in_a_copy_whose_files_are_all_new(self, root, monkeypatch):
        monkeypatch.setattr("ident3d.storage.decoded._MOST_FILES", 2)
        self.replace(root)
        for path in root.glob("*/images/*.png"):
            later(path)
        convert(root, root, "decoded")
        assert not open_split(root, "train").pixels(33).any()


def _padded(png, size=1000):
    """Return a PNG with what follows its end, so that all are of one size."""
    return png + bytes(size - len(png))


def later(path):
    time = path.stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(time, time))


@pytest.mark.parametrize("layout", ["native", "published"])
def test_a_copy_with_new_times_is_the_same_dataset(request, layout, tmp_path, caplog):
    made = request.getfixturevalue(layout)
    convert(made.root, made.root, "decoded")
    copy = shutil.copytree(made.root, tmp_path / "copy", copy_function=shutil.copyfile)
    for path in copy.rglob("*"):
        if path.is_file():
            later(path)
    assert open_split(copy, "train").layout == "decoded"
    with caplog.at_level(logging.INFO):
        convert(copy, copy, "decoded")
    assert "is up to date" in caplog.text
    np.testing.assert_array_equal(open_split(copy, "train").batch(np.arange(70)), made.pixels["train"])


def test_a_cache_of_an_earlier_version_has_no_times(published):
    convert(published.root, published.root, "decoded")
    folder = published.root / "decoded"
    record = CacheRecord.read(folder)
    kept = {name: sha256 for name, sha256 in record.checksums.items() if "sources" not in name}
    replace(record, checksums=kept).write(folder)
    for split in ("train", "test"):
        (folder / f"{split}-sources.npy").unlink()
    assert open_split(published.root, "train").layout == "decoded"


def test_what_a_cache_remembers_of_its_sources_may_be_damaged(published):
    convert(published.root, published.root, "decoded")
    path = published.root / "decoded" / "train-sources.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(
        DatasetError, match=r"train-sources\.npy does not tell of the 70 files of .*; convert the datas"
    ):
        open_split(published.root, "train")
