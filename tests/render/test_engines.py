"""The live renderer in the place of Blender: the same folders, and never mixed with those of Cycles."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ident3d import Box, Sphere, ThreeDIdent, live
from ident3d.conditionals import AnisotropicNormal
from ident3d.errors import DatasetError
from ident3d.pairs import RenderedPairs
from ident3d.spaces import FactorSpace
from ident3d.storage.manifest import LatentSubset, Manifest
from ident3d.storage.verification import verify
from leaderboard.tracks import read_tracks
from render.__main__ import main
from render.blender.pool import PoolSpec
from render.dataset.merge import merge_parts
from render.dataset.plan import ImageSpec
from render.dataset.render import render_dataset
from render.dataset.spec import DatasetSpec, Part, find_quality
from render.dataset.verify import VerifySpec, verify_images
from tests.render.fake_renderer import files_of

SPEC = DatasetSpec(train=20, test=9, resolution=8, engine="live", quality="draft", rows_per_shard=8)
NAMES = ("position_x", "position_y", "object_hue", "ground_hue")
SUBSET = {"latent_space": "sphere", "factors": NAMES, "others": {"position_z": 0.25}}
ONE = PoolSpec(workers=1, device="cpu")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    root = tmp_path_factory.mktemp("live")
    assert render_dataset(root, SPEC, ONE).rendered == 29
    return root


def test_a_live_dataset_has_the_images_of_its_latents(rendered):
    data = ThreeDIdent(rendered, split="test")
    images = live.render(data.latents, 8, "cpu", grid="draft").permute(0, 2, 3, 1)
    assert torch.equal(data.pixels(range(9)), images)
    assert verify(rendered).faults == ()
    found = verify_images(rendered, VerifySpec(sample=5), ONE)
    assert [comparison.psnr for comparison in found.comparisons] == [float("inf")] * 5


def test_its_manifest_says_engine_grid_and_version(rendered):
    manifest = Manifest.read(rendered)
    assert manifest.render["engine"] == "live"
    assert manifest.render["quality"] == {"name": "draft", "grid": 2, "version": live.VERSION}
    assert "blender" not in manifest.render
    assert manifest.shards[0].made_by["engine"] == f"live renderer {live.VERSION}"
    assert ImageSpec.of(manifest).quality == find_quality("draft", "live")
    fingerprints = {
        replace(manifest, render=manifest.render | {"quality": manifest.render["quality"] | change}).fingerprint("test")
        for change in ({}, {"grid": 3}, {"version": 99})
    }
    assert len(fingerprints) == 3


def test_parts_threads_and_runs_that_were_stopped_make_the_same_files(rendered, tmp_path):
    for number in (1, 0):
        render_dataset(tmp_path, replace(SPEC, part=Part(number, 2)), PoolSpec(workers=2, device="cpu"))
    assert merge_parts(tmp_path).faults == ()
    assert files_of(tmp_path) == files_of(rendered)
    assert render_dataset(tmp_path, SPEC, ONE).rendered == 0


def test_engines_are_never_mixed(rendered, tmp_path):
    with pytest.raises(ValueError, match=r"other settings(.|\n)*render.engine: 'live' against"):
        render_dataset(rendered, replace(SPEC, engine="cycles"), ONE)
    other = Manifest.read(rendered)
    quality = other.render["quality"] | {"version": live.VERSION + 1}
    replace(other, render=other.render | {"quality": quality}, shards=()).write(tmp_path)
    with pytest.raises(ValueError, match=rf"render.quality.version: {live.VERSION + 1} against {live.VERSION}"):
        render_dataset(tmp_path, SPEC, ONE)
    with pytest.raises(DatasetError, match="unknown engine 'povray'"):
        ImageSpec.of(replace(other, render=other.render | {"engine": "povray"}))


def test_leaderboards_rank_images_of_cycles_alone(rendered, tmp_path):
    for track in read_tracks(tmp_path).values():
        faults = track.mismatches(ThreeDIdent(rendered, split="test"))
        assert any(
            "rendered by the engine live, and entries are ranked on those of Cycles" in fault for fault in faults
        )


@pytest.mark.parametrize(
    ("changes", "pool", "message"),
    [
        ({"quality": "published"}, ONE, "unknown quality 'published' of the live renderer; choose from draft"),
        ({"engine": "povray"}, ONE, "unknown engine 'povray'; choose from cycles, live"),
        ({"quality": find_quality("draft")}, ONE, "draft is a quality of the engine cycles, not of live"),
        ({}, PoolSpec(blender="blender"), "takes no Blender"),
        ({}, PoolSpec(device="optix"), "not on 'optix'"),
        ({}, PoolSpec(workers=0), "1 or more workers, not 0"),
    ],
)
def test_what_the_live_renderer_cannot_do_is_named(tmp_path, changes, pool, message):
    with pytest.raises(ValueError, match=message):
        render_dataset(tmp_path / "new", replace(SPEC, **changes), pool)
    assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def on_a_sphere(tmp_path_factory):
    root = tmp_path_factory.mktemp("sphere")
    pairs = "anisotropic_normal(precision=[5, 10, 20, 40])"
    render_dataset(root, replace(SPEC, pairs=pairs, **SUBSET), ONE)
    return root


def test_anchors_and_positives_lie_on_the_sphere_and_what_is_held_is(on_a_sphere):
    data = ThreeDIdent(on_a_sphere)
    space = FactorSpace(Sphere(4), NAMES, {"position_z": 0.25})
    for latents in (data.latents, data.positives.latents):
        space.check(latents)
    assert data.latents[:, 3].std() > 0.3  # neither in the space nor held
    assert not torch.equal(data.latents[:, 3], data.positives.latents[:, 3])
    conditional = AnisotropicNormal((5, 10, 20, 40))
    cosine = (space.coordinates(data.latents) * space.coordinates(data.positives.latents)).sum(dim=1)
    assert cosine.mean() > 0.8
    conditional.check(space.space)
    batch = RenderedPairs(data, 4).batch(0)
    space.check(batch.z_pos)


def test_a_manifest_says_where_its_latents_live_and_verify_knows(on_a_sphere, rendered, tmp_path):
    manifest = Manifest.read(on_a_sphere)
    assert manifest.subset == LatentSubset("sphere", NAMES, {"position_z": 0.25})
    assert manifest.factor_space().own.names == NAMES
    assert replace(manifest, subset=None).fingerprint("test") != manifest.fingerprint("test")
    assert "on the unit sphere, position_z held at 0.25" in (on_a_sphere / "README.md").read_text()
    assert verify(on_a_sphere).faults == ()
    assert merge_parts(on_a_sphere).faults == ()
    assert "subset" not in Manifest.read(rendered).to_json()
    assert Manifest.read(rendered).factor_space().space == Box(10)
    other = replace(manifest, subset=LatentSubset("sphere", NAMES, {"position_z": 0.5}))
    (tmp_path / "data").mkdir()
    for path in (on_a_sphere / "data").iterdir():
        (tmp_path / "data" / path.name).write_bytes(path.read_bytes())
    other.write(tmp_path)
    faults = verify(tmp_path).faults
    assert any("position_z held at 0.5: row 0 has 0.25" in fault for fault in faults)


def test_rows_on_a_space_depend_on_seed_split_and_row_alone():
    space = FactorSpace(Sphere(4), NAMES)
    rows = space.rows(6, 3)
    assert torch.equal(space.rows(2, 3, 4), rows[4:])
    assert not torch.equal(space.rows(6, 3, split="test"), rows)
    assert not torch.equal(space.rows(6, 4), rows)


def test_given_latents_have_to_lie_on_the_space(tmp_path):
    space = FactorSpace(Sphere(4), NAMES, {"position_z": 0.25})
    on, off = space.rows(5, 0).numpy(), np.zeros((5, 10), dtype=np.float32)
    spec = replace(SPEC, train=None, test=0, **SUBSET)
    with pytest.raises(ValueError, match=r"the given latents \(position_x.* must lie in Sphere"):
        render_dataset(tmp_path / "off", replace(spec, latents=off), ONE)
    render_dataset(tmp_path / "on", replace(spec, latents=on, pairs="vmf(kappa=20)"), ONE)
    data = ThreeDIdent(tmp_path / "on")
    np.testing.assert_array_equal(data.latents, on)
    space.check(data.positives.latents)
    assert verify(tmp_path / "on").faults == ()


def test_the_command_takes_engine_and_space(tmp_path, capsys):
    arguments = ["--engine", "live", "--quality", "draft", "--train", "3", "--test", "2", "--resolution", "8"]
    space = ["--latent-space", "sphere", "--factors", *NAMES, "--others", "position_z=0.25", "--workers", "1"]
    assert main([str(tmp_path), *arguments, *space, "--pairs", "vmf(kappa=20)"]) == 0
    assert "complete" in capsys.readouterr().out
    assert Manifest.read(tmp_path).subset.others == {"position_z": 0.25}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (["--factors", "hue"], "unknown factors hue"),
        (["--others", "position_z"], "expected NAME=VALUE"),
        (["--factors", "position_x", "--others", "position_z=3"], "would be held at 3"),
        (["--factors", "position_x", "position_y", "--pairs", "vmf(kappa=3)"], "is not defined on Box"),
    ],
)
def test_a_space_that_does_not_fit_is_named(tmp_path, caplog, space, message):
    small = ["--train", "1", "--test", "0", "--resolution", "8"]
    assert main([str(tmp_path / "new"), "--engine", "live", *small, *space]) == 2
    assert message in caplog.text
    assert not (tmp_path / "new").exists()
