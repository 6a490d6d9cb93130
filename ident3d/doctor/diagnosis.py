"""The diagnosis: all that a report of a fault needs to say about a machine, as text and as JSON."""

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import ident3d
from ident3d.doctor.libraries import PATIENCE_S, LoadedLibrary, explain_bpy, load_all, missing_packages
from ident3d.doctor.machine import Disk, Memory, ProcessLimits, Processor, disks, limits, memory, processor
from ident3d.repository import repository_address

__all__ = ["Ability", "Diagnosis", "System", "abilities", "diagnose"]

Works = Literal["yes", "no", "in part"]


@dataclass(frozen=True)
class Ability:
    """Something that one may want to do.

    Attributes:
        name: its short name.
        what: what it is, in words.
        works: whether it works here.
        remark: what is missing, and what to do about it; empty where it works.
        core: whether ident3d is broken where it does not work.
    """

    name: str
    what: str
    works: Works
    remark: str = ""
    core: bool = False


def abilities(
    found: Mapping[str, LoadedLibrary], version: tuple[int, int] = sys.version_info[:2]
) -> tuple[Ability, ...]:
    """Return what works.

    Args:
        found: what became of the libraries, by module; see :func:`ident3d.doctor.libraries.load_all`.
        version: major and minor version of this Python.
    """
    reading = ("numpy", "PIL", "isal", "pyarrow", "torch", "filelock", "tqdm")
    return (
        _ability(found, "read", "read, verify and convert datasets", reading, core=True),
        _ability(found, "pairs", "draw positive pairs", ("numpy", "torch", "scipy", "faiss"), core=True),
        _ability(found, "score", "score embeddings and write submissions", ("numpy", "scipy", "torch"), core=True),
        _ability(found, "download", "download the published archives", ("pooch", "requests", "filelock"), core=True),
        _ability(found, "live", "render live images, without Blender", ("torch", "warp"), "live"),
        _rendering(found, version),
        _training(found),
        _gpu(found),
        _exporting(found),
        _leaderboard(found),
        _ability(found, "hub", "load from the Hugging Face hub", ("datasets",), "hub"),
        _ability(found, "plot", "draw plots", ("matplotlib",), "plot"),
    )


def _ability(
    found: Mapping[str, LoadedLibrary], name: str, what: str, needs: tuple[str, ...], extra: str | None = None, *,
    core: bool = False,
) -> Ability:  # fmt: skip
    remark = _lacking(found, needs, extra)
    return Ability(name, what, "no" if remark else "yes", remark, core)


def _lacking(found: Mapping[str, LoadedLibrary], needs: tuple[str, ...], extra: str | None) -> str:
    """Return which libraries cannot be loaded and how to get them; nothing where all can."""
    lacking = [found[module] for module in needs if found[module].state != "ok"]
    if not lacking:
        return ""
    which = "; ".join(f"{one.library.names[0]}: {one.text}" for one in lacking)
    package = "ident3d" if extra is None else f"'ident3d[{extra}]'"
    again = "--force-reinstall " if any(one.state == "broken" for one in lacking) else ""
    return f"{which}. pip install {again}{package}"


def _rendering(found: Mapping[str, LoadedLibrary], version: tuple[int, int]) -> Ability:
    bpy = found["bpy"]
    remark = _lacking_package("render")
    if not remark and bpy.state != "ok":
        remark = explain_bpy(bpy.reason or "", is_missing=bpy.state == "missing", version=version)
    return Ability("render", "render images", "no" if remark else "yes", remark)


def _training(found: Mapping[str, LoadedLibrary]) -> Ability:
    remark = _lacking_package("baselines") or _lacking(found, ("torch", "torchvision", "matplotlib"), "train")
    return Ability("train", "train and embed with encoders of images", "no" if remark else "yes", remark)


def _exporting(found: Mapping[str, LoadedLibrary]) -> Ability:
    needs = ("onnx", "onnxscript", "onnxruntime", "safetensors")
    remark = _lacking_package("baselines") or _lacking(found, needs, "train")
    return Ability("export", "export encoders", "no" if remark else "yes", remark)


