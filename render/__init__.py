"""Latents to images: renders 3DIdent and its variants with Blender.

Run as ``python -m render``, or from Python::

    from render import DatasetSpec, PoolSpec, render_dataset

    render_dataset("data/small", DatasetSpec(train=6000, test=1000, resolution=64), PoolSpec(workers=4))

A :class:`DatasetSpec` becomes a plan (:mod:`render.dataset.plan`), a pool of worker processes renders the plan's images
(:mod:`render.blender.pool`), and a writer collects them in the folder (:mod:`render.dataset.writer`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from render.blender.pool import PoolSpec
    from render.dataset.merge import merge_parts
    from render.dataset.render import RenderReport, render_dataset
    from render.dataset.spec import DatasetSpec, Part
    from render.dataset.verify import VerifySpec, verify_images
    from render.figures import TraversalSpec, contact_sheet, traversal

__all__ = [
    "DatasetSpec",
    "Part",
    "PoolSpec",
    "RenderReport",
    "TraversalSpec",
    "VerifySpec",
    "contact_sheet",
    "merge_parts",
    "render_dataset",
    "traversal",
    "verify_images",
]

# Each name is loaded when it is first used: the workers import this package too, in Pythons that may lack NumPy.
_HOMES = {
    "DatasetSpec": "render.dataset.spec",
    "Part": "render.dataset.spec",
    "PoolSpec": "render.blender.pool",
    "RenderReport": "render.dataset.render",
    "TraversalSpec": "render.figures",
    "VerifySpec": "render.dataset.verify",
    "contact_sheet": "render.figures",
    "merge_parts": "render.dataset.merge",
    "render_dataset": "render.dataset.render",
    "traversal": "render.figures",
    "verify_images": "render.dataset.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'render' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
