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


def _served(path):
    """Return all that a shard gives, or None where it is refused."""
    try:
        reader = ShardReader(path)
        images = [reader.image(k, column) for column in ("image", "image_pos") for k in range(reader.rows)]
        columns = [reader.index(), reader.latents(), reader.latents("latents_pos")]
    except DatasetError:
        return None
    return [column.tobytes() for column in columns], images


def test_a_flipped_bit_changes_nothing_or_is_refused(tmp_path, rows):
    path = tmp_path / "shard.parquet"
    write_shard(path, rows)
    intact, served = path.read_bytes(), _served(path)
    rng = np.random.default_rng(0)
    refused = 0
    for byte in rng.integers(len(intact), size=200):
        path.unlink()  # the readers before still map it
        path.write_bytes(_with_flip(intact, byte, int(rng.integers(8))))
        found = _served(path)
        refused += found is None
        assert found in (None, served), byte
    assert refused > 100


def _with_flip(data, byte, bit):
    return data[:byte] + bytes([data[byte] ^ (1 << bit)]) + data[byte + 1 :]


def test_a_page_of_unknown_kind_is_missed(tmp_path, rows):
    """Arrow passes over such a page: the column ends earlier, and later rows would stand in for those that it held."""
    path = tmp_path / "shard.parquet"
    write_shard(path, rows)
    intact, group = path.read_bytes(), pq.ParquetFile(path).metadata.row_group(1)
    index, image = (group.column(column).data_page_offset + 1 for column in (0, 1))  # where the kind of a page stands
    path.write_bytes(_with_flip(intact, index, 3))
    with pytest.raises(DatasetError, match="35 of 67 rows of the column index are there"):
        ShardReader(path).index()
    path.write_bytes(_with_flip(intact, image, 3))
    with pytest.raises(DatasetError, match="0 of 32 rows of the column image are there"):
        ShardReader(path).image(40)


def test_names_that_are_no_text_are_damage(tmp_path, rows):
    path = tmp_path / "shard.parquet"
    write_shard(path, rows)
    data = path.read_bytes()
    place = data.index(b"latents_pos")
    for byte in range(place, place + 11):
        path.write_bytes(_with_flip(data, byte, 7))
        assert _served(path) is None


def test_checksums_are_checked_when_a_group_is_read_first(tmp_path, rows):
    path = tmp_path / "shard.parquet"
    write_shard(path, replace(rows, images_pos=None, latents_pos=None))
    place = path.read_bytes().index(rows.images[40]) + len(rows.images[40])  # the length of the next image
    path.write_bytes(_with_flip(path.read_bytes(), place, 0))
    reader = ShardReader(path)
    assert reader.image(0) == rows.images[0]
    with pytest.raises(DatasetError, match=r"row 33: .*CRC"):
        reader.image(33)
    with pytest.raises(DatasetError, match=r"row 33: .*CRC"):
        reader.image(33)


def test_a_shard_without_checksums_is_read(tmp_path, rows):
    path = tmp_path / "shard.parquet"
    write_shard(path, rows)
    table = pq.read_table(path)
    pq.write_table(table, path, row_group_size=ROWS_PER_GROUP, compression="none", use_dictionary=False)
    assert b"" not in (images := _served(path)[1])
    assert images == [*rows.images, *rows.images_pos]


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
