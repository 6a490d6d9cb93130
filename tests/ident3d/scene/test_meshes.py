import math
from collections import Counter

import numpy as np
import pytest

from ident3d.scene.meshes import SHAPES, Mesh, bernstein, plane, shape, teapot, welded


def _edges(mesh):
    return Counter((a, b) for face in mesh.faces for a, b in zip(face, face[1:] + face[:1], strict=True))


def _signed_volume(mesh):
    v = mesh.vertices
    return (
        sum(
            np.dot(v[face[0]], np.cross(v[face[i]], v[face[i + 1]]))
            for face in mesh.faces
            for i in range(1, len(face) - 1)
        )
        / 6
    )


def test_ten_segments_give_the_vertices_and_the_size_of_the_published_scene():
    mesh = teapot()
    assert mesh.vertices.shape == (3241, 3)
    assert mesh.smooth
    np.testing.assert_allclose(1.5 * np.ptp(mesh.vertices, axis=0), [4.4421, 4.4421, 2.9989], atol=1e-4)


def test_faces_wind_one_way_and_outwards():
    mesh = teapot()
    assert max(_edges(mesh).values()) == 1  # no edge is run through twice in the same direction
    assert _signed_volume(mesh) > 0


def test_the_body_is_a_surface_of_revolution_about_z():
    # The widest ring of the pot has its published radius of 2 in the units of the control points in all directions.
    vertices = teapot(segments=16).vertices / 0.634686
    heights = vertices[:, 2] + 0.906693 / 0.634686
    ring = vertices[np.isclose(heights, 0.9, atol=1e-6)]
    radii = np.hypot(ring[:, 0], ring[:, 1])
    assert np.isclose(radii, 2.0, atol=0.01).sum() >= 32


def test_bernstein_polynomials_reproduce_a_cubic():
    t = np.linspace(0, 1, 7)
    controls = np.array([0.0, 1 / 3, 2 / 3, 1.0])  # the control points of t itself
    np.testing.assert_allclose(bernstein(t) @ controls, t)
    np.testing.assert_allclose(bernstein(t).sum(axis=1), 1)


def test_welding_joins_vertices_and_drops_faces_without_area():
    corners = np.array(
        [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 0, 1e-12], [2, 0, 0], [2, 1, 0], [1, 1, 0]], float
    )
    mesh = welded(corners, np.array([[0, 1, 2, 3], [4, 5, 6, 7], [1, 4, 1, 4]]))
    assert mesh.faces == ((0, 1, 2, 3), (1, 4, 5, 2))
    np.testing.assert_allclose(mesh.vertices, corners[[0, 1, 2, 3, 5, 6]])


def test_plane_is_a_unit_square_that_faces_up():
    mesh = plane()
    np.testing.assert_allclose(np.ptp(mesh.vertices, axis=0), [1, 1, 0])
    a, b, c, _ = mesh.vertices[list(mesh.faces[0])]
    np.testing.assert_allclose(np.cross(b - a, c - b), [0, 0, 1])


def test_shapes_by_name():
    assert len(shape("utah_teapot").faces) == 32 * 100
    assert set(SHAPES) == {"utah_teapot", "plane"}
    with pytest.raises(ValueError, match="unknown shape 'cow'; choose from utah_teapot, plane"):
        shape("cow")


def test_no_segments_is_refused():
    with pytest.raises(ValueError, match="1 or more segments"):
        teapot(0)


def test_the_teapot_is_turned_by_an_eighth():
    # Spout and handle lie on one line through the axis; in object space it is turned by -45 degrees.
    vertices = teapot().vertices
    far = vertices[np.argmax(np.hypot(vertices[:, 0], vertices[:, 1]))]
    assert math.degrees(math.atan2(far[1], far[0])) % 90 == pytest.approx(45, abs=1)


def test_a_mesh_with_faces_of_other_vertices_is_refused():
    corners = plane().vertices
    with pytest.raises(ValueError, match="three or more vertices, numbered from 0 to 3"):
        Mesh(corners, ((0, 1, 4),))
    with pytest.raises(ValueError, match="three or more vertices"):
        Mesh(corners, ((0, 1),))
    with pytest.raises(ValueError, match=r"finite vertices of shape \(V, 3\), got shape \(4, 2\)"):
        Mesh(corners[:, :2], ())
