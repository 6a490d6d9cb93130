import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from ident3d.doctor.libraries import (
    DEBIAN_PACKAGES,
    LIBRARIES,
    RELEASES,
    Library,
    explain_bpy,
    load_all,
    look_at,
    missing_packages,
    probe,
)

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
    load_all([Library("sound")])
    assert "sound" not in sys.modules


def test_what_is_found_is_told_in_a_line(folder):
    libraries = [Library("sound"), Library("failing"), Library("absent"), Library("tyro")]
    found = load_all(libraries)
    assert found["sound"].text == "7.1"
    assert found["failing"].text == "installed, cannot be loaded: RuntimeError: first line"
    assert found["absent"].text == "not installed"
    assert found["tyro"].text == found["tyro"].installed["tyro"]


def test_two_distributions_of_one_module_are_both_named(monkeypatch):
    monkeypatch.setattr("ident3d.doctor.libraries.metadata.version", lambda name: f"1.{len(name)}")
    found = load_all([Library("json", distributions=("json-cpu", "json-gpus"))])
    assert found["json"].text == "1.8 (json-cpu), 1.9 (json-gpus)"


def test_every_dependency_is_looked_at():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for_users = [line for extra, lines in extras.items() if extra not in {"dev", "docs"}
                 for line in lines]  # fmt: skip
    named = {re.split(r"[\[<>=; ]", line)[0] for line in [*project["dependencies"], *for_users]} - {"ident3d"}
    assert named == {name for library in LIBRARIES for name in library.names}


def test_torch_says_what_it_computes_on():
    found = look_at("torch")
    assert found["state"] == "ok"
    assert found["threads"] >= 1
    assert found["bfloat16"] in {True, False}
    assert bool(found["cuda_devices"]) != bool(found["why_no_cuda"])


def _load_all_but(*absent):
    def load(name):
        if name in absent:
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    return load


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Debian packages are a matter of Linux")
def test_missing_libraries_are_named_by_their_packages():
    assert missing_packages(_load_all_but()) == []
    assert missing_packages(_load_all_but("libXi.so.6", "libxkbcommon.so.0")) == ["libxi6", "libxkbcommon0"]
    assert missing_packages(_load_all_but(*DEBIAN_PACKAGES)) == list(DEBIAN_PACKAGES.values())


LACKING = "libXi.so.6: cannot open shared object file: No such file or directory"


class TestWhyBpyCannotBeLoaded:
    @pytest.fixture(autouse=True)
    def packages(self, monkeypatch):
        """Debian packages that the machine lacks."""
        lacking = []
        monkeypatch.setattr("ident3d.doctor.libraries.missing_packages", lambda: list(lacking))
        return lacking

    def test_missing_system_libraries_come_first(self, packages):
        packages += ["libxi6", "libsm6"]
        message = explain_bpy(LACKING, is_missing=False, version=(3, 11))
        assert message == (
            f"bpy cannot be loaded ({LACKING}): system libraries are missing. apt-get install libxi6 libsm6"
        )

    def test_a_library_that_the_import_names_is_missing_though_this_python_finds_it(self):
        message = explain_bpy(LACKING, is_missing=False, version=(3, 11))
        assert message.endswith("apt-get install libxi6")
        assert "pip" not in message
        other = LACKING.replace("libXi.so.6", "libodd-1.so.2")
        assert "the system's package that holds libodd-1.so.2" in explain_bpy(other, is_missing=False, version=(3, 11))

    def test_a_python_without_bpy_is_told_what_goes_together(self):
        none = explain_bpy("No module named 'bpy'", is_missing=True, version=(3, 12))
        assert "no bpy exists for Python 3.12" in none
        assert all(f"Python {major}.{minor} runs bpy {bpy}" in none for (major, minor), bpy in RELEASES.items())
        assert "--blender PATH" in none
        there = explain_bpy("No module named 'bpy'", is_missing=True, version=(3, 13))
        assert "bpy is not installed in this Python 3.13: pip install 'ident3d[render]', or 'bpy==5.2.*' alone" in there

    def test_one_that_is_there_and_broken_is_not_called_missing(self):
        message = explain_bpy("undefined symbol: x", is_missing=False, version=(3, 11))
        assert message.startswith(
            "bpy is installed in this Python 3.11 and cannot be loaded (undefined symbol: x): pip "
        )
