"""What the four command lines have in common: help, examples, options, exit statuses, JSON, Ctrl-C, and completion."""

import dataclasses
import importlib
import inspect
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
import tyro

import ident3d
from baselines.recipes import RECIPES
from baselines.synthetic import STUDIES
from ident3d import Submission, ThreeDIdent, commandline
from ident3d.submission import Metadata

ROOT = Path(__file__).parents[1]
PROGRAMS = {
    "ident3d": "ident3d",
    "render": "python -m render",
    "baselines": "python -m baselines",
    "leaderboard": "python -m leaderboard",
}
PACKAGES = {package: importlib.import_module(f"{package}.__main__") for package in PROGRAMS}
COMMANDS = [(package, name) for package, module in PACKAGES.items() for name in module.commands()]
READ_BY_PROGRAMS = {
    "ident3d": {"info", "verify", "convert", "download", "score", "validate", "doctor"},
    "render": {"", "check", "verify"},
    "baselines": {"train", "embed", "export", "information", "signal", "reproduce"},
    "leaderboard": {"add", "report", "build", "check", "recompute", "verify", "pin"},
}
# One name, one meaning; the device of a renderer is one of Blender's.
SAME_HELP = {"root", "json", "threads", "board", "data"}
SAME_DEFAULT = {"root", "json", "threads", "board", "data", "device", "seed"}
MAY_DO_WITHOUT = {("baselines", "train", "root"), ("leaderboard", "recompute", "data")}  # live images; seeded latents
NOT_OURS = {"output", "force", "overwrite", "nthreads", "num_workers", "jobs", "random_seed", "outdir"}


def kind_of(package, name):
    return PACKAGES[package].commands()[name]


def fields(kind):
    """Yield the fields of a command, those of its groups of options included, each with its type and help."""
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from fields(hint)
        else:
            yield field, hint, help_of(kind, field.name)


def help_of(kind, name):
    lines = inspect.getsource(kind).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"    {name}: "))
    return lines[start + 1].strip() if lines[start].rstrip()[-1] not in "([{" else ""


def call(program, *arguments, **options):
    words = [sys.executable, "-m", program, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env=environment, **options)


