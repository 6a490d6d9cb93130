"""Conversion between the layouts."""

import io
import json
import logging
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import ident3d.storage.split
from ident3d.dataset import ThreeDIdent
from ident3d.errors import DatasetError
from ident3d.factors import Factor, Factors
from ident3d.latents import to_physical
from ident3d.storage.conversion import convert
from ident3d.storage.decoded import DecodedSplit
from ident3d.storage.manifest import Manifest

LAYOUTS = ["native", "published", "decoded"]


@pytest.fixture
def decoded(native, tmp_path):
    """The native dataset as a decoded cache in a folder of its own."""
    convert(native.root, tmp_path / "decoded", "decoded")
    return SimpleNamespace(**vars(native) | {"root": tmp_path / "decoded"})


def assert_same(made, root, layout):
    for split, pixels in made.pixels.items():
        data = ThreeDIdent(root, split)
        assert data.layout == layout
        np.testing.assert_array_equal(data.latents, made.latents[split])
        np.testing.assert_array_equal(data.ids, np.arange(len(pixels)))
        np.testing.assert_array_equal(data.pixels(np.arange(len(pixels))), pixels)


@pytest.mark.parametrize("to", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pixels_and_latents_are_kept_from_every_layout_to_every_other(request, tmp_path, layout, to):
    made = request.getfixturevalue(layout)
    out = tmp_path / "out"
    if layout == to:
        with pytest.raises(ValueError, match=f"is in the {to} layout already"):
            convert(made.root, out, to)
        return
    fingerprint = ThreeDIdent(made.root, "test").fingerprint
    assert convert(made.root, out, to) == out
    assert_same(made, out, to)
    assert ThreeDIdent(out, "test").fingerprint == fingerprint


def test_encoded_images_are_copied_as_they_are(native, published, tmp_path):
    convert(native.root, tmp_path / "a", "published")
    convert(published.root, tmp_path / "b", "native")
    for source, copy in ((native.root, tmp_path / "a"), (published.root, tmp_path / "b")):
        assert ThreeDIdent(copy).encoded(41) == ThreeDIdent(source).encoded(41)


def test_there_and_back_gives_the_same_shards(native, tmp_path):
    convert(native.root, tmp_path / "published", "published")
    convert(tmp_path / "published", tmp_path / "again", "native", rows_per_shard=32)
    for shard in (native.root / "data").iterdir():
        assert (tmp_path / "again" / "data" / shard.name).read_bytes() == shard.read_bytes()


def test_the_published_layout_is_that_of_the_archives(native, tmp_path):
    convert(native.root, tmp_path / "out", "published")
    folder = tmp_path / "out" / "train"
    assert sorted(path.name for path in folder.iterdir()) == ["images", "latents.npy", "raw_latents.npy"]
    assert sorted(path.name for path in (folder / "images").iterdir()) == [f"{row:02d}.png" for row in range(70)]
    np.testing.assert_array_equal(np.load(folder / "raw_latents.npy"), native.latents["train"])
    np.testing.assert_allclose(np.load(folder / "latents.npy"), to_physical(native.latents["train"]))
    with Image.open(folder / "images" / "05.png") as image:
        np.testing.assert_array_equal(np.asarray(image), native.pixels["train"][5])


def test_shards_and_manifest_agree(published, tmp_path):
    convert(published.root, tmp_path / "out", "native", rows_per_shard=30)
    manifest = Manifest.read(tmp_path / "out")
    assert manifest.is_complete
    assert [(record.name, record.start, record.rows) for record in manifest.shards] == [
        ("test-00000-of-00001.parquet", 0, 9),
        ("train-00000-of-00003.parquet", 0, 30),
        ("train-00001-of-00003.parquet", 30, 30),
        ("train-00002-of-00003.parquet", 60, 10),
    ]


def test_the_provenance_of_a_published_folder_is_what_is_known_of_it(published, tmp_path):
    convert(published.root, tmp_path / "out", "native")
    manifest = Manifest.read(tmp_path / "out")
    assert manifest.render == {"hue_map": "published"}
    assert (manifest.seed, manifest.resolution, manifest.splits) == (None, 8, {"train": 70, "test": 9})
    assert set(manifest.latents) == {"train", "test"}
    assert {record.made_by for record in manifest.shards if record.made_by} == set()
    card = (tmp_path / "out" / "README.md").read_text()
    assert 'license: "other"' in card
    assert f"test: given (SHA-256 {manifest.latents['test']})" in card


def test_the_provenance_of_a_rendered_dataset_outlives_every_layout(native, tmp_path):
    before = Manifest.read(native.root)
    convert(native.root, tmp_path / "a", "published")
    convert(tmp_path / "a", tmp_path / "b", "decoded")
    convert(tmp_path / "b", tmp_path / "c", "native", rows_per_shard=32)
    assert before.differences(Manifest.read(tmp_path / "c")) == []
    convert(native.root, tmp_path / "d", "decoded")
    convert(tmp_path / "d", tmp_path / "e", "native", rows_per_shard=7)
    assert {record.made_by["device"] for record in Manifest.read(tmp_path / "e").shards} == {"cpu"}


def test_the_factors_of_a_variant_outlive_every_layout(tmp_path, make_native):
    factors = Factors((Factor("size", "object", 0.5, 2.0, "bu"), Factor("tilt", "object", -1.0, 1.0, "rad")))
    made = make_native(tmp_path / "variant", factors=factors)
    convert(made.root, tmp_path / "a", "published")
    convert(tmp_path / "a", tmp_path / "b", "decoded")
    for root in (tmp_path / "a", tmp_path / "b"):
        assert ThreeDIdent(root).factors == factors
        assert_same(made, root, ThreeDIdent(root).layout)


def test_exact_positives_go_along_where_there_is_a_place_for_them(native_pairs, tmp_path, caplog):
    convert(native_pairs.root, tmp_path / "a", "decoded")
    convert(tmp_path / "a", tmp_path / "b", "native")
    for root in (tmp_path / "a", tmp_path / "b"):
        data = ThreeDIdent(root)
        np.testing.assert_array_equal(data.positives.latents, native_pairs.latents_pos["train"])
        np.testing.assert_array_equal(data.positives.pixels(np.arange(70)), native_pairs.pixels_pos["train"])
        assert data.provenance.pairs == "normal(sigma=0.1)"
    with caplog.at_level(logging.WARNING):
        convert(native_pairs.root, tmp_path / "c", "published")
    assert "they are left out" in caplog.text
    assert ThreeDIdent(tmp_path / "c").provenance.pairs is None
    assert_same(native_pairs, tmp_path / "c", "published")


def test_a_cache_beside_the_shards_is_the_one_that_is_read(native):
    convert(native.root, native.root, "decoded")
    assert_same(native, native.root, "decoded")
    there = {path.name for path in native.root.iterdir()}
    assert there == {"README.md", "data", "decoded", "manifest.json", ".decoded.lock"}


def test_a_cache_beside_the_published_layout(published):
    convert(published.root, published.root, "decoded")
    assert_same(published, published.root, "decoded")


def test_shards_are_read_again_where_a_cache_lies_beside_them(native, tmp_path):
    convert(native.root, native.root, "decoded")
    convert(native.root, tmp_path / "out", "published")
    assert ThreeDIdent(tmp_path / "out").encoded(0) == DecodedSplit(native.root, "train").encoded(0)
    assert_same(native, tmp_path / "out", "published")


def test_a_cache_that_is_up_to_date_is_left_alone(native, caplog):
    convert(native.root, native.root, "decoded")
    pixels = native.root / "decoded" / "train-pixels.npy"
    before = pixels.stat().st_mtime_ns
    with caplog.at_level(logging.INFO):
        convert(native.root, native.root, "decoded")
    assert "is up to date" in caplog.text
    assert pixels.stat().st_mtime_ns == before


@pytest.mark.parametrize("layout", ["native", "published"])
def test_a_stale_cache_is_noticed_and_made_again(request, layout, tmp_path, make_native, make_published):
    made = request.getfixturevalue(layout)
    convert(made.root, made.root, "decoded")
    moved = shutil.move(made.root, tmp_path / "moved")
    assert len(ThreeDIdent(moved)) == 70  # moving changes nothing
    other = {"native": make_native, "published": make_published}[layout](tmp_path / "other", {"train": 71, "test": 9})
    shutil.rmtree(moved / "data", ignore_errors=True)
    shutil.rmtree(moved / "train", ignore_errors=True)
    shutil.copytree(other.root, moved, dirs_exist_ok=True)
    with pytest.raises(DatasetError, match=r"was not made from the images beside it .*ident3d convert .* --to decoded"):
        ThreeDIdent(moved)
    convert(moved, moved, "decoded")
    np.testing.assert_array_equal(ThreeDIdent(moved).pixels(np.arange(71)), other.pixels["train"])
    assert [path.name for path in moved.glob(".*")] == [".decoded.lock"]


def test_a_cache_of_images_that_changed_under_the_same_latents_is_stale(native, make_native, tmp_path):
    convert(native.root, native.root, "decoded")
    shutil.copytree(make_native(tmp_path / "larger", side=9).root, native.root, dirs_exist_ok=True)
    with pytest.raises(DatasetError, match="was not made from the images beside it"):
        ThreeDIdent(native.root, "test")


def test_a_damaged_cache_is_made_again(native):
    convert(native.root, native.root, "decoded")
    pixels = native.root / "decoded" / "train-pixels.npy"
    pixels.write_bytes(pixels.read_bytes()[:-1])
    convert(native.root, native.root, "decoded")
    assert_same(native, native.root, "decoded")


def interrupt(monkeypatch, after):
    """Let the conversion be interrupted when it has read ``after`` images."""
    real = ident3d.storage.split.decode
    count = iter(range(after))

    def decode(encoded, what):
        if next(count, None) is None:
            raise KeyboardInterrupt
        return real(encoded, what)

    monkeypatch.setattr(ident3d.storage.split, "decode", decode)
    return lambda: monkeypatch.setattr(ident3d.storage.split, "decode", real)


@pytest.mark.parametrize(("layout", "to"), [("published", "native"), ("native", "published"), ("native", "decoded")])
@pytest.mark.parametrize("after", [0, 40, 75])
def test_an_interrupted_conversion_leaves_nothing_and_can_be_run_again(request, monkeypatch, layout, to, after):
    made = request.getfixturevalue(layout)
    tmp_path = made.root.parent
    out = tmp_path / "out"
    resume = interrupt(monkeypatch, after)
    with pytest.raises(KeyboardInterrupt):
        convert(made.root, out, to, rows_per_shard=10)
    assert not out.exists() or [path.name for path in out.iterdir()] == [".decoded.lock"]
    assert {path.name for path in tmp_path.glob(".*")} <= {".out.lock"}
    resume()
    convert(made.root, out, to, rows_per_shard=10)
    assert_same(made, out, to)


@pytest.mark.parametrize("to", ["published", "decoded"])
def test_what_a_killed_conversion_left_is_replaced(native, tmp_path, to):
    out = tmp_path / "out"
    left = out / ".decoded.converting" if to == "decoded" else tmp_path / ".out.converting"
    left.mkdir(parents=True)
    (left / "train-pixels.npy").write_bytes(b"half")
    convert(native.root, out, to)
    assert_same(native, out, to)
    assert not left.exists()


@pytest.mark.parametrize(("to", "succeed"), [("decoded", 3), ("published", 1)])
def test_of_processes_that_convert_to_one_place_one_works(native, tmp_path, to, succeed):
    def attempt(_):
        try:
            convert(native.root, tmp_path / "out", to)
        except ValueError as error:
            assert "holds something else already" in str(error)  # noqa: PT017 - the others succeed
            return False
        return True

    # Locks are those of open files: threads wait for each other as processes do.
    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(attempt, range(3))) == succeed
    assert_same(native, tmp_path / "out", to)


