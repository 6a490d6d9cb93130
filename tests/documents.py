"""Documents whose code blocks run: Markdown as it stands, on less where a test says so."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def blocks(text):
    """Return the fenced blocks of a Markdown text in their order, each as its language and its lines."""
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(command, folder):
    """Run a command in a folder, with the commands of this environment and the packages of this checkout."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def script(text):
    """Return a Markdown text's blocks of Python and of shell commands as one Python program.

    A block of Python whose first line is a comment with the name of a file is written to that file. In place of each
    block of expected output it prints a line, so that what was printed can be told apart.
    """
    lines = ["import subprocess"]
    for language, code in blocks(text):
        name = re.match(r"# (\w+\.py)\n", code)
        if language == "python" and name:
            lines.append(f"import pathlib; pathlib.Path({name[1]!r}).write_text({code!r})")
        elif language == "python":
            lines.append(code)
        elif language == "sh":
            lines.append(f"subprocess.run(['bash', '-euc', {code!r}], check=True)")
        elif language == "output":
            lines.append(f"print({MARK!r}, flush=True)")
    return "\n".join(lines)


MARK = "--- expected above ---"


def outputs(printed):
    """Return what a script printed before each block of expected output."""
    return [part.strip("\n") for part in printed.split(MARK + "\n")][:-1]
