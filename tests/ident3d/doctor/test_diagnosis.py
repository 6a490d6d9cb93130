import pytest

from ident3d.doctor.diagnosis import abilities
from ident3d.doctor.libraries import LIBRARIES, LoadedLibrary

CORE = {"read", "pairs", "score", "download"}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A machine with every system library, and a checkout."""
    monkeypatch.setattr("ident3d.doctor.libraries.missing_packages", list)
    monkeypatch.setattr("ident3d.doctor.diagnosis.find_spec", lambda name: name)


def found(*, missing=(), broken=(), cuda=False, faiss_gpus=0):
    details = {
        "torch": {"cuda_devices": [{"name": "a GPU"}] if cuda else [], "why_no_cuda": None if cuda else "no driver"},
        "faiss": {"gpus": faiss_gpus},
    }

    def one(library):
        if library.module in missing:
            return LoadedLibrary(library, "missing", reason="No module")
        if library.module in broken:
            return LoadedLibrary(library, "broken", {library.names[0]: "1.0"}, "undefined symbol")
        return LoadedLibrary(library, "ok", {library.names[0]: "1.0"}, None, details.get(library.module, {}))

    return {library.module: one(library) for library in LIBRARIES}


def by_name(*args, version=(3, 11), **options):
    return {ability.name: ability for ability in abilities(found(*args, **options), version)}


def test_everything_works_where_everything_is_there():
    assert {one.works for one in by_name(cuda=True, faiss_gpus=1).values()} == {"yes"}


@pytest.mark.parametrize(
    ("module", "stopped", "command"),
    [
        ("torchvision", {"train"}, "pip install 'ident3d[train]'"),
        ("matplotlib", {"train", "plot"}, "pip install 'ident3d["),
        ("warp", {"live"}, "pip install 'ident3d[live]'"),
        ("datasets", {"hub"}, "pip install 'ident3d[hub]'"),
        ("pandas", {"leaderboard"}, "pip install 'ident3d[leaderboard]'"),
        ("bpy", {"render"}, "pip install 'ident3d[render]'"),
        ("onnx", {"export"}, "pip install 'ident3d[train]'"),
        ("faiss", {"pairs"}, "pip install ident3d"),
        ("pyarrow", {"read"}, "pip install ident3d"),
    ],
)
def test_a_missing_library_stops_what_needs_it_and_its_extra_is_named(module, stopped, command):
    shown = by_name(missing=[module], cuda=True, faiss_gpus=1)
    not_working = {name: one for name, one in shown.items() if one.works == "no"}
    assert set(not_working) == stopped
    assert all("not installed" in one.remark and command in one.remark for one in not_working.values())


def test_a_broken_library_is_told_apart_from_a_missing_one():
    remark = by_name(broken=["pyarrow"])["read"].remark
    assert remark == ("pyarrow: 1.0, cannot be loaded: undefined symbol. pip install --force-reinstall ident3d")


def test_only_what_needs_no_extra_is_core():
    assert {name for name, one in by_name().items() if one.core} == CORE


def test_a_python_without_bpy_is_told_which_has_one():
    rendering = by_name(missing=["bpy"], version=(3, 12))["render"]
    assert rendering.works == "no"
    assert "no bpy exists for Python 3.12: Python 3.11 runs bpy 4.5" in rendering.remark


def test_missing_system_libraries_come_before_bpy(monkeypatch):
    monkeypatch.setattr("ident3d.doctor.libraries.missing_packages", lambda: ["libxi6", "libsm6"])
    assert by_name(broken=["bpy"])["render"].remark.endswith("apt-get install libxi6 libsm6")


def test_without_a_checkout_the_other_packages_are_not_there(monkeypatch):
    monkeypatch.setattr("ident3d.doctor.diagnosis.find_spec", lambda _: None)
    shown = by_name(missing=["bpy", "torchvision", "onnx", "jinja2"])
    outside = ["render", "train", "export", "leaderboard"]
    assert [name for name, one in shown.items() if "in a checkout" in one.remark] == outside
    assert not [name for name in outside if "install " in shown[name].remark], "no installation brings them"


@pytest.mark.parametrize(
    ("options", "works", "remark"),
    [
        ({}, "no", "torch sees no CUDA device: no driver"),
        ({"missing": ["torch"]}, "no", "torch cannot be loaded"),
        ({"cuda": True}, "in part", "FAISS sees no GPU"),
        ({"cuda": True, "missing": ["faiss"]}, "in part", "FAISS sees no GPU"),
    ],
)
def test_a_gpu_works_as_far_as_the_libraries_see_it(options, works, remark):
    gpu = by_name(**options)["gpu"]
    assert gpu.works == works
    assert remark in gpu.remark