def test_a_damaged_image_stops_the_conversion(published, tmp_path):
    (published.root / "train" / "images" / "33.png").write_bytes(b"\x89PNG\r\n\x1a\nhalf")
    with pytest.raises(DatasetError, match=r"33\.png is not a readable image"):
        convert(published.root, tmp_path / "out", "native")
    assert not (tmp_path / "out").exists()


def test_images_of_different_sizes_stop_the_conversion(published, tmp_path):
    Image.new("RGB", (9, 8)).save(published.root / "train" / "images" / "33.png")
    with pytest.raises(DatasetError, match=r"33\.png is 9x8 pixels; the dataset's are 8x8"):
        convert(published.root, tmp_path / "out", "decoded")


@pytest.mark.parametrize("to", ["published", "decoded"])
def test_a_dataset_that_is_still_being_rendered_is_not_converted(native, tmp_path, to):
    data = json.loads((native.root / "manifest.json").read_text())
    data["shards"] = [record for record in data["shards"] if record["name"] != "train-00001-of-00003.parquet"]
    (native.root / "manifest.json").write_text(json.dumps(data))
    (native.root / "data" / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(DatasetError, match="holds 38 of the 70 images of the split 'train'"):
        convert(native.root, tmp_path / "out", to)


def test_images_in_other_formats_keep_their_pixels(tmp_path, make_native):
    def webp(pixels):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "WEBP", lossless=True)
        return file.getvalue()

    made = make_native(tmp_path / "webp", encode=webp)
    assert ThreeDIdent(made.root).encoded(0).startswith(b"RIFF")
    convert(made.root, tmp_path / "out", "published")
    assert_same(made, tmp_path / "out", "published")


