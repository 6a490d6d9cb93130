"""Which layout a folder has, and what is said where it has none."""

import pickle
import re
import sys

import numpy as np
import pytest

from ident3d.errors import DatasetError
from ident3d.storage.conversion import convert
from ident3d.storage.description import describe
from ident3d.storage.layouts import open_split, resolve_root, splits_of
from ident3d.storage.manifest import shard_paths
from ident3d.storage.verification import verify

ON_UNIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")


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


class TestTheFolderOfOneSplit:
    def test_is_read_as_that_split(self, published):
        whole = open_split(published.root, "test")
        part = open_split(published.root / "test", "test")
        assert (part.root, part.split, part.fingerprint()) == (whole.root, "test", whole.fingerprint())
        np.testing.assert_array_equal(part.pixels(3), published.pixels["test"][3])

    def test_with_the_cache_that_lies_beside_it(self, published):
        convert(published.root, published.root, "decoded")
        assert open_split(published.root / "train", "train").layout == "decoded"

    def test_in_the_published_archives(self, tmp_path, make_published):
        made = make_published(tmp_path, nested=True)
        part = open_split(tmp_path / "3dident" / "train", "train")
        np.testing.assert_array_equal(part.latents, made.latents["train"])

    def test_is_not_that_of_another(self, published):
        with pytest.raises(
            ValueError, match=r"test is the folder of the split 'test': ask for that one, or give the fo"
        ):
            open_split(published.root / "test", "train")

    def test_whoever_needs_all_splits_is_told_where_they_are(self, published, tmp_path):
        folder = published.root / "train"
        told = rf"one split of it: give the folder that it is in, {re.escape(str(published.root))}$"
        for use in (describe, verify, lambda root: convert(root, tmp_path / "out", "native")):
            with pytest.raises(DatasetError, match=told):
                use(folder)


@pytest.mark.parametrize("name", ["[D]x", "{a,b} [!c]", pytest.param("*?", marks=ON_UNIX)])
def test_a_folder_may_have_any_name(native, tmp_path, name):
    root = tmp_path / name / name
    root.parent.mkdir()
    native.root.rename(root)
    (tmp_path / "D" / name).mkdir(parents=True)  # what a pattern would find in place of "[D]"
    convert(root, tmp_path / name / "published", "published")
    convert(tmp_path / name / "published", tmp_path / name / "out", "native")
    convert(root, root, "decoded")
    for folder, layout in (
        (root, "decoded"),
        (root.parent / "published", "published"),
        (root.parent / "out", "native"),
    ):
        split = open_split(folder, "test")
        assert split.layout == layout
        np.testing.assert_array_equal(split.batch(np.arange(9)), native.pixels["test"])
        assert describe(folder).splits[1].rows == 9
        assert not [fault for fault in verify(folder).faults if "seed" not in fault]  # these latents are of no seed


def test_a_split_is_a_name_and_not_a_pattern(native):
    for pattern in ("t*", "tes?", "tes[t]"):
        assert shard_paths(native.root, pattern) == []
        with pytest.raises(ValueError, match="has no split"):
            open_split(native.root, pattern)
