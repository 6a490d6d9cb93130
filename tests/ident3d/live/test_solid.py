"""What is known about the object in advance, beside what its triangles say."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from ident3d.live.solid import resident_solid
from ident3d.scene.meshes import teapot


@pytest.fixture(scope="module")
def solid():
    return resident_solid("utah_teapot", "cpu").solid


def test_distances_are_those_to_the_nearest_vertex_nearly(solid):
    field = solid.field.numpy()
    rng = np.random.default_rng(0)
    cells = rng.integers(0, field.shape, (500, 3))
    places = np.array([*solid.origin]) + solid.cell * cells
    to_vertex, _ = cKDTree(teapot().vertices).query(places)
    distance = abs(field[tuple(cells.T)])
    assert (distance <= to_vertex + 1e-5).all()
    assert (distance >= to_vertex - 0.12).all()  # the vertices are less than 0.24 apart
    assert field[tuple(np.array(field.shape) // 2)] < 0 < field[0, 0, 0]


def test_balls_lie_within_the_object(solid):
    balls = solid.balls.numpy()
    assert len(balls) == 4
    to_vertex, _ = cKDTree(teapot().vertices).query(balls[:, :3])
    assert (balls[:, 3] > 0.3).all()
    assert (balls[:, 3] <= to_vertex).all()


def test_few_directions_are_open_from_within_and_many_from_without(solid):
    bits = np.unpackbits(solid.open.numpy().view(np.uint8), axis=-1)
    assert bits.shape == (len(solid.corners), 256)
    assert 0.1 < bits.mean() < 0.5  # of all directions, half are behind a surface that is convex
