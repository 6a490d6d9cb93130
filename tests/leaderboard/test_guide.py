"""The guide for those who submit, with all its commands, and what the repository's host runs for a pull request."""

import importlib
import json
import re
import shlex
import subprocess

import numpy as np
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper, save

from ident3d import commandline
from tests.documents import ROOT, blocks
from tests.leaderboard.conftest import ROWS, SIDE, TRACKS, make_dataset

GUIDE = (ROOT / "docs" / "submitting.md").read_text(encoding="utf-8")
SHELL = [
    shlex.split(line)
    for language, block in blocks(GUIDE)
    for line in block.replace("\\\n", " ").splitlines()
    if language == "sh"
]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "leaderboard.yml").read_text(encoding="utf-8"))


def program_of(words):
    """Return the package that a command line runs, and its arguments."""
    return (words[2], words[3:]) if words[:2] == ["python", "-m"] else (words[0], words[1:])


def parsed(words):
    package, arguments = program_of(words)
    module = importlib.import_module(f"{package}.__main__")
    return commandline.parse(package, "", module.commands(), arguments)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with what the guide starts from: the datasets, an encoder, and a board under version control."""
    make_dataset(tmp_path / "data" / "mini", 0)
    make_dataset(tmp_path / "data" / "sealed", 1)
    (tmp_path / "data" / "3dident").symlink_to(tmp_path / "data" / "mini")
    weight = np.zeros((3 * SIDE * SIDE, 10), np.float32)
    weight[range(10), range(10)] = 1
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 10])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, tmp_path / "mine.onnx")
    mini, published = (dict(track) for track in TRACKS["tracks"])
    tracks = [mini | {"name": "mini"}, published | {"name": "3dident", "latents_sha256": ""}]
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / "tracks.json").write_text(json.dumps({"tracks": tracks}))
    git = ["git", "-C", str(tmp_path / "board"), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "begin"], ["branch", "origin/main"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_guide_run_one_after_another(checkout, capsys):
    ran = []
    for words in SHELL:
        package, arguments = program_of(words)
        if package in {"git", "render"} or arguments[0] == "download":
            continue  # of the host; and what made the datasets of this test
        if package == "leaderboard":
            arguments = [*arguments, "--board", "board"]
            if arguments[0] in {"recompute", "verify"} and "--data" not in arguments:
                arguments += ["--data", "data/mini"]  # the latents of these images follow from no seed
        main = importlib.import_module(f"{package}.__main__").main
        assert main(arguments) == 0, (words, capsys.readouterr())
        ran.append(arguments[0])
    assert {"embed", "validate", "score", "add", "build", "check", "recompute", "verify", "pin"} <= set(ran)
    (entry,) = (checkout / "board" / "entries" / "mini").glob("*.json")
    found = json.loads(entry.read_text())
    assert found["verification"]["sealed_rows"] == ROWS
    assert f"{entry.name} --encoder" in GUIDE.replace("entries/mini/", "")


@pytest.mark.parametrize("words", [words for words in SHELL if words[0] != "git"], ids=" ".join)
def test_every_command_is_one(words):
    assert parsed(words) is not None


def test_the_workflow_runs_what_the_guide_says():
    (job,) = WORKFLOW["jobs"].values()
    commands = [shlex.split(step["run"]) for step in job["steps"] if "run" in step]
    ours = [words for words in commands if words[:3] == ["python", "-m", "leaderboard"]]
    assert [parsed(words).__class__.__name__ for words in ours] == ["Check", "Recompute"]
    assert WORKFLOW["permissions"] == {"contents": "read"}, "a pull request is somebody else's"
    assert ".github/workflows/leaderboard.yml" in GUIDE


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_templates_of_issues_ask_for_something(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_the_template_of_pull_requests_names_what_is_checked():
    text = (ROOT / ".github" / "pull_request_template.md").read_text(encoding="utf-8")
    assert re.search(r"`python -m leaderboard build`, `check` and `recompute --since origin/main` pass", text)


def test_links_of_the_guide_lead_somewhere():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", GUIDE)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
