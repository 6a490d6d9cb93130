"""The dataset class: what torch and people do with a map-style dataset."""

import os
import pickle
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Subset, random_split

from ident3d.dataset import ThreeDIdent
from ident3d.errors import DatasetError
from ident3d.factors import FACTORS, Factor, Factors
from ident3d.latents import to_physical
from ident3d.storage.conversion import convert


def as_tensor(image):
    """A transform that other processes can import or inherit."""
    return torch.from_numpy(np.array(image))


@pytest.fixture
def decoded(native):
    """A decoded cache beside the shards that it was made from."""
    from ident3d.storage.conversion import convert

    convert(native.root, native.root, "decoded")
    return native


@pytest.fixture(params=["native", "published", "decoded"])
def made(request):
    return request.getfixturevalue(request.param)


def test_items_are_the_images_and_latents_of_their_rows(made):
    data = ThreeDIdent(made.root, split="train")
    assert len(data) == 70
    for index in (0, 31, 32, 69, -1, -70):
        image, latents = data[index]
        assert isinstance(image, Image.Image)
        assert latents.shape == (10,)
        assert latents.dtype == torch.float32
        np.testing.assert_array_equal(np.asarray(image), made.pixels["train"][index])
        np.testing.assert_array_equal(latents, made.latents["train"][index])
    assert data.factors == FACTORS
    np.testing.assert_array_equal(data.ids, np.arange(70))
    assert len(ThreeDIdent(made.root, split="test")) == 9


def test_an_index_out_of_range_ends_a_loop_over_the_dataset(made):
    data = ThreeDIdent(made.root, split="test")
    for index in (9, -10):
        with pytest.raises(IndexError, match=f"index {index} of a dataset of 9"):
            data[index]
    assert len(list(data)) == 9  # the old protocol of iteration: IndexError ends it


@pytest.mark.parametrize("index", [1.0, "1", None, [0.5], ["1"], [[1]], [True, False], slice("1")])
def test_an_index_is_an_integer_or_several(native, index):
    with pytest.raises(TypeError, match=r"an integer, a slice or a list|several rows|slice indices"):
        ThreeDIdent(native.root)[index]


ROWS = {
    "slice": (slice(60, None, -20), [60, 40, 20, 0]),
    "list": ([3, -1, 3], [3, 69, 3]),
    "range": (range(2), [0, 1]),
    "array": (np.array([5, 4], dtype=np.uint8), [5, 4]),
    "tensor": (torch.tensor([7]), [7]),
    "mask": (np.arange(70) == 33, [33]),
    "none": ([], []),
}


@pytest.mark.parametrize("name", ROWS)
def test_several_rows_are_a_dataset(made, name):
    index, rows = ROWS[name]
    data = ThreeDIdent(made.root, transform=np.asarray)[index]
    for part in (data, pickle.loads(pickle.dumps(data))):  # noqa: S301 - our own bytes
        assert len(part) == len(rows)
        np.testing.assert_array_equal(part.ids, rows)
        np.testing.assert_array_equal(part.latents, made.latents["train"][rows])
        assert [image.tobytes() for image, _ in part] == [made.pixels["train"][row].tobytes() for row in rows]
        if rows:
            np.testing.assert_array_equal(part.pixels([len(rows) - 1])[0], made.pixels["train"][rows[-1]])
            assert part.encoded(0).startswith(b"\x89PNG")


def test_rows_of_rows_and_what_is_known_of_them(native_pairs):
    data = ThreeDIdent(native_pairs.root)
    part = data[10:60][[5, 49]]
    np.testing.assert_array_equal(part.ids, [15, 59])
    np.testing.assert_array_equal(part.positives.pixels([1])[0], native_pairs.pixels_pos["train"][59])
    np.testing.assert_array_equal(data.positives[[15, 59]].latents, part.positives.latents)
    np.testing.assert_array_equal(data.positives[[15, 59]].ids, [15, 59])
    assert part.provenance == data.provenance
    assert len({data.fingerprint, part.fingerprint, data[10:60].fingerprint}) == 3
    assert part.fingerprint == ThreeDIdent(native_pairs.root)[10:60][[5, 49]].fingerprint
    with pytest.raises(IndexError, match="index 70 of a dataset of 70 images"):
        data[[0, 70]]


