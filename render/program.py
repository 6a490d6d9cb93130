"""The program that a worker process runs: this Python, another one, or a Blender executable."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ident3d.machine.blender import RELEASES
from render.errors import BlenderMissingError

__all__ = ["Program"]

_ROOT = Path(__file__).resolve().parents[1]
_PATIENCE_S = 60


@dataclass(frozen=True)
class Program:
    """A command line that starts a worker.

    Attributes:
        command: the program and its arguments.
    """

    command: tuple[str, ...]

    @classmethod
    def find(cls, blender: str | os.PathLike[str] | None = None) -> "Program":
        """Return the program for the workers.

        Args:
            blender: path of a Python that has bpy, or of a Blender executable; this Python where None.

        Raises:
            FileNotFoundError: if there is no such file.
            BlenderMissingError: if the file is neither, or a Python that no bpy exists for.
        """
        if blender is None:
            return cls._python(sys.executable, sys.version_info[:2])
        path = Path(blender)
        if not path.is_file():
            raise FileNotFoundError(f"no such program: {path}; expected a Python that has bpy, or a Blender executable")
        # The path is not resolved: a virtual environment's Python is a link that has to be called by its own name.
        banner = _banner(path.absolute())
        python = re.search(r"^Python (\d+)\.(\d+)", banner, re.MULTILINE)
        if python:
            return cls._python(str(path.absolute()), (int(python[1]), int(python[2])))
        if re.search(r"^Blender \d", banner, re.MULTILINE):
            script = str(_ROOT / "render" / "worker.py")
            background = ("--background", "--factory-startup", "--python-exit-code", "1", "--python", script)
            return cls((str(path.absolute()), *background))
        raise BlenderMissingError(
            f"{path} is neither a Python nor a Blender executable: --version says {banner.strip()[:200]!r}"
        )

    @classmethod
    def _python(cls, executable: str, version: tuple[int, int]) -> "Program":
        if version < min(RELEASES):
            raise BlenderMissingError(
                f"{executable} is Python {version[0]}.{version[1]}; the workers need Python "
                + " or ".join(f"{major}.{minor}" for major, minor in RELEASES)
            )
        # -P: the folder that the command is run in may hold files named like modules that Blender loads.
        return cls((executable, "-P", "-m", "render.worker"))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a worker: this process's, with the project importable."""
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": path}


def _banner(path: Path) -> str:
    try:
        done = subprocess.run(
            [str(path), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BlenderMissingError(f"{path} cannot be run: {error}") from error
    return done.stdout + done.stderr
