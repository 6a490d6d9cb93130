"""``make demo`` on few and small images: that the chain holds, not that anything is learned."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.render.command_line import needs_bpy

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "demo.py"
SMALL = (
    *("--train", "100", "--test", "40", "--resolution", "32", "--quality", "draft", "--validation", "40"),
    *("--steps", "2", "--supervised-steps", "2", "--batch-size", "8"),
)


@pytest.fixture(scope="module")
def demo():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("demo", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    before = sys.path[:]
    sys.modules["demo"] = module
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before
    del sys.modules["demo"]


@pytest.fixture(scope="module")
def finished(demo, tmp_path_factory):
    """The folder of a demo that was killed while it rendered, and went on."""
    out = tmp_path_factory.mktemp("demo") / "output"
    begun = subprocess.Popen(
        [sys.executable, str(SCRIPT), "--out", str(out), *SMALL],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    for line in begun.stdout:
        if "shards to render" in line:
            break
    os.killpg(begun.pid, signal.SIGTERM)
    begun.communicate()
    assert begun.returncode == 130
    assert demo.main(["--out", str(out), *SMALL]) == 0
    return out


def made(out):
    """What must not be made again, and when it was made."""
    paths = [*out.glob("images/data/*.parquet"), *out.glob("runs/*/*.*"), *out.glob("submissions/*.zip")]
    return {path: path.stat().st_mtime_ns for path in paths}


@needs_bpy
@pytest.mark.slow
def test_everything_is_where_it_is_said_to_be(finished):
    for name in ("contact-sheet.png", "realised.png", "leaderboard/index.html", "images/manifest.json"):
        assert (finished / name).is_file()
    for name in ("supervised", "infonce", "aninfonce"):
        assert (finished / "runs" / name / "report.html").is_file()
    entries = [json.loads(path.read_text()) for path in finished.glob("leaderboard/entries/demo/*.json")]
    assert sorted(entry["role"] for entry in entries) == ["ceiling", "contender", "contender", "floor"]


@needs_bpy
@pytest.mark.slow
def test_a_second_run_makes_nothing_again_and_shows_the_table(demo, finished, capsys):
    before = made(finished)
    assert demo.main(["--out", str(finished), *SMALL]) == 0
    assert made(finished) == before
    shown = capsys.readouterr().out
    table = shown[shown.index("R2 on 40 images") :]
    for name in ("supervised", "infonce", "aninfonce", "untrained", "chance", "position", "rotation", "hue"):
        assert name in table
    assert str(finished / "leaderboard" / "index.html") in shown


@needs_bpy
@pytest.mark.slow
def test_a_folder_that_was_made_in_another_way_is_refused(demo, finished, caplog, monkeypatch):
    assert demo.main(["--out", str(finished), *SMALL, "--steps", "3"]) == 1
    assert "steps was 2, is 3" in caplog.text
    monkeypatch.setattr(demo, "__version__", "9.9")
    assert demo.main(["--out", str(finished), *SMALL]) == 1
    assert "ident3d was 0.1.0, is 9.9" in caplog.text
    assert "make clean-demo" in caplog.text


def test_a_folder_that_holds_something_else_is_left_alone(demo, tmp_path, caplog):
    (tmp_path / "thesis.tex").write_text("precious")
    assert demo.main(["--out", str(tmp_path), *SMALL]) == 1
    assert "holds something that is not a demo" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_missing_system_packages_are_named_before_any_work(demo, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(demo, "missing_packages", lambda: ["libxi6", "libsm6"])
    assert demo.main(["--out", str(tmp_path / "output"), *SMALL]) == 1
    assert "apt-get install libxi6 libsm6" in caplog.text
    assert not (tmp_path / "output").exists()


def test_other_sources_are_told_and_keep_what_is_there(demo, tmp_path, capsys, monkeypatch):
    story = demo.Story(demo.Demo(out=tmp_path / "output"), "float32")
    story.claim()
    monkeypatch.setattr(demo, "_sources", lambda: "others")
    story.claim()
    assert "The sources have changed since" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ages", "is_newer"), [((2, 1), True), ((1, 2), False), ((2, None), False), ((None, 1), False)]
)
def test_what_is_older_than_what_it_is_made_of_is_made_again(demo, tmp_path, ages, is_newer):
    paths = [tmp_path / "made", tmp_path / "of"]
    for path, age in zip(paths, ages, strict=True):
        if age is not None:
            path.write_text("")
            os.utime(path, (age, age))
    assert demo._is_newer(*paths) is is_newer
