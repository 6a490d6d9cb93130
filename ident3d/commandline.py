"""What every command line of the project shares: parsing, help, JSON, logging, and exit statuses.

A command is a frozen dataclass of options with a ``run`` method; its docstring and the field docs are its help, and the
docstring ends with a section "Examples:" of command lines that can be typed as they are. A command that takes names of
a registry says so in a class variable ``completions``: from an option, or from "" for the first argument, to a function
that returns the names. All programs answer ``--version``. A command with an option ``config`` takes a TOML file of its
options; those on the command line come first. Exit status 0: done; 1: the work failed, or the answer is no; 2: the
command line or its input is not usable; 130: ended by Ctrl-C. With ``--json`` there is one JSON document on the
standard output and nothing else; messages go to the standard error. Names from files and folders are shown by commands
as they are: what could steer a terminal is escaped here, for all of them.
"""

import contextlib
import dataclasses
import inspect
import io
import itertools
import json
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Protocol, TextIO, Union, cast, get_type_hints

import tyro

import ident3d
from ident3d.codec import from_json, read_file
from ident3d.errors import Ident3DError

__all__ = [
    "COMPLETION",
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_UNUSABLE",
    "SHELLS",
    "STYLE",
    "Command",
    "Commands",
    "as_toml",
    "completion_script",
    "configured",
    "examples_of",
    "main",
    "parse",
    "printable",
    "write_json",
]

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130  # what a shell reports for a command ended by Ctrl-C

_PACKAGES = ("ident3d", "render", "baselines", "leaderboard")
STYLE = (
    tyro.conf.OmitArgPrefixes,
    tyro.conf.PositionalMetavarFromFieldName,
    tyro.conf.DisallowNone,
    tyro.conf.FlagCreatePairsOff,
)
COMPLETION = ("--tyro-print-completion", "--tyro-write-completion")
"""The options that print and write the script that a shell completes a program with."""
_UNUSABLE = (
    ValueError,
    TypeError,
    KeyError,
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
)
_LOG = logging.getLogger("ident3d")


class Command(Protocol):
    """The options of one command, and its work."""

    def run(self) -> int:
        """Do the work; return the exit status."""


Commands = Mapping[str, type[Command]]
"""The commands of a program by name. The name "" is that of a command that is written without its name."""


def main(
    program: str,
    description: str,
    commands: Commands | Callable[[], Commands],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parse a command line that names one of several commands, run the command, and turn errors into a line.

    Args:
        program: how the program is called, for the usage line.
        description: what it does, for its help.
        commands: the commands by name, or what loads them: Ctrl-C is answered while it does.
        arguments: the arguments; those of the process where None.

    Returns:
        The exit status.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that knows ASCII alone shows what it lacks as escapes
        sys.stdout.reconfigure(errors="backslashreplace")
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(_PrintableFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[log])
    for package in _PACKAGES:
        logging.getLogger(package).setLevel(
            logging.INFO
        )  # not for the libraries: some of them report how they are loaded
    if given == ["--version"]:
        sys.stdout.write(f"ident3d {ident3d.__version__}\n")
        return EXIT_OK
    try:
        try:
            loaded = commands() if callable(commands) else commands
            if given[:1] and given[0] in COMPLETION:
                status = _complete(program, loaded, given)
            else:
                command = parse(program, description, loaded, given)
                with _modules_of_this_folder(), _printable_output():
                    status = command.run()
        finally:
            sys.stdout.flush()  # here, where a reader that is gone can be told from a failure
    except KeyboardInterrupt:
        _LOG.error("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough. What is left in the buffer must not fail once more at the exit.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
        return EXIT_FAILED
    except _UNUSABLE as error:
        _LOG.error("error: %s", error.args[0] if isinstance(error, KeyError) else error)
        return EXIT_UNUSABLE
    except (Ident3DError, OSError) as error:
        _LOG.error("error: %s", error)
        return EXIT_FAILED
    return status


def printable(text: str, encoding: str = "utf-8") -> str:
    """Return text with all but printable characters, line breaks and tabs escaped, so that it cannot steer a terminal.

    Args:
        text: whatever comes from outside, the names in a manifest for example.
        encoding: what the terminal knows; characters that it lacks are escaped too.

    Returns:
        The text with escapes as JSON has them, so that JSON stays the same JSON.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_shown(c, encoding) else _escaped(c) for c in text)


def _is_shown(character: str, encoding: str) -> bool:
    if character in "\n\t":
        return True
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return character.isprintable()


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[k : k + 2], 'big'):04x}" for k in range(0, len(units), 2))


class _PrintableFormatter(logging.Formatter):
    """A formatter of messages that cannot steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), getattr(sys.stderr, "encoding", None) or "utf-8")


