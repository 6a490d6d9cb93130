"""A stand-in for the pool of workers, and small plans for it."""

import hashlib
import io
import itertools
from dataclasses import replace

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from ident3d.scene.world import World
from ident3d.storage.manifest import Manifest
from render.blender.quality import quality
from render.dataset.plan import Plan, Recipe

RESOLUTION = 8


class FakeRenderer:
    """Images of noise that depend on scene and seed alone, in another order than they were asked for.

    Args:
        fail_after: number of images after which ``error`` is raised.
    """

    def __init__(self, fail_after=None, error=RuntimeError):
        self.fail_after = fail_after
        self.error = error
        self.rendered = []

    def render(self, jobs):
        jobs = iter(jobs)
        while window := list(itertools.islice(jobs, 3)):
            for job in reversed(window):
                if len(self.rendered) == self.fail_after:
                    raise self.error
                self.rendered.append(job.key)
                yield job.key, self.image(job.scene, job.seed)

    def image(self, scene, seed):
        digest = hashlib.sha256(f"{seed} {scene.to_json()}".encode()).digest()
        pixels = np.random.default_rng(list(digest)).integers(0, 256, (RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
        info = PngInfo()
        info.add_text("Date", f"image {len(self.rendered)}")  # as Blender's images carry what changes every time
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG", pnginfo=info)
        return file.getvalue()


class Counter:
    """A progress bar that only counts."""

    count = 0

    def update(self, n):
        self.count += n

    def skip(self, n):
        self.count += n


def small_plan(*, given=None, conditional=None, **changes):
    """Return a plan of 20 + 10 images in shards of 8."""
    recipe = Recipe(World(), quality("draft"), "4.5")
    manifest = Manifest(
        splits={"train": 20, "test": 10},
        rows_per_shard=8,
        resolution=RESOLUTION,
        seed=3,
        pairs=None if conditional is None else str(conditional),
        render=recipe.to_json(),
    )
    return Plan(replace(manifest, **changes), recipe, given, conditional)


def files_of(root):
    """Return the bytes of every shard of a dataset, by name."""
    return {path.name: path.read_bytes() for path in (root / "data").iterdir()}
