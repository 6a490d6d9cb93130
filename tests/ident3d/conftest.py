"""Small datasets on disk, of noise images, written without the code that reads them where that is possible."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ident3d.factors import FACTORS
from ident3d.storage.card import write_card
from ident3d.storage.images import encode_png
from ident3d.storage.manifest import Manifest, ShardRecord
from ident3d.storage.native import ShardRows, write_shard

COUNTS = {"train": 70, "test": 9}
SIDE = 8


@dataclass(frozen=True)
class Made:
    """A dataset that was made for a test.

    Attributes:
        root: its folder.
        latents: (N, d) float32 of each split.
        pixels: (N, H, W, 3) uint8 of each split.
        latents_pos: likewise, of the exact positives.
        pixels_pos: likewise.
    """

    root: Path
    latents: dict
    pixels: dict
    latents_pos: dict
    pixels_pos: dict


def _contents(root, counts, side, width):
    rng = np.random.default_rng(7)

    def latents():
        return {split: rng.uniform(-1, 1, (n, width)).astype(np.float32) for split, n in counts.items()}

    def pixels():
        return {split: rng.integers(0, 256, (n, side, side, 3), dtype=np.uint8) for split, n in counts.items()}

    return Made(root, latents(), pixels(), latents(), pixels())


def make_native(
    root,
    counts=COUNTS,
    *,
    side=SIDE,
    pairs=False,
    rows_per_shard=32,
    factors=FACTORS,
    manifest=True,
    encode=encode_png,
):
    """Write a dataset in the native layout, with or without exact positives and manifest."""
    made = _contents(root, counts, side, len(factors))
    plan = Manifest(
        splits=counts,
        rows_per_shard=rows_per_shard,
        resolution=side,
        factors=factors,
        seed=3,
        pairs="normal(sigma=0.1)" if pairs else None,
        render={"hue_map": "wrapped"},
    )
    records = []
    for split in counts:
        for name, rows in plan.planned(split):
            part = slice(rows.start, rows.stop)
            path = root / "data" / name
            shard = ShardRows(
                np.arange(rows.start, rows.stop),
                [encode(image) for image in made.pixels[split][part]],
                made.latents[split][part],
                [encode(image) for image in made.pixels_pos[split][part]] if pairs else None,
                made.latents_pos[split][part] if pairs else None,
            )
            write_shard(path, shard)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            records.append(ShardRecord(name, split, rows.start, len(rows), digest, {"device": "cpu"}))
    if manifest:
        plan = plan.with_shards(tuple(records))
        plan.write(root)
        write_card(root, plan)
    return made


def make_published(root, counts=COUNTS, *, side=SIDE, digits=None, nested=False):
    """Write a dataset as the published archives hold it."""
    made = _contents(root, counts, side, 10)
    for split, count in counts.items():
        folder = root / "3dident" / split if nested else root / split
        (folder / "images").mkdir(parents=True)
        np.save(folder / "raw_latents.npy", made.latents[split].astype(np.float64))
        np.save(folder / "latents.npy", made.latents[split].astype(np.float64))
        width = digits or max(1, int(np.ceil(np.log10(count))))
        for row, image in enumerate(made.pixels[split]):
            Image.fromarray(image).save(folder / "images" / f"{row:0{width}d}.png")
    return made


@pytest.fixture
def native(tmp_path):
    """A small dataset in the native layout."""
    return make_native(tmp_path / "native")


@pytest.fixture
def native_pairs(tmp_path):
    """A small dataset in the native layout with exact positives."""
    return make_native(tmp_path / "pairs", pairs=True)


@pytest.fixture
def published(tmp_path):
    """A small dataset in the published layout."""
    return make_published(tmp_path / "published")


@pytest.fixture(name="make_native")
def _make_native():
    return make_native


@pytest.fixture(name="make_published")
def _make_published():
    return make_published
