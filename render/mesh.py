"""Surfaces of polygons, as arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Mesh", "plane", "welded"]

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
