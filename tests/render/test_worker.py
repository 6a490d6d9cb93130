import json
import subprocess

import pytest

from render.errors import BlenderMissingError
from render.plain import to_plain
from render.program import Program
from render.quality import quality
from render.settings import Settings
from render.worker import GREETING
from tests.render.command_line import needs_bpy

SETTINGS = to_plain(Settings(quality("draft"), resolution=8))


def _serve_nothing(folder, environment):
    """Start a worker, close its input, and return what it answered."""
    program = Program.find()
    first = json.dumps({"settings": SETTINGS, "folder": str(folder)}).encode() + b"\n"
    done = subprocess.run(
        program.command,
        input=first,
        capture_output=True,
        check=True,
        timeout=120,
        env=program.environment | environment,
    )
    _, _, answer = done.stdout.partition(GREETING)
    return json.loads(answer)


@needs_bpy
def test_a_worker_whose_parent_is_gone_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "picture.png").write_bytes(b"half a picture")
    assert _serve_nothing(folder, {})["about"]["device"]
    assert not folder.exists()


@pytest.mark.parametrize("reason", ["libGL.so.1: cannot open shared object file"])
def test_a_worker_that_cannot_load_blender_says_why(tmp_path, reason):
    (tmp_path / "bpy.py").write_text(f"raise ImportError({reason!r})\n")
    answer = _serve_nothing(
        tmp_path / "pictures", {"PYTHONPATH": f"{tmp_path}:{Program.find().environment['PYTHONPATH']}"}
    )
    assert answer["error"] == BlenderMissingError.__name__
    assert reason in answer["message"]
