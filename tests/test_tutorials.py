"""The tutorials, run from top to bottom as they stand, but for fewer steps of training."""

import json
import re
import sys

import pytest

from tests.documents import ROOT, blocks, outputs, run, script

LOSS = "is-your-loss-identifying"
BOARD = "your-encoder-on-the-leaderboard"
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


@pytest.mark.parametrize("name", [LOSS, BOARD])
def test_a_tutorial_shows_outputs_and_leads_somewhere(name):
    text = text_of(name)
    assert {language for language, _ in blocks(text)} <= {"python", "sh", "output"}
    assert all(block.strip() for _, block in blocks(text))
    links = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