def test_out_must_be_new_or_empty(native, published, tmp_path):
    with pytest.raises(ValueError, match="OUT is the dataset itself"):
        convert(native.root, native.root, "published")
    with pytest.raises(ValueError, match=r"is inside the dataset .*to put a decoded cache beside"):
        convert(native.root, native.root / "decoded", "decoded")
    with pytest.raises(ValueError, match=r"holds something else already \(test\)"):
        convert(native.root, published.root, "published")
    with pytest.raises(ValueError, match=r"holds something else already \(test\)"):
        convert(native.root, published.root, "decoded")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        convert(native.root, tmp_path / "file", "decoded")
    (tmp_path / "empty").mkdir()
    convert(native.root, tmp_path / "empty", "published")
    assert_same(native, tmp_path / "empty", "published")


def test_a_cache_of_another_dataset_is_not_replaced(native, published, tmp_path):
    convert(native.root, tmp_path / "cache", "decoded")
    with pytest.raises(ValueError, match="is a cache of something else"):
        convert(published.root, tmp_path / "cache", "decoded")
    assert_same(native, tmp_path / "cache", "decoded")


def test_arguments_that_cannot_be_right(native, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        convert(tmp_path / "nowhere", tmp_path / "out", "native")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match=r"holds no dataset: expected data/\*\.parquet"):
        convert(tmp_path / "empty", tmp_path / "out", "native")
    with pytest.raises(ValueError, match=r"unknown layout .zip.; choose from native, published, decoded"):
        convert(native.root, tmp_path / "out", "zip")
    with pytest.raises(ValueError, match="the number of rows in a shard is 1 or larger, not 0"):
        convert(native.root, tmp_path / "out", "native", rows_per_shard=0)


def test_a_disk_that_is_too_small_for_the_cache(native, tmp_path, monkeypatch):
    needed = 79 * 8 * 8 * 3
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=needed - 1))
    with pytest.raises(OSError, match=f"decoding the images takes {needed:,} bytes, but {needed - 1:,} are free"):
        convert(native.root, tmp_path / "out", "decoded")


def test_memory_does_not_grow_with_the_dataset(tmp_path, make_native):
    peaks = []
    for count in (1000, 4000):
        made = make_native(tmp_path / str(count), {"train": count}, side=16, rows_per_shard=500)
        tracemalloc.start()
        convert(made.root, tmp_path / f"{count}-out", "decoded")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    images, latents = 3000 * 16 * 16 * 3, 3000 * (40 + 8)
    assert peaks[1] - peaks[0] < 3 * latents < images / 5
