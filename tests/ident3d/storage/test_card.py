"""The dataset card."""

from dataclasses import replace

import numpy as np
import pytest

from ident3d.factors import FACTORS, Factor, Factors
from ident3d.latents import sample_latents
from ident3d.scene.world import World
from ident3d.storage.card import card, write_card
from ident3d.storage.images import encode_png
from ident3d.storage.manifest import Manifest, ShardRecord
from ident3d.storage.native import ShardRows, schema, write_shard

MANIFEST = Manifest(
    splits={"train": 20, "test": 10},
    rows_per_shard=1000,
    resolution=16,
    seed=0,
    render={"hue_map": "wrapped", "quality": {"name": "draft", "samples": 2, "denoiser": {"quality": "HIGH"}}},
)


def _header(text):
    yaml = pytest.importorskip("yaml")
    start, header, _ = text.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(header)


def _write(root, manifest, *, pairs=False):
    records = []
    for split in manifest.splits:
        for name, rows in manifest.planned(split):
            images = [encode_png(np.full((16, 16, 3), row, np.uint8)) for row in rows]
            latents = sample_latents(len(rows), 0, rows.start, split=split)
            second = (images[::-1], latents[::-1]) if pairs else (None, None)
            write_shard(root / "data" / name, ShardRows(np.array(rows), images, latents, *second))
            records.append(ShardRecord(name, split, rows.start, len(rows), "0" * 64, {"device": "cpu"}))
    manifest = manifest.with_shards(tuple(records))
    manifest.write(root)
    write_card(root, manifest)
    return manifest


@pytest.mark.parametrize("pairs", [False, True])
def test_datasets_loads_the_folder_by_its_card(tmp_path, pairs):
    datasets = pytest.importorskip("datasets")
    _write(tmp_path, replace(MANIFEST, pairs="normal(sigma=0.1)" if pairs else None), pairs=pairs)
    loaded = datasets.load_dataset(str(tmp_path), cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in loaded.items()} == MANIFEST.splits
    assert loaded["test"].features == datasets.Features.from_arrow_schema(schema(10, pairs=pairs))
    np.testing.assert_array_equal(np.asarray(loaded["train"][13]["image"]), 13)
    np.testing.assert_array_equal(loaded["test"][3]["latents"], sample_latents(1, 0, 3, split="test")[0])


def test_the_card_names_the_splits_that_are_there_and_no_others():
    files = _header(card(MANIFEST, ["train"]))["configs"][0]["data_files"]
    assert files == [{"split": "train", "path": "data/train-*.parquet"}]
    assert _header(card(MANIFEST, []))["configs"][0]["data_files"] == []


@pytest.mark.parametrize(
    ("count", "size"), [(970, "n<1K"), (990, "1K<n<10K"), (250_000, "100K<n<1M"), (3_000_000, "1M<n<10M")]
)
def test_the_card_says_how_large_the_dataset_is(count, size):
    header = _header(card(replace(MANIFEST, splits={"train": count, "test": 25}), ["train"], licence="other"))
    assert header["size_categories"] == [size]
    assert header["license"] == "other"


def test_the_card_says_what_there_is_to_know(tmp_path):
    text = card(_write(tmp_path, MANIFEST), ["train", "test"])
    for words in (
        "20 train, 10 test",
        "| 9 | `ground_hue` | hue | -1.5708 | 1.5708 | rad |",
        "| seed | 0 |",
        "| quality | draft, samples 2 |",
        "| made by | device cpu |",
        "zimmermann2021contrastive",
        "a colour of its own",
    ):
        assert words in text
    assert "not complete" not in text
    assert "0 of 20 train, 0 of 10 test" in card(MANIFEST, [])
    assert "stays the same" in card(replace(MANIFEST, render={"hue_map": "published"}), ["train"])
    assert "not recorded" in card(replace(MANIFEST, render={}, seed=None), ["train"])
    given = card(replace(MANIFEST, latents={"train": "ab", "test": "uniform"}), ["train"])
    assert "| latents | train: given (SHA-256 ab); test: uniform in [-1, 1], by seed and row |" in given


def test_the_card_of_a_variant_does_not_speak_of_the_teapot():
    world = World().to_json()
    scene = {key: world[key] for key in ("camera", "bodies", "lights")}
    plain = replace(MANIFEST, render=MANIFEST.render | {"world": scene})
    assert card(plain, ["train"]) == card(MANIFEST, ["train"])
    assert "Images of a teapot over a coloured ground, each with the 10 latents" in card(plain, ["train"])
    dark = replace(MANIFEST, render=MANIFEST.render | {"world": scene | {"lights": []}})
    more = replace(MANIFEST, factors=Factors((*FACTORS, Factor("saturation", "colour", 0.0, 1.0, "1"))))
    for variant, count in ((dark, 10), (more, 11)):
        text = card(variant, ["train"])
        assert _header(text)["pretty_name"] == "A variant of 3DIdent"
        assert f"Images of a rendered scene, each with the {count} latents" in text
    assert "A factor of unit 1 is a plain number" in card(more, ["train"])
