"""What Blender needs of the machine: the Python that goes with a release, and shared libraries."""

import ctypes
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

__all__ = ["DEBIAN_PACKAGES", "RELEASES", "missing_packages", "why_no_bpy"]

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


def why_no_bpy(error: ImportError, version: tuple[int, int] = sys.version_info[:2]) -> str:
    """Return what to do about an ``import bpy`` that failed.

    Args:
        error: what the import raised.
        version: major and minor version of the Python that tried.
    """
    python = ".".join(map(str, version))
    packages = missing_packages()
    if packages:
        return f"bpy cannot be loaded ({error}); system libraries are missing: apt-get install {' '.join(packages)}"
    pairs = ", ".join(f"Python {major}.{minor} runs bpy {bpy}" for (major, minor), bpy in RELEASES.items())
    other = "--blender PATH names another Python that has bpy, or a Blender executable"
    if version not in RELEASES:
        return f"no bpy exists for Python {python}: {pairs}; {other}"
    return f"Python {python} has no bpy ({error}): pip install 'bpy=={RELEASES[version]}.*'; {pairs}; {other}"
