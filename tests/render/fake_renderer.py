"""A stand-in for the pool of workers, and small plans for it."""

import hashlib
import io
import itertools
from dataclasses import replace

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from ident3d.scene.world import World
from ident3d.spaces import Box
from render.blender.quality import QUALITIES
from render.dataset.plan import ImageSpec, Plan
from render.dataset.render import render_shards
from render.dataset.spec import Part
from render.dataset.writer import DatasetWriter

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


class Shifted:
    """A conditional in miniature: a draw of its own for every row."""

    def sample(self, z, space, generator):
        assert space == Box(10)
        import torch

        return (z + 0.1 * torch.rand(z.shape, generator=generator)).clamp(-1, 1)

    def __str__(self):
        return "shifted"


def small_plan(*, given=None, conditional=None, seed=3, **changes):
    """Return a plan of 20 + 10 images in shards of 8."""
    images = ImageSpec(World(), QUALITIES["draft"], RESOLUTION, seed, "4.5")
    plan = Plan({"train": 20, "test": 10}, 8, images, given, conditional)
    return replace(plan, **changes)


def render_plan_into(root, plan, part=None, renderer=None):
    """Render the unfinished shards of a plan, or of a part of it; return the folder."""
    writer = DatasetWriter(root, plan.manifest)
    writer.write_manifest()
    shards = writer.unfinished((part or Part()).take(plan.shards))
    render_shards(writer, plan, shards, renderer or FakeRenderer(), made_by={"device": "cpu"}, progress=Counter())
    return root


def files_of(root):
    """Return the bytes of every shard of a dataset, by name."""
    return {path.name: path.read_bytes() for path in (root / "data").iterdir()}
