"""The small dataset that comes with the package."""

from ident3d.scene.world import World
from ident3d.storage.layouts import resolve_root
from ident3d.storage.manifest import Manifest
from ident3d.storage.verification import verify
from render.blender.quality import quality
from render.dataset.plan import Recipe


def test_the_sample_is_sound():
    assert verify("sample") == []


def test_the_sample_is_what_the_defaults_render():
    manifest = Manifest.read(resolve_root("sample"))
    assert manifest.splits == {"train": 1024, "test": 256}
    assert (manifest.resolution, manifest.seed, manifest.latents) == (64, 0, "uniform")
    assert Recipe.of(manifest) == Recipe(World(), quality("standard"), manifest.render["blender"])
