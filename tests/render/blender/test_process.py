import os
import subprocess
import sys
from pathlib import Path

import pytest

from render.blender.process import Program
from render.blender.protocol import BlenderMissingError


def _program(path, banner):
    path.write_text(f'#!/bin/sh\necho "{banner}"\n')
    path.chmod(0o755)
    return path


def test_this_python_is_the_default():
    assert Program.find().command == (sys.executable, "-P", "-m", "render.blender.worker")


def test_another_python_is_called_by_its_own_name(tmp_path):
    link = tmp_path / "python"
    link.symlink_to(sys.executable)  # as in a virtual environment, where the link decides which packages are found
    assert Program.find(link).command[0] == str(link)


def test_a_blender_executable_runs_the_worker_as_a_script(tmp_path):
    command = Program.find(_program(tmp_path / "blender", "Blender 4.5.3 LTS")).command
    assert command[:3] == (str(tmp_path / "blender"), "--background", "--factory-startup")
    assert command[-2] == "--python"
    assert Path(command[-1]).is_file()


def test_relative_paths_are_those_of_the_caller(tmp_path, monkeypatch):
    _program(tmp_path / "blender", "Blender 5.2.0")
    monkeypatch.chdir(tmp_path)
    assert Program.find("blender").command[0] == str(tmp_path / "blender")


def test_old_pythons_and_other_programs_are_refused(tmp_path):
    with pytest.raises(BlenderMissingError, match=r"is Python 3\.10; the workers need Python 3\.11 or 3\.13"):
        Program.find(_program(tmp_path / "old", "Python 3.10.2"))
    with pytest.raises(BlenderMissingError, match="neither a Python nor a Blender"):
        Program.find(_program(tmp_path / "other", "ImageMagick 7"))
    with pytest.raises(FileNotFoundError, match="does not exist; expected a Python that has bpy"):
        Program.find(tmp_path / "absent")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(BlenderMissingError, match="cannot be run"):
        Program.find(tmp_path / "text")


def test_the_project_is_found_from_anywhere(tmp_path):
    (tmp_path / "inspect.py").write_text("raise SystemExit('a file beside the command was loaded')")
    found = subprocess.run(
        [*Program.find().command[:-1], "render.dataset.plan"],
        env=Program.find().environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stderr == ""


def test_a_python_path_of_the_user_is_kept(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert Program.find().environment["PYTHONPATH"].split(os.pathsep)[1:] == ["/somewhere"]
