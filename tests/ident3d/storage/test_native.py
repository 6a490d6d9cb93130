"""The native layout: shards that belong together, and shards that do not."""

import copy
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ident3d.errors import DatasetError
from ident3d.factors import FACTORS
from ident3d.latents import sample_latents
from ident3d.storage.images import encode_png
from ident3d.storage.manifest import native_splits
from ident3d.storage.native import NativeSplit, ShardRows, write_shard

SECOND = "train-00001-of-00003.parquet"


def edit_manifest(root, change):
    path = root / "manifest.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def forget(name):
    def change(data):
        data["shards"] = [record for record in data["shards"] if record["name"] != name]

    return change


def test_rows_of_all_shards_in_order(native):
    split = NativeSplit(native.root, "train")
    np.testing.assert_array_equal(split.ids, np.arange(70))
    np.testing.assert_array_equal(split.latents, native.latents["train"])
    for row in (0, 31, 32, 63, 64, 69):  # the ends of the three shards
        np.testing.assert_array_equal(split.pixels(row), native.pixels["train"][row])


def test_train_stands_before_test_and_other_files_are_no_shards(native):
    (native.root / "data" / "notes.parquet").write_bytes(b"foreign")
    (native.root / "data" / ".train-00000-of-00003.parquet.0a1b.tmp").write_bytes(b"half")
    assert native_splits(native.root) == ["train", "test"]
    assert len(NativeSplit(native.root, "train").ids) == 70


def test_a_dataset_that_is_being_rendered_is_read_as_far_as_it_is_there(native):
    (native.root / "data" / SECOND).unlink()
    edit_manifest(native.root, forget(SECOND))
    split = NativeSplit(native.root, "train")
    np.testing.assert_array_equal(split.ids, [*range(32), *range(64, 70)])
    np.testing.assert_array_equal(split.pixels(32), native.pixels["train"][64])


def test_a_shard_that_the_manifest_does_not_list_yet_is_read(native):
    edit_manifest(native.root, forget(SECOND))
    assert len(NativeSplit(native.root, "train").ids) == 70


def test_a_finished_shard_that_is_missing(native):
    (native.root / "data" / SECOND).unlink()
    with pytest.raises(DatasetError, match=f"{SECOND} is missing; 2 of 3 finished shards of the split 'train'"):
        NativeSplit(native.root, "train")


def test_a_shard_with_fewer_rows_than_recorded(native):
    path = native.root / "data" / SECOND
    images = [encode_png(image) for image in native.pixels["train"][32:60]]
    write_shard(path, ShardRows(np.arange(32, 60), images, native.latents["train"][32:60]))
    with pytest.raises(DatasetError, match="holds 28 rows, but the manifest says 32"):
        NativeSplit(native.root, "train")


def test_shards_of_two_datasets_in_one_folder(native, make_native, tmp_path):
    other = make_native(tmp_path / "other", rows_per_shard=40)
    shutil.copy(other.root / "data" / "train-00001-of-00002.parquet", native.root / "data")
    with pytest.raises(DatasetError, match=r"train-00001-of-00002\.parquet does not belong to the 3 shards"):
        NativeSplit(native.root, "train")
    (native.root / "manifest.json").unlink()
    with pytest.raises(DatasetError, match="two datasets may have been mixed"):
        NativeSplit(native.root, "train")


def test_a_split_that_the_manifest_does_not_know(native):
    shutil.copy(
        native.root / "data" / "test-00000-of-00001.parquet", native.root / "data" / "val-00000-of-00001.parquet"
    )
    with pytest.raises(DatasetError, match="shards of the split 'val', but its manifest knows only train, test"):
        NativeSplit(native.root, "val")


def test_without_a_manifest_the_names_of_the_shards_tell_what_is_missing(tmp_path, make_native):
    made = make_native(tmp_path / "bare", manifest=False)
    split = NativeSplit(made.root, "train")
    assert split.factors == FACTORS
    assert split.provenance().render == {}
    np.testing.assert_array_equal(split.latents, made.latents["train"])
    (made.root / "data" / SECOND).unlink()
    with pytest.raises(DatasetError, match=f"{SECOND} is missing; 2 of 3 finished shards"):
        NativeSplit(made.root, "train")


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.5])
def test_latents_that_no_image_can_have(native, value):
    latents = native.latents["train"][32:64].copy()
    latents[5, 7] = value
    images = [encode_png(image) for image in native.pixels["train"][32:64]]
    write_shard(native.root / "data" / SECOND, ShardRows(np.arange(32, 64), images, latents))
    with pytest.raises(DatasetError, match=f"row 37, object_hue is {value}"):
        NativeSplit(native.root, "train")


