"""The object on a device: its mesh, and what is computed about it once, so that images are cheap.

* A bounding volume hierarchy of its triangles, for rays.
* A field of signed distances to its surface, for cones: from a pixel's part of the ground to a lamp. What a cone keeps
  clear of, it does not meet.
* Balls that lie within it: a cone that is within one is blocked.
* For every triangle, the directions in which nothing else of the object is near: there it does not shade itself.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import warp as wp

from ident3d.live import kernels
from ident3d.scene.meshes import Mesh, shape

__all__ = ["ResidentSolid", "resident_solid"]

_CELLS = 36  # of the distance field, along the object's longest side
_MARGIN = 2  # cells around the object
_SLACK = 0.15  # cells by which interpolated distances may be wrong
_BALLS = 4
_LIFT = 1e-4  # radii by which a ray starts above its surface
_CLEAR_RAD = np.radians(20)  # how far around the middle of a cell of directions all has to be clear

Floats = npt.NDArray[np.float64]


class ResidentSolid:
    """An object's mesh on a device.

    Args:
        mesh: the mesh, in its own frame.
        device: Warp's name of the device.

    Attributes:
        vertices: (V,) vectors.
        faces: (F, 3) int32, the triangles.
        solid: the struct that kernels take.
        lift: by how much a ray starts above its surface.
    """

    def __init__(self, mesh: Mesh, device: str) -> None:
        vertices = mesh.vertices
        faces, normals = _triangles(mesh)
        a, b, c = (vertices[faces[:, corner]] for corner in range(3))
        low, high = vertices.min(axis=0), vertices.max(axis=0)
        centre = (low + high) / 2
        radius = float(np.linalg.norm(vertices - centre, axis=1).max())
        self.lift = _LIFT * radius
        self.vertices = wp.array(vertices, dtype=wp.vec3, device=device)
        self.faces = wp.array(faces, dtype=wp.int32, device=device)
        self._mesh = wp.Mesh(self.vertices, self.faces.flatten(), support_winding_number=True, **_hierarchy(device))
        self._corners = wp.array(
            np.concatenate([np.stack([a, b - a, c - a], axis=1), normals], axis=1), dtype=wp.vec3, device=device
        )
        cell = float((high - low).max() / _CELLS)
        origin = low - _MARGIN * cell
        field = self._measure(origin, tuple(np.ceil((high - origin) / cell).astype(int) + _MARGIN + 1), cell, radius)
        solid = kernels.Solid()
        solid.mesh, solid.centre, solid.radius = self._mesh.id, wp.vec3(*centre), radius
        solid.origin, solid.cell, solid.slack = wp.vec3(*origin), cell, _SLACK * cell
        solid.field, solid.corners = field, self._corners
        solid.balls = wp.array(_balls(field.numpy(), origin, cell), dtype=wp.vec4, device=device)
        solid.open = wp.array(self._open_directions(), dtype=wp.uint32, device=device)
        self.solid = solid

    def _measure(self, origin: Floats, counts: tuple[int, ...], cell: float, radius: float) -> wp.array:
        field = wp.empty(counts, dtype=wp.float32, device=self.vertices.device)
        wp.launch(
            kernels.measure_distances,
            dim=counts,
            inputs=[self._mesh.id, wp.vec3(*origin), cell, 4 * radius],
            outputs=[field],
            device=field.device,
        )
        return field

    def _open_directions(self) -> npt.NDArray[np.uint32]:
        """Return for each triangle the cells of directions that are clear, as bits: (F, cells / 32)."""
        cells = int(kernels.CELLS)
        corners, middles = _octahedron(np.arange(cells + 1) / cells), _octahedron((np.arange(cells) + 0.5) / cells)
        directions = wp.array(corners, dtype=wp.vec3, device=self.vertices.device)
        sees = wp.empty((len(self.faces), len(corners)), dtype=wp.uint8, device=self.vertices.device)
        wp.launch(
            kernels.look_around,
            dim=sees.shape,
            inputs=[self._mesh.id, self._corners, directions, self.lift],
            outputs=[sees],
            device=sees.device,
        )
        near = (middles @ corners.T > np.cos(_CLEAR_RAD)).astype(np.float32)
        is_open = (1 - sees.numpy().astype(np.float32)) @ near.T == 0
        bits = np.packbits(is_open.reshape(len(is_open), -1, 32), axis=-1, bitorder="little")
        return np.ascontiguousarray(bits.view("<u4").reshape(len(is_open), -1)).astype(np.uint32)


@lru_cache(maxsize=8)
def resident_solid(name: str, device: str) -> ResidentSolid:
    """Return the object of a shape on a device; what was computed once is kept.

    Args:
        name: the shape, one of ``ident3d.scene.meshes.SHAPES``.
        device: Warp's name of the device.
    """
    return ResidentSolid(shape(name), device)


def _hierarchy(device: str) -> dict[str, str]:
    # Of Warp's builders, this one makes the fastest trees; it runs on the CPU alone.
    return {"bvh_constructor": "sah"} if device == "cpu" else {}


def _triangles(mesh: Mesh) -> tuple[npt.NDArray[np.int32], Floats]:
    """Return the (F, 3) triangles of a mesh that have an area, and the (F, 3, 3) normals at their corners."""
    smooth = _vertex_normals(mesh)
    faces, normals = [], []
    for ring in mesh.faces:
        flat = _face_normal(mesh.vertices[list(ring)])
        for i in range(1, len(ring) - 1):
            corners = [ring[0], ring[i], ring[i + 1]]
            faces.append(corners)
            normals.append(smooth[corners] if mesh.smooth else np.broadcast_to(flat, (3, 3)))
    triangles = np.array(faces, dtype=np.int32)
    a, b, c = (mesh.vertices[triangles[:, corner]] for corner in range(3))
    has_area = np.linalg.norm(np.cross(b - a, c - a), axis=1) > 1e-12
    return triangles[has_area], np.stack(normals)[has_area]


def _vertex_normals(mesh: Mesh) -> Floats:
    """Return the normals of vertices as Blender has them: of the faces around, weighted by their angles there."""
    total = np.zeros_like(mesh.vertices)
    for ring in mesh.faces:
        corners = mesh.vertices[list(ring)]
        ahead, back = _unit(np.roll(corners, -1, axis=0) - corners), _unit(np.roll(corners, 1, axis=0) - corners)
        angles = np.arccos(np.clip((ahead * back).sum(axis=1), -1, 1))
        total[list(ring)] += angles[:, None] * _face_normal(corners)
    return _unit(total)


def _face_normal(corners: Floats) -> Floats:
    return _unit(np.cross(corners, np.roll(corners, -1, axis=0)).sum(axis=0))


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-300))


def _balls(field: npt.NDArray[np.float32], origin: Floats, cell: float) -> npt.NDArray[np.float32]:
    """Return a few balls within the object, (k, 4): the largest, and those that reach farthest out of the others."""
    places = origin + cell * np.stack(np.meshgrid(*map(np.arange, field.shape), indexing="ij"), axis=-1)
    depth = -field - _SLACK * cell
    reach = depth
    balls: list[Floats] = []
    while len(balls) < _BALLS and reach.max() > cell:
        deepest = np.unravel_index(reach.argmax(), reach.shape)
        balls.append(np.append(places[deepest], depth[deepest]))
        outside = np.linalg.norm(places - places[deepest], axis=-1) + depth - depth[deepest]
        reach = np.minimum(reach, outside)
    return np.array(balls, dtype=np.float32).reshape(-1, 4)


def _octahedron(places: Floats) -> Floats:
    """Return the directions of a square grid of an octahedron that is folded flat, row by row: (len(places)^2, 3)."""
    x, y = (2 * part.ravel() - 1 for part in np.meshgrid(places, places))
    z = 1 - abs(x) - abs(y)
    folded = np.where(x >= 0, 1, -1) * (1 - abs(y)), np.where(y >= 0, 1, -1) * (1 - abs(x))
    return _unit(np.stack([np.where(z < 0, folded[0], x), np.where(z < 0, folded[1], y), z], axis=1))
