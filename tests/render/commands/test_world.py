"""A world of one's own, by the command lines: written, rendered, resumed, verified, merged, served and shown."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import ident3d
from ident3d.__main__ import main as ident3d_main
from ident3d.scene.world import World
from ident3d.storage.manifest import Manifest
from render.__main__ import main
from tests.render.command_line import ROOT, needs_bpy
from tests.render.fake_renderer import files_of

SATURATION = ROOT / "examples" / "saturation.json"
SPLITS = ("--train", "4", "--test", "2", "--rows-per-shard", "2")
OPTIONS = (*SPLITS, "--pairs", "normal(sigma={saturation: 0.4, rest: 0.1})")
FAST = ("--resolution", "16", "--quality", "draft", "--workers", "1")


def test_the_world_of_3dident_is_written_to_start_from(tmp_path, capsys):
    path = tmp_path / "new" / "world.json"
    assert main(["world", "-o", str(path)]) == 0
    assert World.read(path) == World()
    capsys.readouterr()
    assert main(["world"]) == 0
    assert capsys.readouterr().out == path.read_text()


def test_the_example_is_the_world_of_3dident_with_an_eleventh_factor():
    example, plain = json.loads(SATURATION.read_text()), World().to_json()
    assert example["factors"].pop() == {
        "name": "object_saturation",
        "group": "saturation",
        "low": 0.25,
        "high": 1.0,
        "unit": "1",
        "period": None,
    }
    assert example["bodies"][0]["paint"]["saturation"] == "object_saturation"
    example["bodies"][0]["paint"]["saturation"] = 1.0
    assert example == plain


@pytest.fixture(scope="module")
def variant(tmp_path_factory):
    """A variant in two parts: the first with its world, the second without, which the folder knows."""
    root = tmp_path_factory.mktemp("variant") / "dataset"
    assert main([str(root), "--world", str(SATURATION), *OPTIONS, *FAST, "--shard", "0/2"]) == 0
    assert not Manifest.read(root).is_complete
    assert main([str(root), *OPTIONS, *FAST, "--shard", "1/2"]) == 0
    return root


@needs_bpy
def test_a_variant_is_resumed_with_its_world_and_without(variant, capsys):
    before = files_of(variant)
    assert Manifest.read(variant).is_complete
    for world in ((), ("--world", str(SATURATION))):
        assert main([str(variant), *world, *OPTIONS, *FAST, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rendered"] == 0
    assert files_of(variant) == before


@needs_bpy
def test_another_world_is_refused_with_what_differs(variant, tmp_path, caplog):
    before = files_of(variant)
    path = tmp_path / "world.json"
    path.write_text(json.dumps(World().to_json()))
    assert main([str(variant), "--world", str(path), *SPLITS, *FAST]) == 2
    assert "factors.object_saturation: {'name': 'object_saturation'" in caplog.text
    assert "render.world.bodies[0].paint.saturation: 'object_saturation' against 1.0" in caplog.text
    assert files_of(variant) == before


@needs_bpy
def test_a_variant_is_verified_and_merged(variant, tmp_path, capsys):
    assert ident3d_main(["verify", str(variant)]) == 0
    assert main(["verify", str(variant), "--sample", "3", "--workers", "1"]) == 0
    assert "3 images are as the manifest describes them" in capsys.readouterr().out
    copy = shutil.copytree(variant, tmp_path / "copy", ignore=shutil.ignore_patterns(".render"))
    Manifest.read(copy).with_shards(()).write(copy)
    assert main([str(copy), "--merge"]) == 0
    assert "3 of 3 shards, none missing, none duplicated" in capsys.readouterr().out
    assert Manifest.read(copy).is_complete


@needs_bpy
def test_a_variant_is_served_with_its_factors(variant, tmp_path):
    data = ident3d.ThreeDIdent(variant, split="train")
    image, latents = data[1]
    assert (image.size, latents.shape, len(data.factors)) == ((16, 16), (11,), 11)
    np.testing.assert_array_equal(data.latents, ident3d.sample_latents(4, seed=0, factors=data.factors))
    assert data.positives.latents.shape == (4, 11)
    assert ident3d_main(["info", str(variant)]) == 0
    assert "Images of a rendered scene, each with the 11 latents" in (variant / "README.md").read_text()
    assert main(["contact-sheet", str(variant), str(tmp_path / "sheet.png")]) == 0


@needs_bpy
def test_a_traversal_shows_every_factor_of_a_world(tmp_path, capsys):
    path = tmp_path / "traversal.png"
    assert main(["traversal", str(path), "--world", str(SATURATION), "--steps", "2", *FAST]) == 0
    assert "2 values of 11 factors" in capsys.readouterr().out
    with Image.open(path) as image:
        shown = np.asarray(image.convert("RGB"), dtype=float)
    pale, vivid = (shown[-34:-18, -16:], shown[-16:, -16:])  # the last column, its saturation at -1 and at 1
    assert np.ptp(pale, axis=2).max() < np.ptp(vivid, axis=2).max()


@pytest.mark.parametrize("command", [("dataset",), ("traversal", "figure.png")])
def test_a_world_with_errors_is_refused_with_all_of_them_before_any_work(tmp_path, monkeypatch, caplog, command):
    monkeypatch.chdir(tmp_path)
    data = World().to_json()
    data["bodies"][0]["paint"]["saturation"] = 2
    data["lights"][2]["target"] = "moon"
    data["lights"][0]["power"] = "brightness"
    (tmp_path / "world.json").write_text(json.dumps(data))
    assert main([*command, "--world", "world.json"]) == 2
    for said in (
        "world.json.bodies[0].paint: saturation is a number in [0, 1], not 2",
        "light spotlight is aimed at 'moon'",
        "light zenith: power is bound to 'brightness', which is not a factor",
    ):
        assert said in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["world.json"]


def test_latents_have_a_column_for_each_factor_of_the_world(tmp_path, caplog):
    np.save(tmp_path / "mine.npy", np.zeros((3, 10)))
    options = ("--world", str(SATURATION), "--latents", str(tmp_path / "mine.npy"))
    assert main([str(tmp_path / "dataset"), *options]) == 2
    assert "expected numeric latents of shape (N, 11)" in caplog.text
