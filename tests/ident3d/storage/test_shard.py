"""One Parquet shard."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from ident3d.errors import DatasetError
from ident3d.latents import sample_latents
from ident3d.storage.images import decode, encode_png
from ident3d.storage.native import ROWS_PER_GROUP, ShardReader, ShardRows, write_shard

ROWS = 2 * ROWS_PER_GROUP + 3


@pytest.fixture
def rows():
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, 4, 4, 3), dtype=np.uint8)
    images = [encode_png(image) for image in pixels]
    latents = sample_latents(2 * ROWS, seed=1)
    return ShardRows(np.arange(7, 7 + ROWS), images, latents[:ROWS], images[::-1], latents[ROWS:])


def test_a_shard_is_read_as_it_was_written(tmp_path, rows):
    path = tmp_path / "shard.parquet"
    write_shard(path, rows)
    reader = ShardReader(path)
    assert reader.rows == ROWS
    assert reader.has_pairs
    np.testing.assert_array_equal(reader.index(), rows.index)
    np.testing.assert_array_equal(reader.latents(), rows.latents)
    np.testing.assert_array_equal(reader.latents("latents_pos"), rows.latents_pos)
    assert [reader.image(k) for k in range(ROWS)] == rows.images
    assert [reader.image(k, "image_pos") for k in range(ROWS)] == rows.images_pos


@pytest.mark.parametrize("settings", ["", "5e11"])
def test_a_shard_says_what_it_was_made_with(tmp_path, rows, settings):
    path = tmp_path / "shard.parquet"
    write_shard(path, replace(rows, settings=settings))
    assert ShardReader(path).settings == settings


def test_the_same_rows_give_the_same_bytes(tmp_path, rows):
    write_shard(tmp_path / "a.parquet", rows)
    write_shard(tmp_path / "b.parquet", rows)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_shard_without_pairs_has_three_columns(tmp_path, rows):
    path = tmp_path / "shard.parquet"
    write_shard(path, ShardRows(rows.index, rows.images, rows.latents))
    assert pq.read_schema(path).names == ["index", "image", "latents"]
    assert not ShardReader(path).has_pairs


def test_datasets_shows_images_as_images_and_latents_as_vectors(tmp_path, rows):
    datasets = pytest.importorskip("datasets")
    path = tmp_path / "shard.parquet"
    write_shard(path, rows)
    loaded = datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "cache"))
    assert loaded.features["latents"] == datasets.List(datasets.Value("float32"), length=10)
    np.testing.assert_array_equal(np.asarray(loaded[3]["image"]), decode(rows.images[3], "row 3"))
    np.testing.assert_array_equal(np.asarray(loaded[3]["image_pos"]), decode(rows.images_pos[3], "row 3"))


@pytest.mark.parametrize("kept", [0, 100, -1])
def test_a_truncated_shard_is_refused(tmp_path, rows, kept):
    path = tmp_path / "shard.parquet"
    write_shard(path, rows)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DatasetError, match="truncated"):
        ShardReader(path)


def test_another_parquet_file_is_refused(tmp_path):
    path = tmp_path / "other.parquet"
    import pyarrow as pa

    pq.write_table(pa.table({"index": [1]}), path)
    with pytest.raises(DatasetError, match="lacks the columns image, latents"):
        ShardReader(path)
