import json
import logging
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import tyro

from ident3d import commandline
from ident3d.errors import DatasetError
from ident3d.registry import load_attribute


@dataclass(frozen=True)
class Work:
    """Work hard.

    Examples:
        work work --what nothing  # at all
        work work \\
            --what "some thing"
    """

    what: str = "nothing"
    """What to do."""

    def run(self) -> int:
        errors = {
            "dataset": DatasetError("shard 3 is damaged"),
            "value": ValueError("sigma is -1"),
            "disk": OSError(28, "No space left on device"),
            "key": KeyError("no factor 'colour'"),
            "folder": FileNotFoundError("there is no folder x"),
            "stop": KeyboardInterrupt(),
        }
        if self.what in errors:
            raise errors[self.what]
        return commandline.EXIT_OK


@dataclass(frozen=True)
class Rest:
    """Have a rest.

    Examples:
        work bed
    """

    what: tyro.conf.Positional[str] = ""
    """Where."""

    def run(self) -> int:
        return commandline.EXIT_OK


@dataclass(frozen=True)
class Group:
    """Options of a group."""

    depth: int = 1
    """How deep."""


@dataclass(frozen=True)
class Play:
    """Play.

    Examples:
        work play chess
    """

    game: tyro.conf.Positional[str]
    """Which."""
    rounds: tuple[int, ...] = ()
    """Rounds."""
    loud: bool = False
    """Loud."""
    config: Path | None = None
    """A file."""
    group: Group = Group()
    """More."""

    def run(self) -> int:
        return commandline.EXIT_OK


@pytest.mark.parametrize("commands", [{"play": Play, "bed": Rest}, {"": Play}])
def test_options_of_a_file_come_after_those_of_the_command_line(commands, tmp_path):
    file = tmp_path / "play.toml"
    file.write_text('game = "go"\nrounds = [1, 2]\nloud = true\ndepth = 3\n')
    first = [] if "" in commands else ["play"]
    found = commandline.parse("work", "Works.", commands, [*first, "--config", str(file)])
    assert (found.game, found.rounds, found.loud, found.group.depth) == ("go", (1, 2), True, 3)
    found = commandline.parse("work", "Works.", commands, [*first, "chess", f"--config={file}", "--depth", "5"])
    assert (found.game, found.rounds, found.group.depth) == ("chess", (1, 2), 5)
    file.write_text("depth = 3\n")
    with pytest.raises(SystemExit):
        commandline.parse("work", "Works.", commands, [*first, "--config", str(file)])  # which game is asked for
    file.write_text("depth = 3.5\nrouns = 3\n")
    with pytest.raises(
        ValueError, match=r"(?s)depth: expected an integer.*rouns: there is no such option; did you mean rounds"
    ):
        commandline.parse("work", "Works.", commands, [*first, "--config", str(file)])


def test_what_is_written_is_read(tmp_path):
    file = tmp_path / "play.toml"
    options = {"game": 'a "quoted" ü', "rounds": [1, 2], "loud": True, "config": None, "depth": 2}
    file.write_text(commandline.as_toml(options), encoding="utf-8")
    assert commandline.configured(Play, file) == Play(options["game"], (1, 2), True, None, Group(2))


@pytest.mark.parametrize(
    ("what", "status", "message"),
    [
        ("nothing", 0, ""),
        ("dataset", 1, "error: shard 3 is damaged"),
        ("disk", 1, "error: [Errno 28] No space left on device"),
        ("value", 2, "error: sigma is -1"),
        ("folder", 2, "error: there is no folder x"),
        ("key", 2, "error: no factor 'colour'"),
        ("stop", 130, "interrupted"),
    ],
)
def test_errors_become_a_line_and_a_status(what, status, message, caplog):
    assert commandline.main("work", "Works.", {"work": Work, "idle": Work}, ["work", "--what", what]) == status
    assert caplog.messages == ([message] if message else [])


def test_the_list_of_commands_shows_first_paragraphs_and_a_command_its_whole_help(capsys):
    for arguments, shown in (["--help"], False), (["work", "--help"], True):
        with pytest.raises(SystemExit):
            commandline.main("work", "Works.", {"work": Work, "idle": Work}, arguments)
        output = capsys.readouterr().out
        assert "Work hard." in output
        assert ("# at all" in output) is shown


def test_help_shows_the_field_docs(capsys):
    with pytest.raises(SystemExit) as exit_info:
        commandline.main("work", "Works.", {"work": Work, "idle": Work}, ["work", "--help"])
    assert exit_info.value.code == 0
    assert "What to do." in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["rest"], ["work", "--why", "x"], []])
def test_a_line_that_cannot_be_parsed_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_info:
        commandline.main("work", "Works.", {"work": Work, "idle": Work}, arguments)
    assert exit_info.value.code == 2
    assert "work" in capsys.readouterr().err


