"""Libraries: what ident3d loads, which extra brings it, what becomes of loading it here, and what bpy needs.

Some libraries end the process that loads them, and some never come back. So they are loaded in a process of its own,
which runs this very file as its program; it needs the standard library alone.
"""

import ctypes
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

__all__ = [
    "DEBIAN_PACKAGES",
    "LIBRARIES",
    "PATIENCE_S",
    "RELEASES",
    "Library",
    "LoadedLibrary",
    "State",
    "explain_bpy",
    "load_all",
    "look_at",
    "missing_packages",
    "probe",
]

State = Literal["ok", "missing", "broken"]

PATIENCE_S = 300.0
"""How long libraries may take to load: long, because a slow machine is not a broken one."""


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
    Library("jaxtyping"),
    Library("pooch"),
    Library("requests"),
    Library("urllib3"),
    Library("tqdm"),
    Library("tyro"),
    Library("datasets", ("hub",)),
    Library("matplotlib", ("plot", "render", "train")),
    Library("warp", ("live",), ("warp-lang",)),
    Library("bpy", ("render",)),
    Library("torchvision", ("train",)),
    Library("safetensors", ("train",)),
    Library("tensorboard", ("train",)),
    Library("wandb", ("wandb",)),
    Library("onnx", ("train", "leaderboard")),
    Library("onnxscript", ("train",)),
    Library("onnxruntime", ("train", "leaderboard")),
    Library("jinja2", ("leaderboard",)),
    Library("pandas", ("leaderboard",)),
)
"""Every library that ``pyproject.toml`` names for those who use ident3d."""


@dataclass(frozen=True)
class LoadedLibrary:
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


def load_all(libraries: Sequence[Library] = LIBRARIES, *, patience_s: float = PATIENCE_S) -> dict[str, LoadedLibrary]:
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
        What :func:`look_at` says of each.
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
    command = [sys.executable, "-P", "-W", "ignore", str(Path(__file__)), *modules]
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


def _found(library: Library, answer: dict[str, Any]) -> LoadedLibrary:
    installed = {}
    for name in library.names:
        try:
            installed[name] = metadata.version(name)
        except Exception:  # noqa: BLE001, S112 - damaged metadata raise what they like, and the library may still load
            continue
    details = dict(answer)
    state, reason = details.pop("state"), details.pop("reason", None)
    return LoadedLibrary(library, state, installed, reason, details)


_FEATURES = ("avx2", "avx512_f", "avx512_bf16", "amx_bf16", "neon", "sve", "sve2", "bf16", "arm_bf16", "sve_bf16")
_MESSAGE_LENGTH = 300  # characters of a message that are kept


def main(names: list[str]) -> None:
    """Load modules one after another and write down what is found: the program that :func:`probe` starts.

    For each it writes two JSON lines to its standard output: ``{"loading": NAME}`` before, and
    ``{"loaded": NAME, ...}`` after. From these, :func:`probe` knows which library ended the process, or hung. What
    the libraries print themselves goes nowhere.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def write(**answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    for name in names:
        write(loading=name)
        write(loaded=name, **look_at(name))
    os._exit(0)  # the endings of some libraries are slow, and that of Blender may crash


def look_at(name: str) -> dict[str, Any]:
    """Load a module.

    Returns:
        "state": "ok", "missing" or "broken"; "reason" where it is not "ok"; what else there is to know where it is.
    """
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        return {"state": "missing" if error.name == name else "broken", "reason": _in_a_line(error)}
    except BaseException as error:  # noqa: BLE001 - a broken library may raise anything, exits included
        return {"state": "broken", "reason": _in_a_line(error)}
    version = getattr(module, "__version__", None)
    found = {"state": "ok", "version": version if isinstance(version, str) else None}
    try:
        return found | (_DETAILS[name](module) if name in _DETAILS else {})
    except Exception as error:  # noqa: BLE001 - it can be loaded all the same
        return found | {"reason": f"loaded, but does not answer: {_in_a_line(error)}"}


def _bpy(bpy: Any) -> dict[str, Any]:
    return {"version": bpy.app.version_string}


def _faiss(faiss: Any) -> dict[str, Any]:
    with_gpus = hasattr(faiss, "StandardGpuResources")
    return {
        "with_gpus": with_gpus,
        "gpus": faiss.get_num_gpus() if with_gpus else 0,
        "threads": faiss.omp_get_max_threads(),
    }


def _onnxruntime(onnxruntime: Any) -> dict[str, Any]:
    return {"providers": list(onnxruntime.get_available_providers())}


def _torch(torch: Any) -> dict[str, Any]:
    features = _processor_features(torch)
    devices, why_none = _cuda_devices(torch)
    return {
        "cuda": torch.version.cuda or torch.version.hip,
        "cuda_devices": devices,
        "why_no_cuda": why_none,
        "mps": bool(torch.backends.mps.is_available()),
        "processor": torch.backends.cpu.get_cpu_capability(),
        "processor_features": features,
        "bfloat16": any("bf16" in feature for feature in features),
        "threads": torch.get_num_threads(),
    }


def _processor_features(torch: Any) -> list[str]:
    if hasattr(torch.cpu, "get_capabilities"):
        there = torch.cpu.get_capabilities()
        return [feature for feature in _FEATURES if there.get(feature)]
    older = {"avx2": "_is_avx2_supported", "avx512_f": "_is_avx512_supported", "amx_bf16": "_is_amx_tile_supported"}
    older["avx512_bf16"] = "_is_avx512_bf16_supported"
    return [feature for feature, name in older.items() if getattr(torch.cpu, name, bool)()]


def _cuda_devices(torch: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Return the CUDA devices, or why there is none."""
    if not torch.backends.cuda.is_built():
        return [], "this torch is built without CUDA"
    try:
        torch.cuda.init()
        torch.zeros(1, device="cuda")
    except Exception as error:  # noqa: BLE001 - torch raises what the driver made it trip over
        return [], str(error).partition("\n")[0].partition(". ")[0]
    devices = []
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        free, total = torch.cuda.mem_get_info(number)
        devices.append(
            {"name": about.name, "capability": f"{about.major}.{about.minor}", "memory": total, "free_memory": free}
        )
    return devices, None


