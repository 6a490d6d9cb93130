"""The tree of boxes, against distances computed one by one."""

import numpy as np
import pytest

from ident3d.matching.exact import FAN, BoxTree


def boxes(n, width=5):
    rng = np.random.default_rng(n)
    corners = rng.uniform(-1, 1, (2, n, width)).astype(np.float32)
    return corners.min(axis=0), corners.max(axis=0)


def slow_distances(low, high, queries):
    outside = np.maximum(np.maximum(low[None] - queries[:, None], queries[:, None] - high[None]), 0)
    return (outside.astype(np.float64) ** 2).sum(-1)


@pytest.mark.parametrize("cells", [1, 2, 7, 8, 9, 64, 65, 600])
def test_within_finds_every_box_that_is_near(cells):
    low, high = boxes(cells)
    queries = np.random.default_rng(1).uniform(-1.5, 1.5, (40, 5)).astype(np.float32)
    tree = BoxTree(low, high)
    columns = np.ascontiguousarray(queries.T)
    bound = np.linspace(0, 1, 40).astype(np.float32)
    known = tree.descend(columns)
    found = tree.within(columns, bound, known)
    distances = slow_distances(low, high, queries)
    family = known[:, None] // FAN == np.arange(cells) // FAN
    expected = {(int(q), int(c)) for q, c in np.argwhere((distances <= bound[:, None]) & ~family)}
    assert set(zip(found.query.tolist(), found.cell.tolist(), strict=True)) == expected
    np.testing.assert_allclose(found.distance, distances[found.query, found.cell], rtol=1e-5, atol=1e-7)
    assert (np.diff(found.query) >= 0).all()


def test_descend_ends_in_a_box_that_holds_the_query():
    edges = np.linspace(-1, 1, 65).astype(np.float32)
    tree = BoxTree(edges[:-1, None], edges[1:, None])
    queries = np.random.default_rng(0).uniform(-1, 1, (1, 100)).astype(np.float32)
    cell = tree.descend(queries)
    assert (edges[cell] <= queries[0]).all()
    assert (queries[0] <= edges[cell + 1]).all()


def test_siblings_leave_out_cells_that_are_not():
    tree = BoxTree(*boxes(10))
    np.testing.assert_array_equal(tree.siblings(np.array([3]))[0], np.arange(8))
    np.testing.assert_array_equal(tree.siblings(np.array([9]))[0], [8, 9, -1, -1, -1, -1, -1, -1])
