"""What ``import ident3d`` loads, and what the wheel holds."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ident3d

HEAVY = ("torch", "torchvision", "faiss", "datasets", "bpy", "pandas", "matplotlib", "scipy", "pyarrow")
PROJECT = Path(ident3d.__file__).parent.parent


def loaded_by(code):
    """Return which of the heavy libraries are loaded after ``code`` has run in an interpreter of its own."""
    shown = f"import sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{code}; {shown}"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_ident3d_is_light():
    assert loaded_by("import ident3d") == "[]"


def test_the_test_above_can_fail():
    assert loaded_by("import ident3d; ident3d.ThreeDIdent") != "[]"
    assert "scipy" in loaded_by("import scipy")


def test_latents_are_sampled_without_the_heavy_libraries():
    assert loaded_by("import ident3d; ident3d.sample_latents(3); ident3d.FACTORS") == "[]"


def test_the_dataset_class_leaves_most_of_them_alone(native):
    loaded = loaded_by(f"import ident3d; ident3d.ThreeDIdent({str(native.root)!r})[0]")
    for name in ("torchvision", "faiss", "datasets", "bpy", "matplotlib"):
        assert f"'{name}'" not in loaded


def test_every_public_name_is_there():
    for name in ident3d.__all__:
        assert getattr(ident3d, name) is not None
    assert {*ident3d.__all__, "__version__"} == set(dir(ident3d))
    assert ident3d.conditionals.Normal is ident3d.Normal
    with pytest.raises(AttributeError, match="module 'ident3d' has no attribute 'ThreeDident'"):
        _ = ident3d.ThreeDident


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"ident3d", f"ident3d-{ident3d.__version__}.dist-info"}
    assert {"ident3d/py.typed", "ident3d/__init__.pyi"} <= set(names)
    sources = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "ident3d").rglob("*.py")}
    assert sources <= set(names)
    data = {
        path.relative_to(PROJECT).as_posix() for path in (PROJECT / "ident3d" / "data").rglob("*") if path.is_file()
    }
    assert data <= set(names)
