"""Every command and every line of Python in the README, run as it stands there, but on less."""

import json
import re
import shutil
import sys

import pytest

from tests.documents import ROOT, blocks, run

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = blocks(README)
SHELL = [line for language, block in BLOCKS if language == "sh" for line in block.replace("\\\n", " ").splitlines()]
SET_UP = ("pip install ", "cd ", "make ")  # what brought this test about
SMALLER = (
    (r"--train (?!0 )\d+", "--train 100"),
    (r"--test (?!0 )\d+", "--test 80"),
    (r"--resolution \d+", "--resolution 16"),
    (r"(python -m render data/\S+)", r"\1 --quality draft"),
    (r"--sample \d+", "--sample 1"),
    (r"--steps \d+", "--steps 2 --validation 48"),
    (r"--batch-size \d+", "--batch-size 4"),
    (r"--budget quick", "--budget 5"),
    (r"(python -m leaderboard \w+)", r"\1 --board board"),
)


def smaller(command):
    for pattern, replacement in SMALLER:
        command = re.sub(pattern, replacement, command)
    return command


@pytest.fixture
def board(tmp_path):
    """A board whose track is the smaller dataset."""
    track = {
        "name": "mini",
        "title": "Mini",
        "description": "Fewer images.",
        "split": "test",
        "rows": 80,
        "resolution": 16,
        "requires": {},
        "fingerprints": [],
    }
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / "tracks.json").write_text(json.dumps({"tracks": [track]}), encoding="utf-8")
    return tmp_path / "board"


@pytest.mark.slow
def test_the_commands_run_one_after_another(tmp_path, board):
    shutil.copy(ROOT / ".gitignore", tmp_path)
    run(["git", "init", "--quiet"], tmp_path)
    for line in SHELL:
        if not line.startswith(SET_UP):
            run(["bash", "-euc", smaller(line)], tmp_path)
    assert (tmp_path / "sheet.png").stat().st_size > 1000
    assert (tmp_path / "runs" / "infonce" / "report.html").is_file()
    assert (board / "index.html").is_file()
    unignored = run(["git", "status", "--porcelain"], tmp_path).stdout.split()[1::2]
    assert unignored == [".gitignore"], "what the commands make is ignored by git"


def test_the_python_runs_from_top_to_bottom(tmp_path):
    code = "\n".join(block for language, block in BLOCKS if language == "python")
    output = run([sys.executable, "-c", code], tmp_path).stdout
    assert "position_x" in output


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"^([\w-]+(?: [\w-]+)*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    known = {name for group in targets for name in group.split()}
    named = set(re.findall(r"make ([\w-]+)", README))
    assert named
    assert named <= known


def test_every_link_to_a_file_leads_somewhere():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_readme_is_short():
    assert len(README.splitlines()) < 250
