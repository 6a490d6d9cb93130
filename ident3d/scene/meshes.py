"""Meshes: surfaces of polygons, and the shapes that objects can have, by name."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from ident3d.registry import Registry

__all__ = ["SHAPES", "Mesh", "check_shape", "plane", "shape", "teapot", "welded"]

_WELD_DISTANCE = 1e-6


@dataclass(frozen=True)
class Mesh:
    """A surface of polygons.

    Attributes:
        vertices: (V, 3) float64 in object space.
        faces: for each face the indices of its vertices, counter-clockwise as seen from outside.
        smooth: whether the shading interpolates the vertices' normals.
    """

    vertices: npt.NDArray[np.float64]
    faces: tuple[tuple[int, ...], ...]
    smooth: bool = True

    def __post_init__(self) -> None:
        if self.vertices.ndim != 2 or self.vertices.shape[1] != 3 or not np.isfinite(self.vertices).all():
            raise ValueError(f"expected finite vertices of shape (V, 3), got shape {self.vertices.shape}")
        if any(len(face) < 3 or not 0 <= min(face) <= max(face) < len(self.vertices) for face in self.faces):
            raise ValueError(f"a face has three or more vertices, numbered from 0 to {len(self.vertices) - 1}")


def welded(vertices: npt.NDArray[np.float64], faces: npt.NDArray[np.int64]) -> Mesh:
    """Return a smooth mesh in which vertices at the same place are one, and faces without area are gone.

    Args:
        vertices: (V, 3) places.
        faces: (F, k) indices of the faces' vertices.
    """
    grid = np.round(vertices / _WELD_DISTANCE).astype(np.int64)
    _, first, owner = np.unique(grid, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # vertices stay in the order in which they came
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    rings = (tuple(dict.fromkeys(ring)) for ring in rank[owner.reshape(-1)][faces].tolist())
    return Mesh(vertices[first[order]], tuple(ring for ring in rings if len(ring) >= 3))


def plane() -> Mesh:
    """Return a square of edge 1 about the origin, facing up."""
    corners = np.array([[-0.5, -0.5, 0.0], [0.5, -0.5, 0.0], [0.5, 0.5, 0.0], [-0.5, 0.5, 0.0]])
    return Mesh(corners, ((0, 1, 2, 3),), smooth=False)


# The frame of the published 3DIdent mesh, fitted to it with a root mean square error of 2e-6.
_SCALE = 0.634686
_TURN_RAD = -np.pi / 4
_LIFT = -0.906693

SEGMENTS = 10
"""Segments along each edge of a patch: 3,241 vertices, the nearest to the published mesh's 3,242."""


@cache
def teapot(segments: int = SEGMENTS) -> Mesh:
    """Return the teapot of 3DIdent in its object space, bottom and lid included.

    Args:
        segments: number of quads along each edge of the 32 bicubic patches, 1 or more.

    Raises:
        ValueError: if segments is not positive.

    Reference:
        M. Newell, "The Utilization of Procedure Models in Digital Image Synthesis", University of Utah, 1975.
    """
    if segments < 1:
        raise ValueError(f"expected 1 or more segments, not {segments}")
    data = json.loads(files("ident3d").joinpath("scene/data/utah_teapot.json").read_text(encoding="utf-8"))
    controls = np.array(data["vertices"])[np.array(data["patches"])].reshape(-1, 4, 4, 3)
    weights = bernstein(np.linspace(0, 1, segments + 1))
    # p: patch, i and j: control points, u and v: places along the two edges, c: coordinate
    points = np.einsum("ui,vj,pijc->puvc", weights, weights, controls)
    corners = np.arange(len(controls) * (segments + 1) ** 2).reshape(len(controls), segments + 1, segments + 1)
    quads = np.stack(
        [corners[:, :-1, :-1], corners[:, :-1, 1:], corners[:, 1:, 1:], corners[:, 1:, :-1]], axis=-1
    ).reshape(-1, 4)
    cos, sin = np.cos(_TURN_RAD), np.sin(_TURN_RAD)
    turn = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    return welded(points.reshape(-1, 3) @ (_SCALE * turn.T) + [0, 0, _LIFT], quads)


def bernstein(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the four cubic Bernstein polynomials at ``t``: (len(t), 4)."""
    s = 1 - t
    return np.stack([s**3, 3 * s**2 * t, 3 * s * t**2, t**3], axis=-1)


SHAPES: Registry[Callable[[], Mesh]] = Registry("shape", {"utah_teapot": teapot, "plane": plane})
"""What makes the mesh of each shape, by its name; open to additions, which the processes that render have to know too:
register them in a module that an entry point of the group ``ident3d`` names."""


def shape(name: str) -> Mesh:
    """Return the mesh of a shape.

    Raises:
        ValueError: if there is no shape of that name.
    """
    check_shape(name)
    return SHAPES[name]()


def check_shape(name: str) -> None:
    """Raise ValueError if there is no shape of that name."""
    # Not Registry.find: worlds come from files of others, which shall not choose what is imported.
    if name not in SHAPES:
        raise ValueError(f"unknown shape {name!r}; choose from {', '.join(SHAPES)}")
