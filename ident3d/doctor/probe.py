"""The program that loads libraries and tells what becomes of it, in a process of its own.

It is started as a file, with names of modules as its arguments, and writes two JSON lines for each to its standard
output: ``{"loading": NAME}`` before, and ``{"loaded": NAME, ...}`` after. Who reads them can tell which library ended
the process, or never came back. What the libraries print themselves goes nowhere.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["look_at", "main"]

_FEATURES = ("avx2", "avx512_f", "avx512_bf16", "amx_bf16", "neon", "sve", "sve2", "bf16", "arm_bf16", "sve_bf16")
_FIRST_OF_A_MESSAGE = 300


def main(names: list[str]) -> None:
    """Load modules one after another and write down what is found."""
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
    """Return the first line of an error's message, with the kind of error where it is no import that failed."""
    message = (str(error).strip() or "no message").splitlines()[0][:_FIRST_OF_A_MESSAGE]
    return message if isinstance(error, ImportError) else f"{type(error).__name__}: {message}"


_DETAILS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "bpy": _bpy,
    "faiss": _faiss,
    "onnxruntime": _onnxruntime,
    "torch": _torch,
}


if __name__ == "__main__":
    main(sys.argv[1:])