def test_latents_of_another_width_than_the_factors(native):
    edit_manifest(native.root, lambda data: data["factors"].pop())
    with pytest.raises(DatasetError, match=r"expected numeric latents of shape \(N, 9\).* got shape \(70, 10\)"):
        NativeSplit(native.root, "train")


@pytest.mark.parametrize("kept", [0, 100, -1])
def test_a_truncated_shard(native, kept):
    path = native.root / "data" / SECOND
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DatasetError, match=rf"{SECOND} cannot be read as Parquet .*truncated"):
        NativeSplit(native.root, "train")


def test_a_foreign_parquet_file_of_that_name(native):
    path = native.root / "data" / "test-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["latents"]), path)
    with pytest.raises(DatasetError, match=r"lacks the columns latents; it has index, image"):
        NativeSplit(native.root, "test")


def _damage(path, image):
    data = path.read_bytes()
    place = data.index(image) + 40
    path.write_bytes(data[:place] + bytes(20) + data[place + 20 :])


def test_a_damaged_image_is_named_in_a_shard_without_checksums(native):
    path = native.root / "data" / SECOND
    pq.write_table(pq.read_table(path), path, row_group_size=32, compression="none", use_dictionary=False)
    _damage(path, encode_png(native.pixels["train"][40]))
    split = NativeSplit(native.root, "train")
    with pytest.raises(DatasetError, match=rf"{SECOND}, row 8, is not a readable image"):
        split.pixels(40)
    split.pixels(41)


def test_a_group_of_images_is_refused_where_its_checksum_is_not_right(native):
    _damage(native.root / "data" / SECOND, encode_png(native.pixels["train"][40]))
    split = NativeSplit(native.root, "train")
    for row in (40, 41):
        with pytest.raises(DatasetError, match=rf"{SECOND}, row {row - 32}: .*CRC.*; fetch or render it again"):
            split.pixels(row)
    split.pixels(64)


def test_shards_with_and_without_positives(native_pairs):
    path = native_pairs.root / "data" / SECOND
    pq.write_table(pq.read_table(path).drop_columns(["image_pos", "latents_pos"]), path)
    with pytest.raises(DatasetError, match="some shards hold exact positives and some do not"):
        NativeSplit(native_pairs.root, "train")


def test_positives_that_the_manifest_knows_of_are_missed(native_pairs):
    for path in (native_pairs.root / "data").iterdir():
        pq.write_table(pq.read_table(path).drop_columns(["image_pos", "latents_pos"]), path)
    with pytest.raises(DatasetError, match="the shards hold no exact positives, and the manifest says that they do"):
        NativeSplit(native_pairs.root, "train")


def test_images_of_different_sizes_do_not_make_a_batch(native):
    path = native.root / "data" / SECOND
    images = [encode_png(np.zeros((8, 8 + k % 2, 3), np.uint8)) for k in range(32)]
    write_shard(path, ShardRows(np.arange(32, 64), images, native.latents["train"][32:64]))
    split = NativeSplit(native.root, "train")
    with pytest.raises(DatasetError, match=r"different sizes, \[\(8, 8, 3\), \(8, 9, 3\)\]"):
        split.batch(np.array([32, 33]))


@pytest.mark.skipif(sys.platform == "win32", reason="such a limit is a matter of Unix")
def test_a_dataset_of_more_shards_than_files_may_be_open_is_read(tmp_path):
    import resource

    count = 120
    for k in range(count):
        rows = ShardRows(np.array([k]), [encode_png(np.full((4, 4, 3), k, np.uint8))], sample_latents(1, start=k))
        write_shard(tmp_path / "data" / f"train-{k:05d}-of-{count:05d}.parquet", rows)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = Path("/proc/self/fd")
    in_use = len(list(descriptors.iterdir())) if descriptors.is_dir() else 32
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 80, hard))
    try:
        split = NativeSplit(tmp_path, "train")
        assert [split.pixels(row)[0, 0, 0] for row in range(count)] == list(range(count))
        resource.setrlimit(resource.RLIMIT_NOFILE, (in_use, hard))
        with pytest.raises(OSError, match="Too many open files"):
            copy.copy(split).pixels(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
