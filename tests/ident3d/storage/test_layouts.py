"""Which layout a folder has, and what is said where it has none."""

import pickle

import numpy as np
import pytest

from ident3d.errors import DatasetError
from ident3d.storage.conversion import convert
from ident3d.storage.layouts import open_split, resolve_root, splits_of


def test_layouts_are_detected(native, published, tmp_path):
    cache = convert(native.root, tmp_path / "cache", "decoded")
    assert [open_split(root, "test").layout for root in (native.root, published.root, cache)] == [
        "native",
        "published",
        "decoded",
    ]
    convert(published.root, published.root, "decoded")
    assert open_split(published.root, "test").layout == "decoded"  # the fast one, where there are two
    assert splits_of(published.root) == ["train", "test"]


def test_a_split_that_is_not_there(native):
    with pytest.raises(ValueError, match=r"has no split 'val'; it has train, test"):
        open_split(native.root, "val")


def test_a_root_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        open_split(tmp_path / "nowhere", "train")
    for way in ("python -m render", "ident3d download", "root='sample'"):
        assert way in str(error.value)


def test_a_root_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="file is a file, and a dataset is a folder"):
        open_split(tmp_path / "file", "train")


def test_a_root_that_is_no_path():
    with pytest.raises(TypeError, match="the root of a dataset is the path of a folder, or 'sample', not 5"):
        open_split(5, "train")
    with pytest.raises(ValueError, match="the root of a dataset is empty"):
        open_split("", "train")


def test_a_folder_without_a_dataset(tmp_path):
    with pytest.raises(DatasetError, match=r"holds no dataset: expected data/\*\.parquet, or raw_latents\.npy"):
        open_split(tmp_path, "train")
    assert splits_of(tmp_path) == []


@pytest.mark.parametrize("layout", ["native", "published", "decoded"])
def test_a_relative_root_outlives_a_change_of_the_working_directory(request, monkeypatch, tmp_path, layout):
    made = request.getfixturevalue("native" if layout == "decoded" else layout)
    if layout == "decoded":
        convert(made.root, made.root, "decoded")
    monkeypatch.chdir(made.root.parent)
    split = open_split(made.root.name, "train")
    monkeypatch.chdir(tmp_path.parent)
    for opened in (split, pickle.loads(pickle.dumps(split))):  # noqa: S301 - our own bytes
        np.testing.assert_array_equal(opened.pixels(40), made.pixels["train"][40])


def test_the_sample_lies_in_the_package():
    assert resolve_root("sample").parts[-3:] == ("ident3d", "data", "sample")
