"""``ident3d doctor``, through its command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ident3d.__main__ import main
from ident3d.doctor.libraries import LIBRARIES, LoadedLibrary

ROOT = Path(__file__).parents[3]
BROKEN = ("numpy", "pyarrow", "tqdm")


@pytest.fixture
def shelf(monkeypatch):
    """The libraries as the doctor finds them: all there, but those that are put into it."""
    states = {}

    def load_all(**_):
        return {
            library.module: LoadedLibrary(
                library, states.get(library.module, "ok"), {library.names[0]: "1.0"}, "it is so"
            )
            for library in LIBRARIES
        }

    monkeypatch.setattr("ident3d.doctor.diagnosis.load_all", load_all)
    return states


def test_a_sound_machine_ends_with_0(shelf, capsys):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for title in ("System", "Libraries", "Devices", "Memory and disks", "What works here"):
        assert f"{title}\n" in shown
    assert sys.executable in shown
    assert f"{os.cpu_count()} may be used" in shown


@pytest.mark.parametrize(("module", "status"), [("torchvision", 0), ("bpy", 0), ("pyarrow", 1), ("faiss", 1)])
def test_only_what_needs_no_extra_decides_the_status(shelf, capsys, module, status):
    shelf[module] = "broken"
    assert main(["doctor"]) == status
    assert "cannot be loaded: it is so" in capsys.readouterr().out


def test_json_holds_the_same(shelf, capsys):
    shelf["datasets"] = "missing"
    assert main(["doctor", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["core_works"] is True
    assert shown["libraries"]["datasets"]["state"] == "missing"
    assert shown["libraries"]["datasets"]["extras"] == ["hub"]
    works = {one["name"]: one["works"] for one in shown["abilities"]}
    assert (works["read"], works["hub"]) == ("yes", "no")
    assert shown["limits"]["start_method"] in {"fork", "spawn", "forkserver"}


def test_a_patience_that_is_none_is_refused(caplog):
    assert main(["doctor", "--patience", "0"]) == 2
    assert "--patience is a positive number of seconds" in caplog.text


def test_the_doctor_comes_where_what_the_other_commands_load_is_broken(tmp_path):
    for module in BROKEN:
        (tmp_path / f"{module}.py").write_text("raise OSError('broken on purpose')")
    code = f"""
import sys
from ident3d.__main__ import main
from ident3d.doctor import diagnosis, libraries

def load_all(**_):
    broken = [library for library in libraries.LIBRARIES if library.module in {BROKEN}]
    sound = {{one.module: libraries.LoadedLibrary(one, "ok") for one in libraries.LIBRARIES}}
    return sound | libraries.load_all(broken)

diagnosis.load_all = load_all  # the others take long to load
sys.exit(main(["doctor"]))
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("cannot be loaded: OSError: broken on purpose") >= 3


def test_the_doctor_itself_loads_nothing_heavy():
    code = "import ident3d.commands.doctor, sys; print(sorted({'numpy', 'torch', 'faiss', 'bpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_this_machine_reads_pairs_and_scores():
    done = subprocess.run(
        [sys.executable, "-m", "ident3d", "doctor", "--json"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout
    shown = json.loads(done.stdout)
    assert shown["libraries"]["numpy"]["version"].split(".")[0] in {"1", "2"}
    assert {one["works"] for one in shown["abilities"] if one["core"]} == {"yes"}