class _PrintableStream:
    """A stream of text that cannot steer a terminal; all but the writing is that of the stream below."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; return its length."""
        self._stream.write(printable(text, self._stream.encoding or "utf-8"))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _printable_output() -> Iterator[None]:
    """Escape, in what a command prints and in its warnings, whatever could steer a terminal."""
    plain = warnings.formatwarning

    def format_printable(*details: Any, **named: Any) -> str:
        return printable(plain(*details, **named), getattr(sys.stderr, "encoding", None) or "utf-8")

    warnings.formatwarning = format_printable
    try:
        with contextlib.redirect_stdout(_PrintableStream(sys.stdout)):
            yield
    finally:
        warnings.formatwarning = plain


@contextlib.contextmanager
def _modules_of_this_folder() -> Iterator[None]:
    """Find modules of the current folder, for package.module:attribute, as ``python -m`` does and a script does not.

    The folder comes last on the path, so that no file in it can shadow a library.
    """
    before = list(sys.path)
    if "" not in before:
        sys.path.append("")  # not its full name, which a folder that was removed has no more
    try:
        yield
    finally:
        sys.path[:] = before


def parse(program: str, description: str, commands: Commands, arguments: Sequence[str]) -> Command:
    """Return the command that a command line names, with its options.

    Args:
        program: how the program is called.
        description: what it does.
        commands: the commands by name.
        arguments: the arguments.

    Raises:
        SystemExit: after the help was printed, with status 0, or what is wrong with the command line, with 2.
    """
    name = arguments[0] if arguments else ""
    overview = _overview(program, description, commands)
    kind: Any
    named = {other: member for other, member in commands.items() if other}
    default = _default_of(commands.get(name, commands.get("")), arguments)
    if "" in commands and (name not in commands or not named):
        own: Any = commands[""]
        extra = {} if default is None else {"default": default}
        found: Command = tyro.cli(own, prog=program, description=overview, args=arguments, config=STYLE, **extra)
        return found
    kind = _union(named, whole=name, default=default)
    command: Command = tyro.cli(kind, prog=program, description=overview, args=arguments, config=STYLE)
    return command


def configured(kind: type[Any], path: Path) -> Any:
    """Return a command with the options that a TOML file holds, under the names that the command line has for them.

    Args:
        kind: the class of the command, or of a group of its options.
        path: the file. An option that it lacks has its default, and is asked for on the command line if it has none.

    Raises:
        ValueError: if the file is not TOML, or an option is unknown or of another kind; every fault is named.
        FileNotFoundError: if there is no such file.
    """
    data = read_file(path, "correct it, or leave --config out")
    given = {name.replace("-", "_"): value for name, value in data.items()}
    faults = list[str]()
    found = _with_values(kind, given, faults)
    for name in given:
        close = get_close_matches(name, [option.name for option in _options(kind)], n=1)
        faults.append(f"{name}: there is no such option" + (f"; did you mean {close[0]}?" if close else ""))
    if faults:
        raise ValueError("\n  - ".join([f"{path} cannot be used:", *faults]))
    return found


def as_toml(options: Mapping[str, Any]) -> str:
    """Return options as the text of a file for ``--config``; those that are None or empty are left out."""
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in options.items()
        if value is not None and value != []
    ]
    return "\n".join(lines) + "\n"


