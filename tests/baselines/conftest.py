"""A small dataset of pictures that are functions of their latents."""

import numpy as np
import pytest
from PIL import Image

from ident3d import sample_latents

SIDE = 32


def _pictures(latents):
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
        for i, pixels in enumerate(_pictures(latents)):
            Image.fromarray(pixels).save(images / f"{i:0{digits}d}.png")
    return root


@pytest.fixture(scope="session")
def pictures_root(tmp_path_factory):
    """A folder of 160 train and 80 test pictures of 32x32 in the published layout."""
    return _write(tmp_path_factory.mktemp("pictures"), {"train": 160, "test": 80})