@pytest.mark.parametrize(("package", "name"), COMMANDS)
def test_every_help_has_examples_that_can_be_typed(package, name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = commandline.examples_of(kind_of(package, name))
    assert examples
    with pytest.raises(SystemExit) as stop:
        PACKAGES[package].main([*([name] if name else []), "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert "\nExamples:\n" in shown
    for example in examples:
        words = shlex.split(example)
        program = shlex.split(PROGRAMS[package])
        if words[0] == "torchrun":
            words = [*program, *words[words.index("-m") + 2 :]]
        assert words[: len(program)] == program
        arguments = words[len(program) :]
        if "--config" in words:
            config = Path(words[words.index("--config") + 1])
            config.parent.mkdir(parents=True)
            config.write_text('recipe = "supervised"\n')
        assert shlex.join(program) in shown
        parsed = commandline.parse(PROGRAMS[package], "", PACKAGES[package].commands(), arguments)
        assert type(parsed) is kind_of(package, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_help_of_a_program_has_an_example_of_every_command(package, capsys):
    with pytest.raises(SystemExit) as stop:
        PACKAGES[package].main(["--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    for name in PACKAGES[package].commands():
        assert f"\n  {PROGRAMS[package]} {name}" in shown
    assert f"source <({PROGRAMS[package]} --tyro-print-completion bash)" in shown


@pytest.mark.parametrize("package", PACKAGES)
def test_every_program_says_its_version(package, capsys):
    assert PACKAGES[package].main(["--version"]) == 0
    assert capsys.readouterr().out == f"ident3d {ident3d.__version__}\n"


@pytest.mark.parametrize(("name", "registry"), [("train", RECIPES), ("reproduce", STUDIES)])
def test_the_help_lists_what_can_be_named(name, registry, capsys):
    with pytest.raises(SystemExit):
        PACKAGES["baselines"].main([name, "--help"])
    shown = capsys.readouterr().out.replace("\n", " ")
    assert [one for one in registry if not re.search(rf"\b{one.removesuffix('-exact')}\b", shown)] == []


def test_options_of_one_name_read_alike():
    helps, defaults = {}, {}
    for package, name in COMMANDS:
        for field, _, text in fields(kind_of(package, name)):
            if field.name == "root" and (package, name) in {("ident3d", "download"), ("render", "")}:
                continue  # the folder that is made
            helps.setdefault(field.name, set()).add(text)
            if (package, name, field.name) not in MAY_DO_WITHOUT:
                defaults.setdefault(field.name, set()).add(str(field.default))
            assert field.name not in NOT_OURS
    says = {"json": 2, "threads": 2}  # what is found and what was done; torch and ONNX Runtime
    assert {name: len(helps[name]) for name in SAME_HELP} == {name: says.get(name, 1) for name in SAME_HELP}
    assert all(text.startswith('"""Seed of ') for text in helps["seed"])
    assert {name: len(defaults[name]) for name in SAME_DEFAULT} == dict.fromkeys(SAME_DEFAULT, 1)


def test_what_is_written_is_out_and_has_the_short_name_where_it_is_an_option():
    for package, name in COMMANDS:
        for field, hint, _ in fields(kind_of(package, name)):
            if field.name == "out" and tyro.conf.Positional not in getattr(hint, "__metadata__", ()):
                assert "'-o'" in str(hint) or "Positional" in str(hint), (package, name)


def test_json_is_offered_where_a_program_reads_what_is_printed():
    offered = {package: set() for package in PACKAGES}
    for package, name in COMMANDS:
        if any(field.name == "json" for field, _, _ in fields(kind_of(package, name))):
            offered[package].add(name)
    for package, names in READ_BY_PROGRAMS.items():
        assert names <= offered[package]


SMALL = ("--validation", "100", "--batch-size", "8", "--device", "cpu", "--threads", "1")
STATUSES = [
    ("ident3d", ("info", "sample"), 0),
    ("ident3d", ("validate", "{tmp}/empty"), 1),
    ("ident3d", ("info", "{tmp}/nowhere"), 2),
    ("ident3d", ("info", "sample", "--colour"), 2),
    ("render", ("contact-sheet", "sample", "{tmp}/sheet.png", "--count", "4"), 0),
    ("render", ("check", "--blender", "/bin/false"), 1),
    ("render", ("contact-sheet", "sample", "{tmp}/sheet.txt"), 2),
    ("render", ("{tmp}/data", "--shard"), 2),
    ("baselines", ("embed", "pixels", "sample", "-o", "{tmp}/pixels.zip", "--authors", "A"), 0),
    ("baselines", ("train", "aninfonce-box-exact", "sample", "--out", "{tmp}/run", *SMALL), 1),
    ("baselines", ("embed", "{tmp}/nowhere", "sample", "--authors", "A"), 2),
    ("baselines", ("tran",), 2),
    ("leaderboard", ("check",), 0),
    ("leaderboard", ("check", "--board", "{tmp}/board"), 1),
    ("leaderboard", ("add", "{tmp}/x.zip", "--data", "sample", "--track", "nosuch"), 2),
    ("leaderboard", ("serve", "--port", "many"), 2),
]


@pytest.fixture
def places(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "board").mkdir()
    return lambda arguments: [argument.replace("{tmp}", str(tmp_path)) for argument in arguments]


@pytest.mark.parametrize(("package", "arguments", "status"), STATUSES)
def test_the_exit_status_is_0_or_1_or_2(package, arguments, status, places, capsys):
    try:
        found = PACKAGES[package].main(places(arguments))
    except SystemExit as stop:  # the parser's
        found = stop.code
    assert found == status


JSON = [
    ("ident3d", ("info", "sample"), {"splits", "factors"}),
    ("ident3d", ("verify", "sample"), {"sound", "splits", "faults", "unchecked"}),
    ("ident3d", ("validate", "{tmp}/empty"), {"valid", "faults"}),
    (
        "ident3d",
        ("convert", "sample", "{tmp}/published", "--to", "published"),
        {"out", "layout", "splits", "resolution"},
    ),
    ("ident3d", ("download", "sample"), {"root", "splits"}),
    ("ident3d", ("score", "{tmp}/mine.zip", "sample"), {"name", "summary", "seeds"}),
    ("render", ("check", "--blender", "/bin/false"), {"python", "error"}),
    ("baselines", ("embed", "pixels", "sample", "-o", "{tmp}/floor.zip", "--authors", "A"), {"submission", "rows"}),
    ("leaderboard", ("check",), {"sound", "entries", "faults"}),
    ("leaderboard", ("build", "--board", "{tmp}/board"), {"files", "entries", "left_out"}),
]


@pytest.mark.parametrize(("package", "arguments", "keys"), JSON)
def test_json_stands_alone_on_the_standard_output(package, arguments, keys, places, tmp_path, capfd):  # noqa: PLR0917
    if "{tmp}/mine.zip" in arguments:
        data = ThreeDIdent("sample", split="test")
        about = dict.fromkeys(("name", "method", "encoder", "training_data", "conditional"), "x")
        metadata = Metadata(**about, authors=("A",), fingerprint=data.fingerprint)
        Submission.write(tmp_path / "mine.zip", data.latents, data.ids, metadata)
    PACKAGES[package].main([*places(arguments), "--json"])

    def refuse(text):
        raise ValueError(text)

    found = json.loads(capfd.readouterr().out, parse_constant=refuse)
    assert keys <= set(found)


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("ident3d", ("info", "nowhere", "--json")),
        ("render", ("verify", "nowhere", "--json")),
        ("baselines", ("embed", "nowhere", "sample", "--authors", "A", "--json")),
        ("leaderboard", ("check", "--board", "nowhere", "--json")),
    ],
)
def test_what_fails_says_so_on_the_standard_error_alone(package, arguments, tmp_path):
    done = call(package, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("package", PACKAGES)
def test_a_help_that_nobody_reads_to_its_end_is_no_error(package):
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", package, "--help"]
    done = subprocess.run(words, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def interrupted(running, seen=""):
    """Press Ctrl-C, and check what a process says of it."""
    running.send_signal(signal.SIGINT)
    seen += running.communicate(timeout=60)[0]
    assert running.returncode == 130, seen
    assert "Traceback" not in seen
    assert seen.endswith("interrupted\n")


def started(*words):
    words = [sys.executable, "-u", "-m", *words]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.slow
def test_ctrl_c_ends_a_download_with_130_and_without_a_traceback(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(120)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        running = started("ident3d", "download", str(tmp_path / "root"), "--source", address)
        connection, _ = server.accept()  # and nothing is ever answered
        with connection:
            interrupted(running)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "arguments", "begun"),
    [
        ("baselines", ("train", "supervised", "sample", "--out", "{tmp}/run", *SMALL), "on cpu"),
        ("leaderboard", ("serve", "--port", "0"), "http://"),
    ],
)
def test_ctrl_c_ends_with_130_and_without_a_traceback(package, arguments, begun, places):
    running, seen = started(package, *places(arguments)), ""
    while begun not in seen:
        line = running.stdout.readline()
        assert line, seen
        seen += line
    interrupted(running, seen)


COMPLETIONS = [
    ("ident3d info --pl", ["--plot"]),
    ("ident3d val", ["validate"]),
    ("ident3d info lead", []),  # a file name: bash's own
    ("python -m ident3d val", ["validate"]),
    ("python -m render ver", ["verify"]),
    ("python -m render check --res", ["--resolution"]),
    ("python -m render data/small --rows", ["--rows-per-shard"]),
    ("python -m render --quality dr", ["draft"]),
    ("python3 -m baselines emb", ["embed"]),
    ("python -m baselines train supervised sample --checkpoint", ["--checkpoint-every"]),
    (
        "python -m baselines train infonce-b",
        ["infonce-box", "infonce-box-isotropic", "infonce-box-isotropic-exact"],
    ),
    ("python -m baselines train infonce-box data --encoder resnet1", ["resnet18", "resnet101"]),
    ("python -m baselines train infonce-box data --loss delta", ["delta_info_nce"]),
    ("python -m baselines reproduce tab", ["table1", "table2"]),
    ("python -m leaderboard verify --seal", ["--sealed", "--sealed-tolerance"]),
    ("python -m leaderboard add mine.zip --track min", ["mini"]),
    ("ident3d doctor --pat", ["--patience"]),
    ("python -m json", []),
    ("python scri", []),
]


def test_bash_completes_all_four(tmp_path, capsys):
    scripts = []
    for package, module in PACKAGES.items():
        assert module.main(["--tyro-write-completion", "bash", str(tmp_path / package)]) == 0
        scripts.append(f"source {tmp_path / package}")
    lines = [
        *scripts,
        "try() {",
        '  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()',
        """  $(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')""",
        '  echo "${COMPREPLY[@]}"',
        "}",
        *(f"try {line}" for line, _ in COMPLETIONS),
    ]
    done = subprocess.run(["bash", "-uc", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert not done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    assert dict(zip([line for line, _ in COMPLETIONS], found, strict=True)) == dict(COMPLETIONS)


def test_the_completion_that_a_command_of_its_own_advertises_is_that_of_its_program(capsys):
    with pytest.raises(SystemExit):
        PACKAGES["ident3d"].main(["doctor", "--help"])
    assert "source <(ident3d --tyro-print-completion bash)" in capsys.readouterr().out
    scripts = []
    for arguments in (["doctor"], []):
        assert PACKAGES["ident3d"].main([*arguments, "--tyro-print-completion", "bash"]) == 0
        scripts.append(capsys.readouterr().out)
    assert scripts[0] == scripts[1]


def test_other_shells_complete_what_they_can(capsys, caplog):
    assert PACKAGES["ident3d"].main(["--tyro-print-completion", "zsh"]) == 0
    assert "#compdef ident3d" in capsys.readouterr().out
    assert PACKAGES["render"].main(["--tyro-print-completion", "zsh"]) == 2
    assert "in bash only" in caplog.text
    assert PACKAGES["ident3d"].main(["--tyro-print-completion", "sh"]) == 2
    assert PACKAGES["ident3d"].main(["--tyro-write-completion", "bash"]) == 2