def _gpu(found: Mapping[str, LoadedLibrary]) -> Ability:
    what = "train, and match pairs, on a GPU"
    torch, faiss = found["torch"], found["faiss"]
    if torch.state != "ok":
        return Ability("gpu", what, "no", "torch cannot be loaded")
    if not torch.details.get("cuda_devices"):
        why = torch.details.get("why_no_cuda") or "torch does not say why"
        return Ability("gpu", what, "no", f"torch sees no CUDA device: {why}; everything runs on the CPU")
    if not faiss.details.get("gpus"):
        return Ability(
            "gpu", what, "in part", "FAISS sees no GPU: pairs are matched on the CPU, or with backend='torch'"
        )
    return Ability("gpu", what, "yes")


def _leaderboard(found: Mapping[str, LoadedLibrary]) -> Ability:
    what = "add to the leaderboard and build its page"
    remark = _lacking_package("leaderboard") or _lacking(found, ("jinja2", "pandas"), "leaderboard")
    if remark:
        return Ability("leaderboard", what, "no", remark)
    lacking = _lacking(found, ("onnx", "onnxruntime"), "leaderboard")
    return Ability("leaderboard", what, "in part" if lacking else "yes", lacking and f"encoders are not run: {lacking}")


def _lacking_package(name: str) -> str:
    """Return what to do where a package that the wheel does not hold is not there; nothing where it is."""
    if find_spec(name):
        return ""
    address = repository_address()
    where = "in a checkout of the repository" if address is None else f"in a checkout of {address}"
    return f"not in the installed package: python -m {name} runs {where}"


_VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "KMP_AFFINITY", "OMP_PROC_BIND"),
    *("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "TMPDIR", "HF_HOME", "HF_HUB_OFFLINE"),
)
_GIB = 1 << 30


@dataclass(frozen=True)
class System:
    """Python, and what it runs on.

    Attributes:
        ident3d: version of ident3d.
        folder: where it is loaded from.
        python: version of Python.
        executable: the interpreter.
        platform: system, kernel and processor's kind.
        distribution: name and version of the Linux distribution; empty elsewhere.
        libc: name and version of the C library; empty where it is not known.
        variables: environment variables that change what the libraries do, where they are set.
        missing_packages: Debian packages that rendering needs.
    """

    ident3d: str
    folder: str
    python: str
    executable: str
    platform: str
    distribution: str
    libc: str
    variables: dict[str, str]
    missing_packages: tuple[str, ...]

    @classmethod
    def ask(cls) -> "System":
        """Return those of this process."""
        try:
            distribution = platform.freedesktop_os_release().get("PRETTY_NAME", "")
        except OSError:
            distribution = ""
        return cls(
            ident3d.__version__,
            str(Path(ident3d.__file__).parent),
            f"{platform.python_implementation()} {platform.python_version()}",
            sys.executable,
            platform.platform(),
            distribution,
            " ".join(platform.libc_ver()).strip(),
            {name: os.environ[name] for name in _VARIABLES if name in os.environ},
            tuple(missing_packages()),
        )


