"""The check of a GPU, on the CPU, in a process where only torch, torchvision, numpy and pillow can be imported."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
ABSENT = (
    *(
        "bpy",
        "datasets",
        "faiss",
        "isal",
        "matplotlib",
        "onnx",
        "onnxruntime",
        "onnxscript",
        "pandas",
        "pooch",
        "pyarrow",
    ),
    *("requests", "safetensors", "scipy", "tensorboard", "tqdm", "tyro", "urllib3"),
)
WITHOUT = f"""
import importlib.machinery, runpy, sys

class Filtered(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {ABSENT!r} else super().find_spec(name, path, target)

sys.meta_path[:] = [Filtered if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
sys.argv[:1] = ["gpu_check"]
runpy.run_module("benchmarks.gpu_check", run_name="__main__")
"""


def gpu_check(*arguments):
    command = [sys.executable, "-c", WITHOUT, "--device", "cpu", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_it_runs_with_torch_torchvision_and_numpy_alone():
    found = gpu_check("--images", "64", "--resolution", "32", "--batch-size", "8", "--steps", "2")
    assert found.returncode == 0, found.stderr
    assert "losses agree" in found.stdout
    assert "images/s; the same step on one batch: " in found.stdout
    assert found.stdout.count("| AnInfoNCE |") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--resolution", "60"), "a resolution is a multiple of 8, not 60"),
        (("--images", "4"), "2 pairs to 4"),
        (("--precision", "float8"), "invalid choice: 'float8'"),
    ],
)
def test_what_it_cannot_do_is_told(arguments, message):
    found = gpu_check(*arguments)
    assert found.returncode == 2
    assert message in found.stderr
