"""Check, verify, traversal and contact sheet by their command lines, and how those tell a folder from a command."""

import shutil

import numpy as np
import pytest
from PIL import Image

from ident3d.storage.manifest import Manifest
from ident3d.storage.native import NativeSplit, ShardReader, ShardRows, write_shard
from render.__main__ import main
from render.blender.check import usable_gpus
from render.blender.pool import PoolSpec
from render.blender.protocol import DeviceMissingError, WorkerDiedError
from tests.render.command_line import SMALL, needs_bpy


@needs_bpy
def test_verify_finds_the_images_equal(rendered, capsys):
    assert main(["verify", str(rendered), "--sample", "5", "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count(": equal\n") == 5
    assert "5 images are as the manifest describes them" in out


@needs_bpy
def test_verify_finds_an_image_of_something_else(rendered, tmp_path, capsys):
    root = shutil.copytree(rendered, tmp_path / "changed")
    path = root / "data" / Manifest.read(root).shards[0].name
    reader = ShardReader(path)
    images = [reader.image(row) for row in range(reader.rows)]
    write_shard(path, ShardRows(reader.index(), images[1:] + images[:1], reader.latents()))
    assert main(["verify", str(root), "--sample", "18", "--workers", "1"]) == 1
    out = capsys.readouterr().out
    assert out.count(": equal\n") == 18 - reader.rows
    assert "below 40 dB: test 0, test 1" in out


@pytest.mark.parametrize("tolerance", ["nan", "0", "-3"])
def test_a_tolerance_that_anything_is_within_is_refused(tolerance, caplog):
    assert main(["verify", "sample", "--tolerance", tolerance]) == 2
    assert "expected a positive tolerance in dB" in caplog.text


def test_verify_of_what_was_not_rendered_here_is_refused(tmp_path, caplog):
    np.save(tmp_path / "raw_latents.npy", np.zeros((2, 10)))
    assert main(["verify", str(tmp_path)]) == 2
    assert "which says how its images were made" in caplog.text


@needs_bpy
def test_a_traversal_is_drawn(tmp_path, capsys):
    path = tmp_path / "new" / "figure.png"
    options = ("--steps", "2", "--resolution", "16", "--quality", "draft", "--workers", "1")
    assert main(["traversal", str(path), *options]) == 0
    with Image.open(path) as image:
        assert image.width > 160
    assert "2 values of 10 factors" in capsys.readouterr().out


@needs_bpy
def test_a_contact_sheet_is_drawn(rendered, tmp_path):
    assert main(["contact-sheet", str(rendered), str(tmp_path / "sheet.png"), "--split", "test"]) == 0
    with Image.open(tmp_path / "sheet.png") as sheet:
        corner = np.asarray(sheet)[:16, -16:]
    stored = NativeSplit(rendered, "test")
    assert any((corner == stored.pixels(row)).all() for row in range(6))


@pytest.mark.parametrize("arguments", [("traversal",), ("contact-sheet", "sample")], ids=["traversal", "contact sheet"])
@pytest.mark.parametrize(
    ("name", "said"), [("figure", "ends in .png"), ("figure.txt", "ends in .png"), ("folder.png", "is a folder")]
)
def test_an_image_that_cannot_be_written_is_refused_before_the_work(tmp_path, caplog, arguments, name, said):
    (tmp_path / "folder.png").mkdir()
    assert main([*arguments, str(tmp_path / name)]) == 2
    assert said in caplog.text


@pytest.mark.slow
@needs_bpy
def test_check_says_what_there_is_and_renders_an_image(capsys):
    assert main(["check", "--resolution", "16", "--quality", "draft"]) == 0
    out = capsys.readouterr().out
    for words in ("Python 3.11 runs bpy 4.5", "system libraries", "image, 16x16, draft:", "devices: cpu"):
        assert words in out


def test_a_device_that_breaks_a_worker_does_not_hide_the_others(monkeypatch):
    def pool(spec, *_):
        raise WorkerDiedError("driver") if spec.device == "cuda" else DeviceMissingError("none")

    monkeypatch.setattr(PoolSpec, "pool", pool)
    assert list(usable_gpus(PoolSpec())) == ["cuda (not usable: driver)"]


@needs_bpy
def test_check_of_a_device_that_is_not_there_fails(capsys):
    assert main(["check", "--device", "metal", "--resolution", "16"]) == 1
    assert "nothing can be rendered: device metal is not available" in capsys.readouterr().out


def test_a_folder_that_is_called_like_a_command_is_a_folder(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "check").mkdir()
    (tmp_path / "check" / "thesis.tex").write_text("")
    assert main(["./check", *SMALL]) == 2
    assert "holds something else (thesis.tex)" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--help",), ("--hue-map", "python -m render verify", "--shard")),
        (("verify", "--help"), ("--tolerance", "--device")),
        (("check", "--help"), ("--quality",)),
        (("traversal", "--help"), ("--steps",)),
        (("contact-sheet", "--help"), ("--count",)),
        (("world", "--help"), ("--out",)),
    ],
)
def test_every_command_has_a_help_with_an_example(capsys, arguments, words):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for word in (*words, "Example"):
        assert word in out


@pytest.mark.parametrize("arguments", [(), ("root", "--train", "many"), ("root", "--colour"), ("verify",)])
def test_a_command_line_that_cannot_be_read_is_refused(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
