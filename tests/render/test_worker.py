"""What runs in a worker process, without its parent."""

import json
import os
import subprocess

import numpy as np
import pytest

from ident3d.codec import to_json
from ident3d.scene.world import World
from render.blender.errors import BlenderMissingError
from render.blender.pool import Job, Pool
from render.blender.process import Program
from render.blender.quality import Settings, quality
from render.blender.worker import GREETING
from tests.render.command_line import needs_bpy

PROGRAM = Program.find()
SETTINGS = to_json(Settings(quality("draft"), resolution=8))


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
    with Pool(Settings(quality("draft"), resolution=8)) as pool:
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
