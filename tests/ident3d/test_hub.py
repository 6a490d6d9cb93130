"""Datasets of Hugging Face: native folders as they are, and a hub that cannot be reached."""

import re
import shutil
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from ident3d.dataset import ThreeDIdent
from ident3d.errors import DatasetError, MissingDependencyError
from ident3d.hub import StreamedSplit, from_hub
from ident3d.storage.conversion import convert

datasets = pytest.importorskip("datasets")
COMMIT = "0" * 40


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No network, and caches of this test's own."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")
    # A shuffled stream ends with a pause, so that threads that read from the network can end.
    monkeypatch.setattr("datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN", 0, raising=False)


@pytest.fixture
def folder(published, tmp_path):
    """A native folder as `ident3d convert` makes it, card included."""
    return convert(published.root, tmp_path / "folder", "native", rows_per_shard=20)


@pytest.fixture
def repository(folder, tmp_path):
    """The name of a repository that is in the cache of the hub already."""
    place = tmp_path / "hub" / "datasets--lab--tiny"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    shutil.copytree(folder, place / "snapshots" / COMMIT)
    return "lab/tiny"


def as_tensor(image):
    return torch.from_numpy(np.array(image))


def test_load_dataset_gives_splits_images_and_latents(folder, published):
    loaded = datasets.load_dataset(str(folder))
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 70, "test": 9}
    assert isinstance(loaded["train"].features["image"], datasets.Image)
    assert loaded["train"].features["latents"] == datasets.List(datasets.Value("float32"), length=10)
    row = loaded["train"][41]
    assert row["index"] == 41
    np.testing.assert_array_equal(np.asarray(row["image"]), published.pixels["train"][41])
    np.testing.assert_array_equal(np.float32(row["latents"]), published.latents["train"][41])


def test_load_dataset_after_the_folder_was_moved(folder, published, tmp_path):
    first = datasets.load_dataset(str(folder), split="test")
    moved = shutil.move(folder, tmp_path / "elsewhere")
    for loaded in (first, datasets.load_dataset(str(moved), split="test")):
        np.testing.assert_array_equal(np.asarray(loaded[8]["image"]), published.pixels["test"][8])


def test_load_dataset_shows_exact_positives(native_pairs, tmp_path):
    cache = convert(native_pairs.root, tmp_path / "cache", "decoded")
    folder = convert(cache, tmp_path / "folder", "native")
    row = datasets.load_dataset(str(folder), split="test")[3]
    np.testing.assert_array_equal(np.asarray(row["image_pos"]), native_pairs.pixels_pos["test"][3])
    np.testing.assert_array_equal(np.float32(row["latents_pos"]), native_pairs.latents_pos["test"][3])


def test_a_folder_is_opened_as_it_is(folder, published):
    data = from_hub(folder, "test")
    assert isinstance(data, ThreeDIdent)
    np.testing.assert_array_equal(data.pixels(range(9)), published.pixels["test"])


def test_a_repository_is_read_from_the_cache_of_the_hub(repository, published):
    data = from_hub(repository, transform=as_tensor)
    assert len(data) == 70
    image, latents = data[-1]
    np.testing.assert_array_equal(image, published.pixels["train"][-1])
    np.testing.assert_array_equal(latents, published.latents["train"][-1])
    assert data.provenance.render == {"hue_map": "published"}


@pytest.mark.parametrize("source", ["folder", "pairs"])
def test_streaming_gives_the_same_rows_in_order(request, folder, native_pairs, source):
    root = folder if source == "folder" else native_pairs.root  # with a card, and without one
    stream = from_hub(root, "test", streaming=True, transform=as_tensor)
    assert isinstance(stream, StreamedSplit)
    items = list(stream)
    expected = ThreeDIdent(root, "test", transform=as_tensor)
    assert len(items) == 9
    for (image, latents), (image_2, latents_2) in zip(items, expected, strict=True):
        assert torch.equal(image, image_2)
        assert torch.equal(latents, latents_2)
        assert latents.dtype == torch.float32


