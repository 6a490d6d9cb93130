"""Masks in memory and on disk, and the conversion of the archive."""

import hashlib
import json
import pickle
import threading

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import ident3d.download
from ident3d import KittiMasks
from ident3d.download import download_kitti_masks
from ident3d.errors import DatasetError
from ident3d.kitti import MaskSequences, Pedestrian
from ident3d.kitti.masks import ARCHIVE_NAME, FRAMES_NAME
from tests.ident3d.bad_server import Server
from tests.ident3d.kitti.test_archive import sequences


@pytest.fixture
def published(tmp_path):
    """A folder with an archive in the published format, and what is in it."""
    held = sequences([3, 1, 5])
    folder = tmp_path / "kitti"
    folder.mkdir()
    (folder / ARCHIVE_NAME).write_bytes(pickle.dumps(held))
    return folder, held


def test_the_archive_is_converted_once_and_read_back(published):
    folder, held = published
    data = KittiMasks(folder)
    assert len(data) == 9
    assert data.lengths.tolist() == [3, 1, 5]
    assert data.pedestrians.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    masks, latents = (np.concatenate(held[name]) for name in ("pedestrians", "pedestrians_latents"))
    np.testing.assert_array_equal(data.pixels(torch.arange(9))[..., 0].numpy(), masks * np.uint8(255))
    np.testing.assert_array_equal(data.latents.numpy(), latents)
    image, values = data[-1]
    np.testing.assert_array_equal(np.asarray(image), masks[8] * np.uint8(255))
    assert values.tolist() == latents[8].tolist()
    (folder / ARCHIVE_NAME).unlink()
    again = KittiMasks(folder)
    assert torch.equal(again.pixels(torch.arange(9)), data.pixels(torch.arange(9)))
    assert str(again) == "KittiMasks: 9 masks of 3 pedestrians"


def test_the_converted_file_is_read_by_datasets(published, tmp_path):
    datasets = pytest.importorskip("datasets")
    folder, held = published
    KittiMasks(folder)
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"), split="train")
    assert loaded.column_names == ["image", "latents", "pedestrian", "frame"]
    assert loaded["frame"][:] == [0, 1, 2, 0, 0, 1, 2, 3, 4]
    np.testing.assert_array_equal(np.asarray(loaded[4]["image"]), held["pedestrians"][2][0])
    np.testing.assert_array_equal(loaded[4]["latents"], held["pedestrians_latents"][2][0])


def test_what_is_handed_out_does_not_change_the_dataset(published):
    data = KittiMasks(published[0])
    before = data.latents.clone()
    data[0][1].mul_(2)
    data.pixels(torch.arange(3)).zero_()
    assert torch.equal(data.latents, before)
    assert data.pixels(torch.arange(3)).any()


def test_every_flip_in_the_converted_file_is_found_or_changes_nothing(published):
    folder, _ = published
    data = KittiMasks(folder)
    whole = (folder / FRAMES_NAME).read_bytes()
    drawn = np.random.default_rng(0)
    found = 0
    for place in drawn.integers(len(whole), size=200).tolist():
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(drawn.integers(8))
        (folder / FRAMES_NAME).write_bytes(flipped)
        try:
            read = KittiMasks(folder)
        except DatasetError:
            found += 1
            continue
        assert torch.equal(read.latents, data.latents)
        assert torch.equal(read.lengths, data.lengths)
        assert torch.equal(read.pixels(torch.arange(9)), data.pixels(torch.arange(9)))
    assert found > 100


def test_a_file_of_somebody_else_is_refused(published):
    folder, _ = published
    KittiMasks(folder)
    table = pq.read_table(folder / FRAMES_NAME)
    pq.write_table(table.replace_schema_metadata(None), folder / FRAMES_NAME)
    with pytest.raises(DatasetError, match="not written by ident3d"):
        KittiMasks(folder)


def test_an_empty_folder_says_what_it_lacks(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds neither .* download=True fetches the archive"):
        KittiMasks(tmp_path)


@pytest.mark.parametrize(("index", "error"), [(9, IndexError), (-10, IndexError), ("a", TypeError), (1.5, TypeError)])
def test_an_index_that_is_none(published, index, error):
    with pytest.raises(error, match="index"):
        KittiMasks(published[0])[index]


def test_rows_out_of_range(published):
    with pytest.raises(IndexError, match="rows 0 to 9 asked of a dataset of 9 masks"):
        KittiMasks(published[0]).pixels(torch.tensor([0, 9]))


def test_no_pedestrians():
    with pytest.raises(ValueError, match="one pedestrian or more"):
        MaskSequences([])


def test_a_transform_is_applied_to_each_image(published):
    data = KittiMasks(published[0], transform=lambda image: image.size)
    assert data[0][0] == (64, 64)
    with pytest.raises(TypeError, match="function of a PIL image"):
        KittiMasks(published[0], transform=3)


@pytest.fixture
def zenodo(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    content = pickle.dumps(sequences([4]))
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        record = {"files": [{"key": "other", "checksum": "md5:0"}, {"key": ARCHIVE_NAME, "checksum": f"md5:{md5}"}]}
        server.files["api/records/3931823"] = json.dumps(record).encode()
        server.files[f"records/3931823/files/{ARCHIVE_NAME}"] = content
        yield server
        server.shutdown()
        thread.join()


def test_the_archive_is_fetched_and_checked(zenodo, tmp_path):
    path = download_kitti_masks(tmp_path / "new", host=zenodo.url)
    assert path == tmp_path / "new" / ARCHIVE_NAME
    assert len(KittiMasks(tmp_path / "new", download=True)) == 4
    asked = len(zenodo.asked)
    download_kitti_masks(tmp_path / "new", host=zenodo.url)
    assert len(zenodo.asked) == asked


def test_an_archive_with_another_checksum_is_removed(zenodo, tmp_path):
    zenodo.files[f"records/3931823/files/{ARCHIVE_NAME}"] += b"x"
    with pytest.raises(DatasetError, match="is not the file that was published"):
        download_kitti_masks(tmp_path, host=zenodo.url)
    assert not (tmp_path / ARCHIVE_NAME).exists()


@pytest.mark.parametrize("record", [b"", b"[]", b"{}", b'{"files": [{"key": "other"}]}', b'{"files": 3}', b"<html>"])
def test_a_record_without_a_checksum(zenodo, tmp_path, record):
    zenodo.files["api/records/3931823"] = record
    with pytest.raises(DatasetError, match=r"no MD5 checksum|not strict JSON"):
        download_kitti_masks(tmp_path, host=zenodo.url)


def test_a_record_that_never_ends(zenodo, tmp_path, monkeypatch):
    monkeypatch.setattr(ident3d.download, "_MOST_RECORD_BYTES", 100)
    with pytest.raises(DatasetError, match="does not end within 100 bytes"):
        download_kitti_masks(tmp_path, host=zenodo.url)


def test_masks_of_ones_own_are_saved_and_read_back(tmp_path):
    masks = np.zeros((2, 64, 64), bool)
    masks[0, 3, 5] = masks[1, 60, 2] = True
    data = MaskSequences([Pedestrian(masks, np.array([[3, 5, 1], [60, 2, 1]], np.float32))])
    assert data.save(tmp_path) == tmp_path / FRAMES_NAME
    read = KittiMasks(tmp_path)
    assert read.pixels(torch.tensor([1])).nonzero().tolist() == [[0, 60, 2, 0]]
