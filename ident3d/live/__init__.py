"""Live 3DIdent: the images of given latents on any device, without Blender and without a disk.

The scene has direct light only, so that an image is an integral over the pixel filter and the lamps. It is computed by
the formulas that Cycles uses, with kernels of NVIDIA Warp that run on the CPU and on CUDA:

1. The object's triangles are drawn, so that every sub-pixel knows what it shows.
2. Blocks of pixels, and then pixels, find out whether the object covers none, all or some of each lamp from their part
   of the ground. Pixels of even ground are shaded once; all others are queued.
3. The sub-pixels of queued pixels are shaded, each with one ray to each lamp that is in doubt.
4. The pixel filter adds up sub-pixels, across pixels too, and the sums are coded as sRGB.

Example::

    images = ident3d.live.render(ident3d.sample_latents(8), resolution=64)  # (8, 3, 64, 64) uint8

The formulas of light and material are those of Cycles (Blender Foundation, Apache-2.0).
"""

import os
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ident3d.errors import MissingDependencyError

if TYPE_CHECKING:
    from ident3d.live.renderer import QUALITIES, VERSION, LiveRenderer, render
    from ident3d.live.scenes import UnsupportedWorldError

__all__ = ["QUALITIES", "VERSION", "LiveRenderer", "UnsupportedWorldError", "render"]

_HOMES = {
    "QUALITIES": "renderer",
    "VERSION": "renderer",
    "LiveRenderer": "renderer",
    "UnsupportedWorldError": "scenes",
    "render": "renderer",
}

_WITHOUT_GPU = b"Could not find or load the NVIDIA CUDA driver"


def __getattr__(name: str) -> Any:
    """Load a name when it is first used, since Warp is large and only some have it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ident3d.live' has no attribute {name!r}")
    if find_spec("warp") is None:
        raise MissingDependencyError("Warp", "render live", "live")
    if "warp" not in sys.modules:  # whoever has loaded it before has chosen how much it says
        _start_warp()
    value = getattr(import_module(f"ident3d.live.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def _start_warp() -> None:
    """Start Warp without its line about a machine that has no GPU, which it writes past Python's standard error."""
    import warp

    warp.config.log_level = warp.LOG_ERROR
    try:
        kept = os.dup(2)
    except OSError:  # a process without a standard error
        warp.init()
        return
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            warp.init()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            said.seek(0)
            for line in said:
                if _WITHOUT_GPU not in line:
                    os.write(2, line)