@pytest.mark.parametrize("streaming", [False, True])
def test_a_folder_may_be_named_like_a_pattern(folder, published, tmp_path, streaming):
    (tmp_path / "Dx" / "d").mkdir(parents=True)  # what the pattern would find
    (tmp_path / "[D]x").mkdir()
    moved = shutil.move(folder, tmp_path / "[D]x" / "d [0-9]")
    items = list(from_hub(moved, "test", streaming=streaming, transform=as_tensor))
    np.testing.assert_array_equal(torch.stack([image for image, _ in items]), published.pixels["test"])


def test_a_split_of_a_repository_is_no_pattern(repository):
    for pattern in ("t*", "[t]est"):
        with pytest.raises(ValueError, match=r"has no split .*; it has train, test"):
            from_hub(repository, pattern)


def test_workers_share_the_shards_of_a_stream(folder):
    stream = from_hub(folder, streaming=True, transform=as_tensor)
    loader = DataLoader(stream, batch_size=10, num_workers=2, multiprocessing_context="fork")
    latents = torch.cat([batch for _, batch in loader])
    expected = ThreeDIdent(folder).latents
    order = torch.cdist(latents, expected).argmin(dim=1)
    assert sorted(order.tolist()) == list(range(70))
    assert torch.equal(latents, expected[order])


def test_a_shuffled_stream_has_the_same_rows_in_an_order_of_its_seed(folder):
    stream = from_hub(folder, streaming=True)

    def order(shuffled):
        return [tuple(latents.tolist()) for _, latents in shuffled]

    plain, first, again, second = map(order, (stream, stream.shuffled(0), stream.shuffled(0), stream.shuffled(1)))
    assert sorted(first) == sorted(second) == sorted(plain)
    assert first == again
    assert len({tuple(plain), tuple(first), tuple(second)}) == 3


@pytest.mark.parametrize("streaming", [False, True])
def test_a_split_that_is_not_there(folder, streaming):
    for split in ("val", "train[:10]", None):
        with pytest.raises(ValueError, match=rf"^{re.escape(f'{folder} has no split {split!r}; it has train, test')}$"):
            from_hub(folder, split, streaming=streaming)


def test_a_repository_without_the_split(repository):
    with pytest.raises(ValueError, match="lab/tiny on the hub has no split 'val'; it has train, test"):
        from_hub(repository, "val")


def test_an_error_that_speaks_of_splits_is_not_one_of_a_split_that_is_not_there(monkeypatch, folder):
    def load_dataset(*_, **__):
        raise ValueError("cannot split this")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DatasetError, match="folder cannot be read by Hugging Face datasets: cannot split this"):
        from_hub(folder, streaming=True)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_folder_without_a_dataset(tmp_path, streaming):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match=r"empty holds no dataset.*data/\*\.parquet"):
        from_hub(tmp_path / "empty", streaming=streaming)


@pytest.mark.parametrize("streaming", [False, True])
def test_arguments_of_another_kind(folder, streaming):
    with pytest.raises(TypeError, match=r"a dataset on the hub has a name, .*, not 5"):
        from_hub(5, streaming=streaming)
    with pytest.raises(TypeError, match="a transform is a function of a PIL image, or None, not 'x'"):
        from_hub(folder, transform="x", streaming=streaming)


def test_the_sample_goes_by_its_name():
    assert len(from_hub("sample", "test")) == 256
    assert next(iter(from_hub("sample", "test", streaming=True)))[1].shape == (10,)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_repository_that_cannot_be_reached(streaming):
    with pytest.raises(DatasetError, match="lab/nothing is not a folder, and cannot be read as a dataset of"):
        from_hub("lab/nothing", streaming=streaming)


def test_a_foreign_dataset_is_named_as_such(folder, tmp_path):
    datasets.Dataset.from_dict({"text": ["a"]}).to_parquet(tmp_path / "other" / "data" / "train-00000-of-00001.parquet")
    with pytest.raises(DatasetError, match="lacks the columns image, latents; it has text"):
        from_hub(tmp_path / "other", streaming=True)
    with pytest.raises(DatasetError, match="lacks the columns index, image, latents"):
        from_hub(tmp_path / "other")


@pytest.mark.parametrize(("library", "streaming"), [("datasets", True), ("huggingface_hub", False)])
def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch, library, streaming):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependencyError, match=rf"{library} is needed .*pip install 'ident3d\[hub\]'"):
        from_hub("lab/tiny", streaming=streaming)