def test_messages_reach_stderr_of_a_real_process():
    code = (
        "import sys; sys.path.insert(0, 'tests/ident3d'); import test_commandline as t;"
        "from ident3d import commandline;"
        "sys.exit(commandline.main('work', 'Works.', {'work': t.Work, 'idle': t.Work}, ['work', '--what', 'value']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: sigma is -1\n")


HOSTILE = "a\x1b[2J\r\x07\u202eb\x9bc\U000e0001\udcffd"
ESCAPED = "a\\u001b[2J\\u000d\\u0007\\u202eb\\u009bc\\udb40\\udc01\\udcffd"


def test_what_could_steer_a_terminal_is_escaped_and_json_stays_json():
    assert commandline.printable(HOSTILE) == ESCAPED
    assert commandline.printable("Ümläut\n\tof two lines") == "Ümläut\n\tof two lines"
    assert commandline.printable("Ümläut", "ascii") == "\\u00dcml\\u00e4ut"
    text = json.dumps({"name": HOSTILE + "Ü"}, ensure_ascii=False)
    for encoding in ("utf-8", "ascii"):
        assert json.loads(commandline.printable(text, encoding)) == {"name": HOSTILE + "Ü"}


@dataclass(frozen=True)
class Shout:
    """Say what is said.

    Examples:
        work shout
    """

    def run(self) -> int:
        sys.stdout.writelines([HOSTILE, "\n"])
        print(HOSTILE)  # noqa: T201 - one more way to the standard output
        commandline.write_json([HOSTILE])
        warnings.warn(HOSTILE, stacklevel=1)
        logging.getLogger("ident3d.shout").warning("%s", HOSTILE)
        raise ValueError(HOSTILE)


def test_whatever_a_command_says_is_escaped():
    code = (
        "import sys; sys.path.insert(0, 'tests/ident3d'); import test_commandline as t;"
        "from ident3d import commandline;"
        "sys.exit(commandline.main('work', 'Works.', {'work': t.Work, 'shout': t.Shout}, ['shout']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    *plain, document = done.stdout.split("\n", 2)
    assert plain == [ESCAPED, ESCAPED]
    assert json.loads(document) == [HOSTILE]
    assert "\x1b" not in document
    said = done.stderr.splitlines()
    assert said[0].endswith(f"UserWarning: {ESCAPED}")
    assert said[-2:] == [ESCAPED, f"error: {ESCAPED}"]
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "program",
    [
        ("ident3d", "info", "{}"),
        ("render", "verify", "{}"),
        ("baselines", "export", "{}", "encoder.onnx"),
        ("leaderboard", "check", "--board", "{}"),
    ],
    ids=lambda words: words[0],
)
def test_no_program_lets_a_name_steer_the_terminal(tmp_path, program):
    words = [word.format(f"{tmp_path}/\x1b[2J\u202e") for word in program]
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2)
    assert "\\u001b[2J\\u202e" in done.stderr
    assert "\x1b" not in done.stderr


def test_the_examples_of_a_command_are_read_off_its_docstring():
    assert commandline.examples_of(Work) == ("work work --what nothing", "work work --what 'some thing'")


def test_json_is_strict(capsys):
    commandline.write_json({"r2": 0.5, "name": "Ä"})
    assert json.loads(capsys.readouterr().out) == {"r2": 0.5, "name": "Ä"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        commandline.write_json({"r2": float("nan")})
    assert not capsys.readouterr().out


def test_ctrl_c_while_the_commands_are_loaded_is_answered(caplog):
    def load():
        raise KeyboardInterrupt

    assert commandline.main("work", "Works.", load, ["work"]) == 130
    assert caplog.messages == ["interrupted"]


@pytest.mark.parametrize(
    ("arguments", "what"), [(["rest"], "rest"), (["work", "--what", "thing"], "thing"), (["./work"], "./work")]
)
def test_a_command_without_a_name_takes_what_names_no_other(arguments, what):
    found = commandline.parse("work", "Works.", {"": Rest, "work": Work, "idle": Work}, arguments)
    assert found.what == what
    assert isinstance(found, Work if arguments[0] == "work" else Rest)


def test_a_help_names_the_commands_beside_the_one_without_a_name(capsys):
    with pytest.raises(SystemExit):
        commandline.main("work", "Works.", {"": Rest, "work": Work, "idle": Work}, ["--help"])
    shown = capsys.readouterr().out
    for words in ("  work bed\n", "  work work --what nothing\n", "  idle            Work hard.\n"):
        assert words in shown


def test_modules_of_the_current_folder_can_be_named_and_stand_in_for_no_library(tmp_path, monkeypatch):
    (tmp_path / "lab_of_mine.py").write_text("value = 7\n")
    (tmp_path / "json.py").write_text("raise SystemExit('a file beside the command was loaded')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = list(sys.path)
    found = []

    @dataclass(frozen=True)
    class Look:
        """Look a name up."""

        def run(self):
            found.append(load_attribute("lab_of_mine:value", "number"))
            return 0

    assert commandline.main("program", "It looks.", {"look": Look, "look-again": Look}, ["look"]) == 0
    assert found == [7]
    assert sys.path == before
