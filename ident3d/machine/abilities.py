"""Abilities: what works here, and what to install for the rest."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from ident3d.machine.blender import RELEASES, missing_packages
from ident3d.machine.libraries import Found

__all__ = ["Ability", "abilities"]

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


def abilities(found: Mapping[str, Found], version: tuple[int, int] = sys.version_info[:2]) -> tuple[Ability, ...]:
    """Return what works.

    Args:
        found: what became of the libraries, by module; see :func:`ident3d.machine.libraries.find`.
        version: major and minor version of this Python.
    """
    reading = ("numpy", "PIL", "isal", "pyarrow", "torch", "filelock", "tqdm")
    return (
        _ability(found, "read", "read, verify and convert datasets", reading, core=True),
        _ability(found, "pairs", "draw positive pairs", ("numpy", "torch", "scipy", "faiss"), core=True),
        _ability(found, "score", "score embeddings and write submissions", ("numpy", "scipy", "torch"), core=True),
        _ability(found, "download", "download the published archives", ("pooch", "requests", "filelock"), core=True),
        _rendering(found, version),
        _training(found),
        _gpu(found),
        _ability(found, "export", "export encoders", ("onnx", "onnxscript", "onnxruntime", "safetensors"), "train"),
        _leaderboard(found),
        _ability(found, "hub", "load from the Hugging Face hub", ("datasets",), "hub"),
        _ability(found, "plot", "draw plots", ("matplotlib",), "plot"),
    )


def _ability(
    found: Mapping[str, Found], name: str, what: str, needs: tuple[str, ...], extra: str | None = None, *,
    core: bool = False,
) -> Ability:  # fmt: skip
    remark = _lacking(found, needs, extra)
    return Ability(name, what, "no" if remark else "yes", remark, core)


def _lacking(found: Mapping[str, Found], needs: tuple[str, ...], extra: str | None) -> str:
    """Return which libraries cannot be loaded and how to get them; nothing where all can."""
    lacking = [found[module] for module in needs if found[module].state != "ok"]
    if not lacking:
        return ""
    which = "; ".join(f"{one.library.names[0]}: {one.text}" for one in lacking)
    package = "ident3d" if extra is None else f"'ident3d[{extra}]'"
    again = "--force-reinstall " if any(one.state == "broken" for one in lacking) else ""
    return f"{which}. pip install {again}{package}"


def _rendering(found: Mapping[str, Found], version: tuple[int, int]) -> Ability:
    what = "render pictures"
    python = ".".join(map(str, version))
    packages = missing_packages()
    if version not in RELEASES:
        pairs = ", ".join(f"Python {major}.{minor} runs bpy {bpy}" for (major, minor), bpy in RELEASES.items())
        remark = (
            f"no bpy exists for Python {python}: {pairs}; --blender names another Python that has bpy, or a Blender"
        )
    elif packages:
        remark = f"Blender needs system libraries. apt-get install {' '.join(packages)}"
    else:
        remark = _lacking(found, ("bpy",), "render")
    remark = remark or _lacking_room("render")
    return Ability("render", what, "no" if remark else "yes", remark)


def _training(found: Mapping[str, Found]) -> Ability:
    remark = _lacking(found, ("torch", "torchvision", "matplotlib"), "train") or _lacking_room("baselines")
    return Ability("train", "train and embed with encoders of pictures", "no" if remark else "yes", remark)


def _gpu(found: Mapping[str, Found]) -> Ability:
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


def _leaderboard(found: Mapping[str, Found]) -> Ability:
    what = "add to the leaderboard and build its page"
    remark = _lacking(found, ("jinja2", "pandas"), "leaderboard") or _lacking_room("leaderboard")
    if remark:
        return Ability("leaderboard", what, "no", remark)
    lacking = _lacking(found, ("onnxruntime",), "leaderboard")
    return Ability("leaderboard", what, "in part" if lacking else "yes", lacking and f"encoders are not run: {lacking}")


def _lacking_room(name: str) -> str:
    """Return what to do where a package that the wheel does not hold is not there; nothing where it is."""
    return "" if find_spec(name) else f"{name} is no part of the installed package: run it in a checkout"