def _default_of(kind: type[Any] | None, arguments: Sequence[str]) -> Any:
    """Return a command with the options of the file that --config names; None where the command line names none."""
    if kind is None or not any(option.name == "config" for option in _options(kind)):
        return None
    for word, following in itertools.pairwise([*arguments, ""]):
        if word == "--config" and following:
            return configured(kind, Path(following))
        if word.startswith("--config="):
            return configured(kind, Path(word.partition("=")[2]))
    return None


def _with_values(kind: type[Any], given: dict[str, Any], faults: list[str]) -> Any:
    """Return an instance of a class of options with the given values, which are taken out of ``given``."""
    hints = get_type_hints(kind)
    values = dict[str, Any]()
    for option in dataclasses.fields(kind):
        hint = hints[option.name]
        if dataclasses.is_dataclass(hint):
            values[option.name] = _with_values(cast("type[Any]", hint), given, faults)
        elif option.name in given:
            try:
                values[option.name] = from_json(hint, given.pop(option.name), option.name)
            except ValueError as error:
                faults.append(str(error))
                values[option.name] = tyro.MISSING
        elif option.default is dataclasses.MISSING and option.default_factory is dataclasses.MISSING:
            values[option.name] = tyro.MISSING
    try:
        return kind(**values)
    except (ValueError, TypeError) as error:
        faults.append(str(error))
        return None


def _options(kind: type[Any]) -> Iterator[dataclasses.Field[Any]]:
    """Yield the options of a command, those of its groups included."""
    hints = get_type_hints(kind)
    for option in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[option.name]):
            yield from _options(cast("type[Any]", hints[option.name]))
        else:
            yield option


def examples_of(kind: type[Command]) -> tuple[str, ...]:
    """Return the command lines in the section "Examples:" of a command's docstring, without their comments."""
    _, _, section = _documentation(kind).partition("\nExamples:\n")
    joined = section.replace("\\\n", " ")
    return tuple(shlex.join(words) for line in joined.splitlines() if (words := shlex.split(line, comments=True)))


def write_json(value: Any) -> None:
    """Print a value as strict JSON: one document, a line for each value, and neither NaN nor infinity.

    Raises:
        ValueError: for NaN and infinity.
    """
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _union(kinds: Commands, whole: str, default: Any) -> Any:
    """Return the union of commands, with the whole help of one of them, and its default."""
    members = [
        Annotated[kind, tyro.conf.subcommand(name, **_described(kind, whole=name == whole, default=default))]
        for name, kind in kinds.items()
    ]
    return Union[tuple(members)]  # noqa: UP007 - the members are data


def _overview(program: str, description: str, commands: Commands) -> str:
    """Return the help of a program: what it does, an example of each command, and how a shell completes it."""
    own = commands.get("")
    lines = [description, "", "Examples:"]
    if own is not None:
        lines += _documentation(own).partition("\nExamples:\n")[2].splitlines()
    for name, kind in commands.items():
        if name:
            lines += [f"  {example}" for example in examples_of(kind)[:1]]
    if own is not None and len(commands) > 1:
        lines += ["", "Other commands, each with its own --help:"]
        lines += [f"  {name:<15} {_documentation(kind).splitlines()[0]}" for name, kind in commands.items() if name]
    whole = program if program.startswith("python") else program.partition(" ")[0]
    return "\n".join(
        [
            *lines,
            "",
            "Version:",
            f"  {whole} --version",
            "",
            "Completion, for bash:",
            f"  source <({whole} {COMPLETION[0]} bash)",
        ]
    )


def _described(kind: type[Command], *, whole: bool, default: Any) -> dict[str, Any]:
    described: dict[str, Any] = {"description": _help_of(kind, whole=whole)}
    return described | {"default": default} if whole and default is not None else described


def _help_of(kind: type[Command], *, whole: bool) -> str:
    """Return a command's help: its whole docstring, or the first paragraph for a list of commands."""
    text = _documentation(kind)
    return text if whole else text.partition("\n\n")[0]


def _documentation(kind: type[Command]) -> str:
    """Return a command's docstring as it is shown in a terminal."""
    return (inspect.getdoc(kind) or "").replace("``", "").replace("\n    ", "\n  ")


