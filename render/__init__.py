"""Latents to images: renders 3DIdent and its variants with Blender.

Run as ``python -m render``, or from Python::

    from render import DatasetSpec, PoolSpec, render_dataset

    render_dataset("data/small", DatasetSpec(train=6000, test=1000, resolution=64), PoolSpec(workers=4))

A :class:`DatasetSpec` becomes a plan (:mod:`render.dataset.plan`), a pool of worker processes renders the plan's images
(:mod:`render.blender.pool`), and a writer collects them in the folder (:mod:`render.dataset.writer`).

Each name is loaded when it is first used, since the worker processes import this package too, in Pythons that may lack
NumPy. ``__init__.pyi`` lists the names.
"""

from ident3d.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