def test_the_target_transform_gets_the_latents(native_pairs):
    data = ThreeDIdent(native_pairs.root, target_transform=to_physical)
    latents = native_pairs.latents["train"]
    np.testing.assert_allclose(data[3][1], to_physical(latents[3]))
    np.testing.assert_allclose(data[3:5][1][1], to_physical(latents[4]))
    np.testing.assert_allclose(data.positives[3][1], to_physical(native_pairs.latents_pos["train"][3]))
    np.testing.assert_array_equal(data.latents, latents)
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 - our own bytes
    np.testing.assert_allclose(again[3][1], data[3][1])
    with pytest.raises(TypeError, match="a target_transform is a function of a tensor of latents, or None, not 5"):
        ThreeDIdent(native_pairs.root, target_transform=5)


def test_integers_of_numpy_and_torch_are_indices(native):
    data = ThreeDIdent(native.root)
    for index in (np.int64(5), torch.tensor(5), np.uint8(5)):
        assert torch.equal(data[index][1], data[5][1])


def test_a_batch_of_pixels_is_that_of_its_rows(made):
    data = ThreeDIdent(made.root)
    rows = [3, 69, 3, 40]
    for asked in (rows, np.array(rows, dtype=np.uint32), torch.tensor(rows)):
        batch = data.pixels(asked)
        assert batch.dtype == torch.uint8
        np.testing.assert_array_equal(batch, made.pixels["train"][rows])
    assert data.pixels([]).shape == (0, 8, 8, 3)
    batch[:] = 0  # a copy: writing to it changes nothing
    np.testing.assert_array_equal(data.pixels([3])[0], made.pixels["train"][3])


def test_rows_of_a_batch_are_integers_in_range(made):
    data = ThreeDIdent(made.root)
    with pytest.raises(IndexError, match="rows 0 to 70 asked of a dataset of 70"):
        data.pixels([0, 70])
    with pytest.raises(IndexError, match="rows -1 to 2"):
        data.pixels([2, -1])
    with pytest.raises(TypeError, match="rows are integers, not float64"):
        data.pixels([0.5])
    with pytest.raises(TypeError, match="rows are integers, not bool"):
        data.pixels([True, False])


def test_the_transform_gets_the_image(made):
    image, _ = ThreeDIdent(made.root, transform=as_tensor)[7]
    np.testing.assert_array_equal(image, made.pixels["train"][7])


def test_subsets_and_random_splits(native):
    data = ThreeDIdent(native.root)
    subset = Subset(data, [5, 60])
    np.testing.assert_array_equal(np.asarray(subset[1][0]), native.pixels["train"][60])
    parts = random_split(data, [50, 20], generator=torch.Generator().manual_seed(0))
    assert [len(part) for part in parts] == [50, 20]
    assert sorted([*parts[0].indices, *parts[1].indices]) == list(range(70))


def test_pickling_keeps_items_and_makes_no_second_copy_of_latents(made):
    data = ThreeDIdent(made.root, transform=as_tensor)
    data[3]
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 - it was pickled on the line itself
    assert repr(again) == repr(data)
    assert torch.equal(again[3][0], data[3][0])
    assert torch.equal(again.latents, data.latents)
    assert again.latents.data_ptr() == again._stored.latents.ctypes.data


def replaced_by_another(root, make_native, tmp_path, layout):
    """Put other images with other latents in the place of a dataset, with the same names and counts."""
    from ident3d.storage.conversion import convert

    counts = {"extra": 1, "train": 70, "test": 9}  # which makes the random numbers of the others differ
    other = make_native(tmp_path / "other", counts).root
    if layout != "native":
        other = convert(other, tmp_path / "converted", layout)
    shutil.rmtree(root)
    shutil.copytree(other, root)