def _complete(program: str, commands: Commands, arguments: Sequence[str]) -> int:
    shell = arguments[1] if len(arguments) > 1 else ""
    script = completion_script(program, commands, shell)
    if arguments[0] == COMPLETION[0]:
        sys.stdout.write(script)
    elif len(arguments) > 2:
        Path(arguments[2]).write_text(script, encoding="utf-8")
    else:
        raise ValueError(f"{arguments[0]} takes a shell and a file to write: {arguments[0]} bash FILE")
    return EXIT_OK


SHELLS = ("bash", "zsh", "fish", "tcsh")

# bash passes the line to a completion in COMP_WORDS and COMP_CWORD; a function answers in COMPREPLY.
_BASH = """
_ident3d_package_{package}() {{
  local own=_tyro_{package}_own
  case " {names} " in
    *" ${{COMP_WORDS[1]-}} "*) own=_tyro_{package} ;;
  esac
  if ! declare -F "$own" >/dev/null; then
    own=_tyro_{package}
  fi
  "$own"
  local found=("${{COMPREPLY[@]}}") names= word
  case "${{COMP_WORDS[1]-}} ${{COMP_WORDS[COMP_CWORD - 1]-}}" in
{cases}    *) ;;
  esac
  for word in $names; do
    [[ $word != "${{COMP_WORDS[COMP_CWORD]-}}"* ]] || found+=("$word")
  done
  if [[ $COMP_CWORD -eq 1 && $own != _tyro_{package} ]]; then
    _tyro_{package}
    found+=("${{COMPREPLY[@]}}")
  fi
  COMPREPLY=()
  for word in "${{found[@]}}"; do
    [[ -z $word ]] || COMPREPLY+=("$word")
  done
}}

# Without an answer bash completes file names.
_ident3d_module() {{
  local package=${{COMP_WORDS[2]-}}
  COMPREPLY=()
  if [[ ${{COMP_WORDS[1]-}} == -m && $COMP_CWORD -gt 2 ]] && declare -F "_ident3d_package_$package" >/dev/null; then
    COMP_WORDS=("$package" "${{COMP_WORDS[@]:3}}")
    COMP_CWORD=$((COMP_CWORD - 2))
    "_ident3d_package_$package"
  fi
}}

complete -r {package} {package}_own 2>/dev/null
complete -o bashdefault -o default -F _ident3d_module python python3
"""
_BASH_OF_A_COMMAND = "complete -o bashdefault -o default -F _ident3d_package_{package} {package}\n"


def completion_script(program: str, commands: Mapping[str, Any], shell: str) -> str:
    """Return a script that a shell reads to complete a program's command lines.

    Args:
        program: how the program is called: one word, or "python -m" and a module.
        commands: its commands by name; that of "" is written without its name.
        shell: one of ``SHELLS``.

    Raises:
        ValueError: if the shell is none of these, or cannot complete the arguments of a module.
    """
    package = program.rpartition(" ")[2]
    is_module = package != program
    if shell not in SHELLS:
        raise ValueError(f"a shell is one of {', '.join(SHELLS)}, not {shell!r}")
    if is_module and shell != "bash":
        raise ValueError(f"{program} can be completed in bash only: {shell} completes the first word of a line, python")
    named = {name: Annotated[kind, tyro.conf.subcommand(name)] for name, kind in commands.items() if name}
    script = _functions(Union[tuple(named.values())], package, shell)  # noqa: UP007 - the members are data
    if shell != "bash":
        return script
    if "" in commands:
        script += _functions(commands[""], f"{package}_own", shell)
    script += _BASH.format(package=package, names=" ".join(named), cases="".join(_cases(commands)))
    return script if is_module else script + _BASH_OF_A_COMMAND.format(package=package)


def _cases(commands: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of bash that say which names may follow a command, or one of its options."""
    for command, kind in commands.items():
        for option, names in getattr(kind, "completions", {}).items():
            known = " ".join(name for name in names() if shlex.quote(name) == name)
            yield f'    "{command} {option or command}") names="{known}" ;;\n'


def _functions(kind: Any, name: str, shell: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        tyro.cli(kind, prog=name, args=["--tyro-print-completion", shell], config=STYLE)
    return text.getvalue()
