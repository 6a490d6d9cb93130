"""A small dataset of images that are functions of their latents."""

import hashlib

import numpy as np
import pytest
import torch
from PIL import Image

from baselines.recipes import RECIPES
from ident3d import FACTORS, Box, sample_latents
from ident3d.conditionals import parse
from ident3d.randomness import torch_generator
from ident3d.storage.images import encode_png
from ident3d.storage.manifest import Manifest, ShardRecord
from ident3d.storage.native import ShardRows, write_shard

SIDE = 32


def _images(latents):
    """Squares of 8x8 pixels whose colours are smooth functions of the latents."""
    weight = np.random.default_rng(0).normal(size=(latents.shape[1], 4 * 4 * 3))
    colours = np.uint8(127 * (np.tanh(latents @ weight / 2) + 1)).reshape(-1, 4, 4, 3)
    return colours.repeat(SIDE // 4, axis=1).repeat(SIDE // 4, axis=2)


def _write(root, counts):
    for split, count in counts.items():
        latents = sample_latents(count, split=split)
        images = root / split / "images"
        images.mkdir(parents=True)
        np.save(images.parent / "raw_latents.npy", latents)
        digits = len(str(count - 1))
        for i, pixels in enumerate(_images(latents)):
            Image.fromarray(pixels).save(images / f"{i:0{digits}d}.png")
    return root


def _write_pairs(root, counts, conditional):
    """Write a dataset of exact pairs in the native layout, one shard a split."""
    law = parse(conditional, FACTORS)
    plan = Manifest(splits=counts, rows_per_shard=1000, resolution=SIDE, factors=FACTORS, seed=0, pairs=conditional)
    records = []
    for split, count in counts.items():
        ((name, _),) = plan.planned(split)
        latents = sample_latents(count, split=split)
        drawn = law.sample(torch.from_numpy(latents), Box(10), torch_generator(0, f"test/{split}")).numpy()
        images, images_pos = ([encode_png(image) for image in _images(z)] for z in (latents, drawn))
        path = root / "data" / name
        write_shard(path, ShardRows(np.arange(count), images, latents, images_pos, drawn))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        records.append(ShardRecord(name, split, 0, count, digest, {"device": "cpu"}))
    plan.with_shards(tuple(records)).write(root)
    return root


@pytest.fixture(scope="session")
def pairs_root(tmp_path_factory):
    """The same with an exact positive for each image, under the anisotropic recipes' conditional."""
    conditional = RECIPES["aninfonce-box"].conditional
    return _write_pairs(tmp_path_factory.mktemp("pairs"), {"train": 160, "test": 80}, conditional)


@pytest.fixture(scope="session")
def images_root(tmp_path_factory):
    """A folder of 160 train and 80 test images of 32x32 in the published layout."""
    return _write(tmp_path_factory.mktemp("images"), {"train": 160, "test": 80})