def _in_a_line(error: BaseException) -> str:
    """Return the first line of an error's message, with the type of the error unless it is an ImportError."""
    message = (str(error).strip() or "no message").splitlines()[0][:_MESSAGE_LENGTH]
    return message if isinstance(error, ImportError) else f"{type(error).__name__}: {message}"


_DETAILS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "bpy": _bpy,
    "faiss": _faiss,
    "onnxruntime": _onnxruntime,
    "torch": _torch,
}


RELEASES: Mapping[tuple[int, int], str] = MappingProxyType({(3, 11): "4.5", (3, 13): "5.2"})
"""The release of bpy that each Python runs; every bpy is built for exactly one Python."""

DEBIAN_PACKAGES: Mapping[str, str] = MappingProxyType(
    {
        "libGL.so.1": "libgl1",
        "libICE.so.6": "libice6",
        "libSM.so.6": "libsm6",
        "libX11.so.6": "libx11-6",
        "libXext.so.6": "libxext6",
        "libXfixes.so.3": "libxfixes3",
        "libXi.so.6": "libxi6",
        "libXrender.so.1": "libxrender1",
        "libxkbcommon.so.0": "libxkbcommon0",
    }
)
"""Shared libraries that bpy loads from the system, even without a display, and the Debian packages that hold them."""


def missing_packages(load: Callable[[str], object] = ctypes.CDLL) -> list[str]:
    """Return the Debian packages whose libraries this Linux machine lacks; none on other systems.

    Args:
        load: loads a shared library by its name, or raises OSError.
    """
    if not sys.platform.startswith("linux"):
        return []
    missing = []
    for library, package in DEBIAN_PACKAGES.items():
        try:
            load(library)
        except OSError:
            missing.append(package)
    return missing


def explain_bpy(reason: str, *, is_missing: bool, version: tuple[int, int] = sys.version_info[:2]) -> str:
    """Say why Blender's module bpy cannot be loaded, and what to do about it.

    Args:
        reason: what its import raised.
        is_missing: whether there is no such module, instead of one that cannot be loaded.
        version: major and minor version of the Python that tried.
    """
    python = ".".join(map(str, version))
    pairs = ", ".join(f"Python {major}.{minor} runs bpy {bpy}" for (major, minor), bpy in RELEASES.items())
    other = "--blender PATH names another Python that has bpy, or a Blender executable"
    if version not in RELEASES:
        return f"no bpy exists for Python {python}: {pairs}; {other}"
    named = re.findall(r"\blib[\w.+-]*\.so[.\d]*", reason) if "cannot open shared object file" in reason else []
    packages = missing_packages() + [DEBIAN_PACKAGES[library] for library in named if library in DEBIAN_PACKAGES]
    if packages:
        wanted = " ".join(dict.fromkeys(packages))
        return f"bpy cannot be loaded ({reason}): system libraries are missing. apt-get install {wanted}"
    if named:
        return f"bpy cannot be loaded ({reason}): install the system's package that holds {', '.join(named)}"
    install = f"'ident3d[render]', or 'bpy=={RELEASES[version]}.*' alone; {pairs}; {other}"
    if is_missing:
        return f"bpy is not installed in this Python {python}: pip install {install}"
    broken = f"bpy is installed in this Python {python} and cannot be loaded ({reason})"
    return f"{broken}: pip install --force-reinstall {install}"


if __name__ == "__main__":
    main(sys.argv[1:])
