"""The shapes that bodies can have, by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from render.mesh import Mesh, plane
from render.teapot import teapot

__all__ = ["SHAPES", "shape"]

SHAPES: Mapping[str, Callable[[], Mesh]] = MappingProxyType({"utah_teapot": teapot, "plane": plane})
"""What makes the mesh of each shape."""


def shape(name: str) -> Mesh:
    """Return the mesh of a shape.

    Raises:
        ValueError: if there is no shape of that name.
    """
    if name not in SHAPES:
        raise ValueError(f"no shape {name!r}; there are {', '.join(sorted(SHAPES))}")
    return SHAPES[name]()
