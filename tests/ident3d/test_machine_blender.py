import sys

import pytest

from ident3d.doctor.machine import DEBIAN_PACKAGES, RELEASES, missing_packages, why_no_bpy


def _load_all_but(*absent):
    def load(name):
        if name in absent:
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    return load


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Debian packages are a matter of Linux")
def test_missing_libraries_are_named_by_their_packages():
    assert missing_packages(_load_all_but()) == []
    assert missing_packages(_load_all_but("libXi.so.6", "libxkbcommon.so.0")) == ["libxi6", "libxkbcommon0"]
    assert missing_packages(_load_all_but(*DEBIAN_PACKAGES)) == list(DEBIAN_PACKAGES.values())


def test_missing_libraries_come_first_when_bpy_cannot_be_loaded(monkeypatch):
    monkeypatch.setattr("ident3d.doctor.machine.missing_packages", lambda: ["libxi6", "libsm6"])
    message = why_no_bpy(ImportError("libXi.so.6: cannot open shared object file"), (3, 11))
    assert "libXi.so.6: cannot open" in message
    assert "apt-get install libxi6 libsm6" in message


def test_a_python_without_bpy_is_told_what_goes_together(monkeypatch):
    monkeypatch.setattr("ident3d.doctor.machine.missing_packages", list)
    none = why_no_bpy(ImportError("No module named 'bpy'"), (3, 12))
    assert "no bpy exists for Python 3.12" in none
    assert all(f"Python {major}.{minor} runs bpy {bpy}" in none for (major, minor), bpy in RELEASES.items())
    assert "--blender PATH" in none
    there = why_no_bpy(ImportError("No module named 'bpy'"), (3, 13))
    assert "Python 3.13 has no bpy (No module named 'bpy'): pip install 'bpy==5.2.*'" in there
