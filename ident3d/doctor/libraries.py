"""Libraries: what ident3d loads, which extra brings it, and what becomes of loading it here."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

__all__ = ["LIBRARIES", "PATIENCE_S", "Found", "Library", "State", "find", "probe"]

State = Literal["ok", "missing", "broken"]

PATIENCE_S = 300.0
"""How long libraries may take to load: long, because a slow machine is not a broken one."""

_PROBE = Path(__file__).with_name("probe.py")


@dataclass(frozen=True)
class Library:
    """A library that ident3d, or one of its extras, depends on.

    Attributes:
        module: the name that it is imported by.
        extras: the extras that bring it; none where ident3d itself does.
        distributions: the names that it is installed by.
    """

    module: str
    extras: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it is installed by."""
        return self.distributions or (self.module,)


LIBRARIES: tuple[Library, ...] = (
    Library("numpy"),
    Library("scipy"),
    Library("torch"),
    Library("PIL", distributions=("pillow",)),
    Library("isal"),
    Library("pyarrow"),
    Library("faiss", distributions=("faiss-gpu", "faiss-cpu")),
    Library("filelock"),
    Library("pooch"),
    Library("requests"),
    Library("tqdm"),
    Library("tyro"),
    Library("datasets", ("hub",)),
    Library("matplotlib", ("plot", "render", "train")),
    Library("bpy", ("render",)),
    Library("torchvision", ("train",)),
    Library("safetensors", ("train",)),
    Library("tensorboard", ("train",)),
    Library("onnx", ("train",)),
    Library("onnxscript", ("train",)),
    Library("onnxruntime", ("train", "leaderboard")),
    Library("jinja2", ("leaderboard",)),
    Library("pandas", ("leaderboard",)),
)
"""Every library that ``pyproject.toml`` names for those who use ident3d."""


@dataclass(frozen=True)
class Found:
    """What became of a library.

    Attributes:
        library: the library.
        state: "ok", "missing", or "broken": it is there and cannot be loaded.
        installed: the versions that are installed, by the name that they were installed by.
        reason: what loading it raised; None where it was loaded.
        details: what it says about itself and the machine.
    """

    library: Library
    state: State
    installed: dict[str, str] = field(default_factory=dict)
    reason: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Its versions, or what is wrong, in a line."""
        versions = ", ".join(version if len(self.library.names) == 1 else f"{version} ({name})"
                             for name, version in self.installed.items())  # fmt: skip
        if self.state == "ok":
            return versions or self.details.get("version") or "of unknown version"
        if self.state == "missing":
            return "not installed"
        return f"{versions or 'installed'}, cannot be loaded: {self.reason}"


def find(libraries: Sequence[Library] = LIBRARIES, *, patience_s: float = PATIENCE_S) -> dict[str, Found]:
    """Load libraries in processes of their own, and return what became of them by the names of their modules.

    Args:
        libraries: the libraries.
        patience_s: how long loading them may take, in seconds.
    """
    # Blender changes the process that it is loaded into, so it gets one of its own.
    blender = [library.module for library in libraries if library.module == "bpy"]
    others = [library.module for library in libraries if library.module != "bpy"]
    answers = probe(others, patience_s=patience_s) | probe(blender, patience_s=patience_s)
    return {library.module: _found(library, answers[library.module]) for library in libraries}


def probe(modules: Sequence[str], *, patience_s: float = PATIENCE_S) -> dict[str, dict[str, Any]]:
    """Load modules in another process of this Python; one that ends the process, or hangs, stops none of the others.

    Args:
        modules: their names.
        patience_s: how long loading them may take, in seconds.

    Returns:
        What :func:`ident3d.doctor.probe.look_at` says of each.
    """
    answers: dict[str, dict[str, Any]] = {}
    while waiting := [module for module in modules if module not in answers]:
        lines, ending = _answers_of(waiting, patience_s)
        for line in lines:
            if "loaded" in line:
                answers[line.pop("loaded")] = line
        begun = [line["loading"] for line in lines if "loading" in line and line["loading"] not in answers]
        for module in begun or (() if lines else waiting):
            answers[module] = {"state": "broken", "reason": ending}
    return answers


def _answers_of(modules: list[str], patience_s: float) -> tuple[list[dict[str, Any]], str]:
    """Return the answers of a process that loads modules, and how it ended."""
    # -P: the folder that the command is run in may hold files named like modules.
    command = [sys.executable, "-P", "-W", "ignore", str(_PROBE), *modules]
    try:
        done = subprocess.run(command, capture_output=True, timeout=patience_s, check=False, stdin=subprocess.DEVNULL)
        output, ending = done.stdout, _ending(done.returncode, done.stderr)
    except subprocess.TimeoutExpired as error:
        output, ending = error.stdout or b"", f"not loaded within {patience_s:g} s"
    except OSError as error:
        output, ending = b"", f"{sys.executable} cannot be run: {error}"
    # The last line is whole only if it ends as one.
    return [json.loads(line) for line in output.decode().splitlines(keepends=True) if line.endswith("\n")], ending


def _ending(status: int, errors: bytes) -> str:
    last = errors.decode(errors="replace").strip().splitlines()[-1:]
    how = f"status {status}"
    if status < 0:
        try:
            how = signal.Signals(-status).name
        except ValueError:
            how = f"signal {-status}"
    return f"loading it ends the process with {how}{''.join(f': {line}' for line in last)}"


def _found(library: Library, answer: dict[str, Any]) -> Found:
    installed = {}
    for name in library.names:
        try:
            installed[name] = metadata.version(name)
        except Exception:  # noqa: BLE001, S112 - damaged metadata raise what they like, and the library may still load
            continue
    details = dict(answer)
    state, reason = details.pop("state"), details.pop("reason", None)
    return Found(library, state, installed, reason, details)