@pytest.mark.parametrize(
    ("layout", "name"),
    [("native", "train-00001-of-00003.parquet"), ("published", "raw_latents.npy"), ("decoded", "train-pixels.npy")],
)
def test_files_that_were_replaced_while_a_dataset_was_pickled(request, make_native, tmp_path, layout, name):
    made = request.getfixturevalue(layout)
    data = ThreeDIdent(made.root)
    again = pickle.loads(pickle.dumps(data))  # noqa: S301 - our own bytes
    np.testing.assert_array_equal(again.pixels([40])[0], made.pixels["train"][40])
    pickled = pickle.dumps(data)
    replaced_by_another(made.root, make_native, tmp_path, layout)
    with pytest.raises(DatasetError, match=rf"{name} is not the file that it was .*; open the dataset again"):
        pickle.loads(pickled).pixels([40])  # noqa: S301 - our own bytes
    assert ThreeDIdent(made.root).pixels([40]).shape == (1, 8, 8, 3)


def test_shards_that_were_changed_while_a_dataset_was_pickled(native):
    pickled = pickle.dumps(ThreeDIdent(native.root))
    path = native.root / "data" / "train-00001-of-00003.parquet"
    whole = path.read_bytes()

    def rows(changed, row):
        path.unlink()  # the file that is open here stays as it is
        path.write_bytes(changed)
        return pickle.loads(pickled).pixels([row])  # noqa: S301 - our own bytes

    with pytest.raises(DatasetError, match=r"train-00001-of-00003\.parquet cannot be read as Parquet .*truncated"):
        rows(whole[:-100], 40)
    other = (native.root / "data" / "train-00000-of-00003.parquet").read_bytes()
    with pytest.raises(DatasetError, match=r"train-00001-of-00003\.parquet is not the file that it was"):
        rows(other, 40)
    assert rows(other, 0).shape == (1, 8, 8, 3)  # the shards that nobody touched are read
    np.testing.assert_array_equal(rows(whole, 40)[0], native.pixels["train"][40])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_spawned_workers_name_a_shard_that_was_replaced(native):
    data = ThreeDIdent(native.root, transform=as_tensor)
    path = native.root / "data" / "train-00001-of-00003.parquet"
    path.unlink()
    shutil.copy(path.with_name("train-00000-of-00003.parquet"), path)
    loader = DataLoader(data, batch_size=16, num_workers=1, multiprocessing_context="spawn")
    with pytest.raises(DatasetError, match=r"train-00001-of-00003\.parquet is not the file that it was"):
        list(loader)


def test_a_pickled_decoded_cache_holds_no_arrays(decoded):
    assert len(pickle.dumps(ThreeDIdent(decoded.root))) < 1000


@pytest.mark.parametrize(
    ("layout", "method"),
    [("native", "fork"), ("native", "spawn"), ("native", "forkserver"), ("published", "fork"), ("decoded", "spawn")],
)
@pytest.mark.slow
def test_loaders_with_workers_of_every_start_method(request, layout, method):
    made = request.getfixturevalue(layout)
    data = ThreeDIdent(made.root, transform=as_tensor)
    data[0]  # files that are open in this process do not disturb the workers
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(
        data, batch_size=16, shuffle=True, generator=generator, num_workers=2, multiprocessing_context=method
    )
    images, latents = (torch.cat(part) for part in zip(*loader, strict=True))
    assert not torch.equal(latents, data.latents)
    order = torch.cdist(latents, data.latents).argmin(dim=1)
    assert sorted(order.tolist()) == list(range(70))
    assert torch.equal(latents, data.latents[order])
    np.testing.assert_array_equal(images, made.pixels["train"][order])


def spoil_images(root):
    """Overwrite the image bytes of a dataset in either layout, and nothing else."""
    for path in root.glob("*/images/*.png"):
        path.write_bytes(b"no image")
    for path in root.glob("data/*.parquet"):
        data = path.read_bytes()
        path.write_bytes(data.replace(b"\x89PNG\r\n\x1a\n", b"nothing!"))


