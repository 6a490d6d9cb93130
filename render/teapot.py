"""The Utah teapot, from the control points of its Bezier patches."""

import json
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from render.mesh import Mesh, welded

__all__ = ["teapot"]

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
    data = json.loads(files("render").joinpath("data/utah_teapot.json").read_text(encoding="utf-8"))
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
