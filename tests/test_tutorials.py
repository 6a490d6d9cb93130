"""The tutorials, run from top to bottom as they stand, but for fewer steps of training."""

import json
import re
import sys

import pytest

from ident3d import ThreeDIdent
from tests.documents import ROOT, blocks, outputs, run, script
from tests.render.command_line import needs_bpy

LOSS = "is-your-loss-identifying"
BOARD = "your-encoder-on-the-leaderboard"
EXTENDING = "extending"
PAIRS = "pairs"
QUICK = "quickstart"
LIVE = "live"
MESSAGE = "aninfonce-on-images"
ROTATIONS = "why-did-my-encoder-miss-the-rotations"
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def text_of(name):
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def shape(output):
    """Return an output with every number and what depends on a day or a name's digest taken out."""
    return re.sub(r"-[0-9a-f]{6}-r", "-#-r", _NUMBER.sub("#", re.sub(r"-[0-9a-f]{6}-r", "-#-r", output)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [(LOSS, 5), (BOARD, 3)])
def test_a_tutorial_runs_and_prints_what_it_shows(name, steps, tmp_path):
    text, changed = re.subn(r"^STEPS = \d+$", f"STEPS = {steps}", text_of(name), flags=re.MULTILINE)
    assert changed == 1  # nothing else is smaller than in the tutorial
    printed = outputs(run([sys.executable, "-c", script(text)], tmp_path).stdout)
    shown = [block.strip("\n") for language, block in blocks(text) if language == "output"]
    assert [shape(output) for output in printed] == [shape(output) for output in shown]
    if name == LOSS:
        assert printed[0] == shown[0]  # nothing is trained yet
    if name == BOARD:
        assert {"small.zip", "small.onnx", "board"} <= {path.name for path in tmp_path.iterdir()}
        assert len(list((tmp_path / "board" / "entries" / "sample").glob("*.json"))) == 2
        (entry,) = (tmp_path / "board" / "entries" / "sample").glob("small*.json")
        found = json.loads(entry.read_text(encoding="utf-8"))
        assert found["claimed"]["r2"] == pytest.approx(found["results"]["r2"]["mean"], abs=1e-4)


@pytest.mark.parametrize("name", [PAIRS, QUICK])
def test_a_page_on_the_sample_prints_what_it_shows(name, tmp_path):
    text = text_of(name)
    printed = outputs(run([sys.executable, "-c", script(text)], tmp_path).stdout)
    assert printed == [block.strip("\n") for language, block in blocks(text) if language == "output"]


@pytest.mark.slow
def test_the_page_on_rotations_prints_what_it_shows(tmp_path):
    text = text_of(ROTATIONS)
    printed = outputs(run([sys.executable, "-c", script(text)], tmp_path).stdout)
    shown = [block.strip("\n") for language, block in blocks(text) if language == "output"]
    # The command that stands between two blocks prints the first table again.
    assert [found.endswith(expected) for found, expected in zip(printed, shown, strict=True)] == [True] * len(shown)


@pytest.mark.slow
def test_the_page_on_live_images_prints_what_it_shows(tmp_path):
    pytest.importorskip("warp")
    text = text_of(LIVE)
    printed = outputs(run([sys.executable, "-c", script(text)], tmp_path).stdout)
    assert printed == [block.strip("\n") for language, block in blocks(text) if language == "output"]
    assert (tmp_path / "runs" / "live" / "report.html").exists()


@pytest.mark.slow
@needs_bpy
def test_what_is_added_needs_no_edit_of_ours(tmp_path):
    printed = run([sys.executable, "-c", script(text_of(EXTENDING))], tmp_path).stdout
    written = {path.name for path in tmp_path.glob("*.py")}
    assert written == {"vary_saturation.py", "student.py", "decoupled.py", "convnet.py", "neighbours.py"}
    assert "student:StudentT(df=3, scale=0.2) matched in 300 images" in printed
    assert re.search(r"^ +R2 +MCC +MCC ranks +R2 of 10-NN$", printed, re.MULTILINE)
    assert len(re.findall(r"^object_saturation( +-?\d+\.\d+){4}$", printed, re.MULTILINE)) == 1
    options = json.loads((tmp_path / "run" / "options.json").read_text(encoding="utf-8"))["options"]["recipe"]
    assert (options["loss"], options["encoder"]) == ("decoupled:DecoupledContrastive", "convnet:small")
    data = ThreeDIdent(tmp_path / "images")
    assert (len(data), data.factors.names[-1]) == (300, "object_saturation")
    assert data.factors[-1].low == 0.2


@pytest.mark.parametrize("name", [LOSS, BOARD, EXTENDING, PAIRS, QUICK, MESSAGE])
def test_a_tutorial_shows_outputs_and_leads_somewhere(name):
    text = text_of(name)
    assert {language for language, _ in blocks(text)} <= {"python", "sh", "output", "toml"}
    assert all(block.strip() for _, block in blocks(text))
    links = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
