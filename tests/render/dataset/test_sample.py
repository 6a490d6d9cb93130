"""The small dataset that comes with the package."""

from ident3d.scene.world import World
from ident3d.storage.layouts import resolve_root
from ident3d.storage.manifest import Manifest
from ident3d.storage.verification import verify
from render.blender.quality import QUALITIES
from render.dataset.plan import ImageSpec


def test_the_sample_is_sound():
    assert verify("sample").faults == ()


def test_the_sample_is_what_the_defaults_render():
    manifest = Manifest.read(resolve_root("sample"))
    assert manifest.splits == {"train": 1024, "test": 256}
    assert (manifest.resolution, manifest.seed, manifest.latents) == (64, 0, "uniform")
    assert ImageSpec.of(manifest) == ImageSpec(World(), QUALITIES["standard"], 64, 0, manifest.render["blender"])