@dataclass(frozen=True)
class Diagnosis:
    """What a machine has, and what can be done with it.

    Attributes:
        system: Python, and what it runs on.
        processor: its processor.
        memory: its memory.
        disks: free space in the folders that are written into.
        limits: limits of processes.
        libraries: what became of the libraries, by module.
        abilities: what works.
    """

    system: System
    processor: Processor
    memory: Memory
    disks: tuple[Disk, ...]
    limits: ProcessLimits
    libraries: dict[str, LoadedLibrary]
    abilities: tuple[Ability, ...]

    @property
    def core_works(self) -> bool:
        """Whether all works that does not need an extra."""
        return all(ability.works == "yes" for ability in self.abilities if ability.core)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        data = asdict(self)
        data["libraries"] = {
            module: {
                "state": one.state,
                "installed": one.installed,
                "extras": list(one.library.extras),
                "reason": one.reason,
                **one.details,
            }
            for module, one in self.libraries.items()
        }
        return {"core_works": self.core_works, **data}

    def table(self) -> str:
        """Return everything as text to be read, and to be pasted into a report."""
        blocks = {
            "System": self._system_rows(),
            "Libraries": ((one.library.names[0], one.text) for one in self.libraries.values()),
            "Devices": self._device_rows(),
            "Memory and disks": self._space_rows(),
            "What works here": ((a.what, f"{a.works}{': ' if a.remark else ''}{a.remark}") for a in self.abilities),
        }
        return "\n\n".join(f"{title}\n{_aligned(list(rows))}" for title, rows in blocks.items())

    def _system_rows(self) -> Iterator[tuple[str, str]]:
        system = self.system
        yield "ident3d", f"{system.ident3d}, in {system.folder}"
        yield "Python", f"{system.python}, {system.executable}"
        yield "system", ", ".join(filter(None, (system.distribution, system.platform, system.libc)))
        missing = system.missing_packages
        if not missing:
            yield "libraries of X and GL", "all there"
        elif find_spec("render"):
            yield "libraries of X and GL", f"missing: apt-get install {' '.join(missing)}"
        else:
            yield "libraries of X and GL", f"missing {', '.join(missing)}, which Blender alone needs"
        yield from system.variables.items()

    def _device_rows(self) -> Iterator[tuple[str, str]]:
        cpu, torch, faiss = self.processor, self.libraries["torch"].details, self.libraries["faiss"].details
        features = " ".join(torch.get("processor_features", ()))
        yield "processor", f"{cpu.name}{f' ({features})' if features else ''}"
        granted = "" if cpu.quota is None else f"; its group is granted {cpu.quota:g}"
        load = "" if cpu.load is None else f"; {cpu.load:.1f} processes want to run"
        yield "cores", f"{cpu.usable} of {cpu.cores} may be used{granted}{load}"
        if "bfloat16" in torch:
            yield "bfloat16", "in hardware" if torch["bfloat16"] else "not in the processor's hardware: use float32"
        if "threads" in torch:
            yield "threads", f"torch {torch['threads']}, faiss {faiss.get('threads', 'none')}"
        for device in torch.get("cuda_devices", ()):
            sizes = f"{device['free_memory'] / _GIB:.1f} of {device['memory'] / _GIB:.1f} GiB free"
            yield "CUDA", f"{device['name']}, compute capability {device['capability']}, {sizes}"
        if torch.get("why_no_cuda"):
            built = f" (torch is built for {torch['cuda']})" if torch.get("cuda") else ""
            yield "CUDA", f"none: {torch['why_no_cuda']}{built}"
        if "with_gpus" in faiss:
            yield "FAISS", f"built {'with' if faiss['with_gpus'] else 'without'} GPUs, sees {faiss['gpus']}"

    def _space_rows(self) -> Iterator[tuple[str, str]]:
        store, processes = self.memory, self.limits
        bounded = "" if store.limit is None else f"; its group may take {_size(store.limit)}"
        yield "memory", f"{_size(store.available)} of {_size(store.total)} available{bounded}"
        if store.shared is not None:
            yield "shared memory", f"{_size(store.shared)} free"
        for disk in self.disks:
            closed = "" if disk.writable else ", not writable"
            yield f"disk, {disk.what}", f"{_size(disk.free)} free{closed} in {disk.path}"
        files = (
            "no limit that is known" if number is None else f"{number:,}"
            for number in (processes.open_files, processes.most_open_files)
        )
        yield "open files", f"{next(files)}, at most {next(files)}"
        yield "workers start by", processes.start_method


def diagnose(*, patience_s: float = PATIENCE_S) -> Diagnosis:
    """Look at this machine; libraries are loaded in processes of their own.

    Args:
        patience_s: how long loading them may take, in seconds.
    """
    found = load_all(patience_s=patience_s)
    return Diagnosis(System.ask(), processor(), memory(), disks(), limits(), found, abilities(found))


def _aligned(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in rows)


def _size(count: int | None) -> str:
    return "unknown" if count is None else f"{count / _GIB:.1f} GiB"