@pytest.mark.parametrize("layout", ["native", "published"])
def test_latents_never_decode_an_image(request, layout):
    made = request.getfixturevalue(layout)
    spoil_images(made.root)
    data = ThreeDIdent(made.root)
    np.testing.assert_array_equal(data.latents, made.latents["train"])
    spoiled = {"native": "page integrity", "published": "is not a readable image"}
    with pytest.raises(DatasetError, match=spoiled[layout]):  # which shows that they were spoiled
        data[0]


def test_native_and_published_folders_give_the_same_items(native, tmp_path):
    from ident3d.storage.conversion import convert

    convert(native.root, tmp_path / "other", "published")
    ours, theirs = ThreeDIdent(native.root), ThreeDIdent(tmp_path / "other")
    assert (ours.layout, theirs.layout) == ("native", "published")
    assert ours.fingerprint == theirs.fingerprint
    for (image, latents), (image_2, latents_2) in zip(ours, theirs, strict=True):
        assert image.tobytes() == image_2.tobytes()
        assert torch.equal(latents, latents_2)


def test_a_variant_brings_its_own_factors(tmp_path, make_native):
    factors = Factors((Factor("size", "object", 0.5, 2.0, "bu"), Factor("tilt", "object", -1.0, 1.0, "rad")))
    made = make_native(tmp_path / "variant", factors=factors)
    data = ThreeDIdent(made.root)
    assert data.factors == factors
    assert data.latents.shape == (70, 2)


def test_exact_positives_are_there_where_they_were_rendered(native, native_pairs):
    data = ThreeDIdent(native_pairs.root)
    np.testing.assert_array_equal(data.positives.latents, native_pairs.latents_pos["train"])
    np.testing.assert_array_equal(data.positives.pixels([2, 50]), native_pairs.pixels_pos["train"][[2, 50]])
    assert ThreeDIdent(native.root).positives is None


@pytest.mark.parametrize("layout", ["native", "decoded"])
def test_exact_positives_are_a_dataset(native_pairs, layout):
    if layout == "decoded":
        convert(native_pairs.root, native_pairs.root, "decoded")
    data = ThreeDIdent(native_pairs.root, transform=np.asarray)
    for positives in (data.positives, pickle.loads(pickle.dumps(data.positives))):  # noqa: S301 - our own bytes
        assert positives.layout == layout
        assert len(positives) == len(data)
        np.testing.assert_array_equal(positives.ids, data.ids)
        image, latents = positives[-1]
        np.testing.assert_array_equal(image, native_pairs.pixels_pos["train"][-1])
        np.testing.assert_array_equal(latents, native_pairs.latents_pos["train"][-1])
        assert positives.encoded(0).startswith(b"\x89PNG")
    with pytest.raises(IndexError, match="of a dataset of 70 images"):
        data.positives[70]


def test_encoded_images_are_image_files(made):
    assert ThreeDIdent(made.root).encoded(-1).startswith(b"\x89PNG")


def test_the_text_of_a_dataset_says_what_it_is(native):
    text = repr(ThreeDIdent(native.root, split="test"))
    assert text == f"ThreeDIdent({str(native.root)!r}, split='test'): 9 images, native layout"


def test_a_home_folder_is_understood(native, monkeypatch):
    monkeypatch.setenv("HOME", str(native.root.parent))
    assert len(ThreeDIdent(f"~{os.sep}native")) == 70


def test_the_fingerprint_tells_splits_and_datasets_apart(native, published):
    found = {ThreeDIdent(made.root, split).fingerprint for made in (native, published) for split in ("train", "test")}
    assert len(found) == 4


def test_what_is_known_of_a_published_folder_is_its_provenance(published):
    told = ThreeDIdent(published.root, "test").provenance
    assert (told.splits, told.resolution, told.render, told.seed) == ({"test": 9}, 8, {"hue_map": "published"}, None)


def test_download_asks_for_the_split(monkeypatch, native):
    import ident3d.download

    asked = []
    monkeypatch.setattr(ident3d.download, "download_published", lambda root, splits: asked.append((root, splits)))
    ThreeDIdent(native.root, split="test", download=True)
    assert asked == [(native.root, ("test",))]
