"""What runs in a worker process, without its parent."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from ident3d.codec import to_json
from ident3d.scene.world import World
from render.blender.pool import Pool
from render.blender.process import Program
from render.blender.protocol import GREETING, BlenderMissingError, Job, RenderError, Settings
from render.blender.quality import QUALITIES
from render.blender.worker import pixels_only
from tests.render.command_line import ROOT, needs_bpy
from tests.render.fake_renderer import FakeRenderer

PROGRAM = Program.find()
SETTINGS = to_json(Settings(QUALITIES["draft"], resolution=8))


def _started(folder, **environment):
    worker = subprocess.Popen(
        PROGRAM.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=PROGRAM.environment | environment
    )
    worker.stdin.write(json.dumps({"settings": SETTINGS, "folder": str(folder)}).encode() + b"\n")
    worker.stdin.flush()
    return worker


@needs_bpy
@pytest.mark.parametrize("ready", [True, False], ids=["after", "before"])
def test_a_worker_whose_parent_goes_after_or_before_it_is_ready_leaves_nothing_behind(tmp_path, ready):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "image.png").write_bytes(b"half an image")
    with _started(folder) as worker:
        if ready:
            assert GREETING in worker.stdout.readline()
        worker.stdout.close()
        worker.stdin.close()
        assert worker.wait(timeout=120) == 0
    assert not folder.exists()


@needs_bpy
def test_blender_leaves_no_folder_where_temporary_files_go(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Pool(Settings(QUALITIES["draft"], resolution=8)) as pool:
        assert len(dict(pool.render([Job(0, World().scene(np.zeros(10)), 0)]))) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_cannot_load_blender_says_why(tmp_path):
    (tmp_path / "bpy.py").write_text("raise ImportError('libGL.so.1: cannot open shared object file')\n")
    path = os.pathsep.join([str(tmp_path), PROGRAM.environment["PYTHONPATH"]])
    with _started(tmp_path / "images", PYTHONPATH=path) as worker:
        answers, _ = worker.communicate(timeout=120)
    answer = json.loads(answers.partition(GREETING)[2])
    assert answer["error"] == BlenderMissingError.__name__
    assert "libGL.so.1: cannot open" in answer["message"]


def test_the_file_finds_the_project_when_a_program_runs_it_that_knows_nothing_of_it(tmp_path):
    script = ROOT / "render" / "blender" / "worker.py"
    ended = subprocess.run(  # as Blender does: neither installed packages nor PYTHONPATH
        [sys.executable, "-I", "-S", script], cwd=tmp_path, input=b"", capture_output=True, check=False
    )
    assert b"JSONDecodeError" in ended.stderr  # it got as far as to ask for its settings


@pytest.fixture
def png():
    return FakeRenderer().image(World().scene(np.zeros(10)), 0)


def test_the_pixels_stay_and_the_rest_goes(png):
    stripped = pixels_only(png)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(stripped))), np.asarray(Image.open(io.BytesIO(png))))
    assert b"Date" in png
    assert b"Date" not in stripped
    assert pixels_only(stripped) == stripped


def test_the_same_pixels_give_the_same_bytes(png):
    renderer = FakeRenderer()
    renderer.rendered = [1, 2, 3]
    other = renderer.image(World().scene(np.zeros(10)), 0)
    assert other != png
    assert pixels_only(other) == pixels_only(png)


def test_a_damaged_image_is_refused(png):
    for damaged in (b"", png[:30], png[:-1], png[:50] + bytes([png[50] ^ 1]) + png[51:]):
        with pytest.raises(RenderError, match=r"not a PNG|damaged at byte"):
            pixels_only(damaged)
