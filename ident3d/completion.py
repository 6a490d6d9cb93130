"""Shell completion: scripts that make a shell finish commands, options and file names.

tyro writes the functions that know the options. What is added for bash: file names where tyro knows nothing, and the
programs that are called ``python -m ...``, which a shell would complete as ``python``.
"""

import contextlib
import io
from collections.abc import Mapping
from typing import Annotated, Any, Union

import tyro

from ident3d.commandline import STYLE

__all__ = ["SHELLS", "completion_script"]

SHELLS = ("bash", "zsh", "fish", "tcsh")

# COMP_WORDS and COMP_CWORD are what bash tells a completion of the line; a function answers in COMPREPLY.
_BASH = """
_ident3d_room_{room}() {{
  local own=_tyro_{room}_own
  case " {names} " in
    *" ${{COMP_WORDS[1]-}} "*) own=_tyro_{room} ;;
  esac
  if ! declare -F "$own" >/dev/null; then
    own=_tyro_{room}
  fi
  "$own"
  local found=("${{COMPREPLY[@]}}")
  if [[ $COMP_CWORD -eq 1 && $own != _tyro_{room} ]]; then
    _tyro_{room}
    found+=("${{COMPREPLY[@]}}")
  fi
  COMPREPLY=()
  local word
  for word in "${{found[@]}}"; do
    [[ -z $word ]] || COMPREPLY+=("$word")
  done
}}

# Without an answer bash completes file names.
_ident3d_module() {{
  local room=${{COMP_WORDS[2]-}}
  COMPREPLY=()
  if [[ ${{COMP_WORDS[1]-}} == -m && $COMP_CWORD -gt 2 ]] && declare -F "_ident3d_room_$room" >/dev/null; then
    COMP_WORDS=("$room" "${{COMP_WORDS[@]:3}}")
    COMP_CWORD=$((COMP_CWORD - 2))
    "_ident3d_room_$room"
  fi
}}

complete -r {room} {room}_own 2>/dev/null
complete -o bashdefault -o default -F _ident3d_module python python3
"""
_BASH_OF_A_COMMAND = "complete -o bashdefault -o default -F _ident3d_room_{room} {room}\n"


def completion_script(program: str, commands: Mapping[str, Any], shell: str) -> str:
    """Return a script that a shell reads to complete a program's command lines.

    Args:
        program: how the program is called: one word, or "python -m" and a module.
        commands: its commands by name; that of "" is written without its name.
        shell: one of ``SHELLS``.

    Raises:
        ValueError: if the shell is none of these, or cannot complete the arguments of a module.
    """
    room = program.rpartition(" ")[2]
    is_module = room != program
    if shell not in SHELLS:
        raise ValueError(f"a shell is one of {', '.join(SHELLS)}, not {shell!r}")
    if is_module and shell != "bash":
        raise ValueError(f"{program} can be completed in bash only: {shell} completes the first word of a line, python")
    named = [Annotated[kind, tyro.conf.subcommand(name)] for name, kind in commands.items() if name]
    script = _functions(Union[tuple(named)], room, shell)  # noqa: UP007 - the members are data
    if shell != "bash":
        return script
    if "" in commands:
        script += _functions(commands[""], f"{room}_own", shell)
    script += _BASH.format(room=room, names=" ".join(name for name in commands if name))
    return script if is_module else script + _BASH_OF_A_COMMAND.format(room=room)


def _functions(kind: Any, name: str, shell: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        tyro.cli(kind, prog=name, args=["--tyro-print-completion", shell], config=STYLE)
    return text.getvalue()
