"""The check of a GPU, on the CPU, in a process where only torch, torchvision, numpy and pillow can be imported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks.gpu_check as gpu_check_module

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
def test_it_runs_with_torch_torchvision_and_numpy_alone(tmp_path):
    out = tmp_path / "found.json"
    found = gpu_check("--small", "--out", str(out))
    assert found.returncode == 0, found.stdout + found.stderr
    assert "everything agrees" in found.stdout
    record = json.loads(out.read_text())
    assert record["good"] is True
    assert {name for name, part in record["parts"].items() if part["good"] is None} == {
        "FAISS",
        "CUDA graph",
        "live images",
    }
    assert len(record["parts"]["losses"]["errors"]) == 12
    assert record["parts"]["training, 32x32, float32"]["ratio"] > 0


def test_a_part_that_fails_is_a_failure_and_the_others_are_run(monkeypatch, capsys):
    def broken(options):
        raise RuntimeError("no kernel image")

    def wrong(options):
        return {"good": False, "error": 0.5}

    def absent(options):
        raise gpu_check_module.LeftOut("needs scipy")

    monkeypatch.setattr(gpu_check_module, "parts", lambda options: iter({"a": broken, "b": wrong, "c": absent}.items()))
    assert gpu_check_module.main(gpu_check_module.Options(device="cpu")) == 1
    printed = capsys.readouterr()
    assert "a: WRONG; error RuntimeError: no kernel image" in printed.out
    assert "b: WRONG; error 0.5" in printed.out
    assert "c: left out; left_out needs scipy" in printed.out
    assert "something DIFFERS" in printed.out
    monkeypatch.setattr(gpu_check_module, "parts", lambda options: iter({"c": absent}.items()))
    assert gpu_check_module.main(gpu_check_module.Options(device="cpu")) == 0


def test_live_images_are_compared_and_trained_on():
    pytest.importorskip("warp")
    pytest.importorskip("scipy")
    options = gpu_check_module.Options.read(["--device", "cpu", "--small", "--resolutions", "32"])
    found = gpu_check_module.live_images(options)
    assert found["good"] is True
    assert found["levels_from_cpu"] == 0
    assert min(found[name] for name in ("rendered_per_second", "images_per_second", "fixed_batch")) > 0


def test_live_images_are_left_out_where_a_library_is_missing_and_the_package_is_named(monkeypatch):
    monkeypatch.setattr(gpu_check_module, "find_spec", lambda module: None)
    with pytest.raises(gpu_check_module.LeftOut, match="pip install warp-lang scipy"):
        gpu_check_module.live_images(gpu_check_module.Options(device="cpu"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--resolutions", "60"), "a resolution is a multiple of 8, not 60"),
        (("--images", "4"), "2 pairs to 4"),
        (("--minutes", "soon"), "invalid float value: 'soon'"),
    ],
)
def test_what_it_cannot_do_is_told(arguments, message):
    found = gpu_check(*arguments)
    assert found.returncode == 2
    assert message in found.stderr
