import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from ident3d.doctor.libraries import LIBRARIES, Library, find, probe
from ident3d.doctor.probe import look_at

MODULES = {
    "sound": "__version__ = '7.1'\nprint('noise')\nimport os\nos.write(1, b'more of it')",
    "failing": "raise RuntimeError('first line\\nsecond line')",
    "needing": "import nobody_has_this",
    "leaving": "raise SystemExit(0)",
    "dying": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "ending": "import os\nos._exit(3)",
    "hanging": "import time\ntime.sleep(1000)",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of modules, each broken in its own way, where the probe finds it."""
    for name, source in MODULES.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_library_that_ends_the_process_stops_none_of_the_others(folder):
    found = probe(["absent", "dying", "sound", "failing", "ending", "needing", "leaving"])
    assert found["sound"] == {"state": "ok", "version": "7.1"}
    assert found["absent"]["state"] == "missing"
    assert found["failing"] == {"state": "broken", "reason": "RuntimeError: first line"}
    assert found["needing"] == {"state": "broken", "reason": "No module named 'nobody_has_this'"}
    assert found["leaving"] == {"state": "broken", "reason": "SystemExit: 0"}
    assert found["ending"] == {"state": "broken", "reason": "loading it ends the process with status 3"}
    if sys.platform != "win32":
        assert found["dying"] == {"state": "broken", "reason": "loading it ends the process with SIGKILL"}


def test_a_library_that_hangs_is_given_up_and_the_others_are_not(folder):
    found = probe(["hanging", "sound"], patience_s=10)
    assert found["hanging"] == {"state": "broken", "reason": "not loaded within 10 s"}
    assert found["sound"]["state"] == "ok"


def test_a_python_that_cannot_be_run_is_the_answer(monkeypatch):
    monkeypatch.setattr("ident3d.doctor.libraries.sys.executable", "/nowhere/python")
    assert "/nowhere/python cannot be run" in probe(["json"])["json"]["reason"]


def test_files_where_the_command_is_run_are_not_taken_for_libraries(folder, monkeypatch):
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.chdir(folder)
    assert probe(["sound"])["sound"]["state"] == "missing"


def test_nothing_that_is_looked_at_is_loaded_here(folder):
    find([Library("sound")])
    assert "sound" not in sys.modules


def test_what_is_found_is_told_in_a_line(folder):
    libraries = [Library("sound"), Library("failing"), Library("absent"), Library("tyro")]
    found = find(libraries)
    assert found["sound"].text == "7.1"
    assert found["failing"].text == "installed, cannot be loaded: RuntimeError: first line"
    assert found["absent"].text == "not installed"
    assert found["tyro"].text == found["tyro"].installed["tyro"]


def test_two_distributions_of_one_module_are_both_named(monkeypatch):
    monkeypatch.setattr("ident3d.doctor.libraries.metadata.version", lambda name: f"1.{len(name)}")
    found = find([Library("json", distributions=("json-cpu", "json-gpus"))])
    assert found["json"].text == "1.8 (json-cpu), 1.9 (json-gpus)"


def test_every_dependency_is_looked_at():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for_users = [line for extra, lines in extras.items() if extra in {"hub", "plot", "render", "train", "leaderboard"}
                 for line in lines]  # fmt: skip
    named = {re.split(r"[\[<>=; ]", line)[0] for line in [*project["dependencies"], *for_users]} - {"ident3d"}
    assert named == {name for library in LIBRARIES for name in library.names}


def test_torch_says_what_it_computes_on():
    found = look_at("torch")
    assert found["state"] == "ok"
    assert found["threads"] >= 1
    assert found["bfloat16"] in {True, False}
    assert bool(found["cuda_devices"]) != bool(found["why_no_cuda"])
