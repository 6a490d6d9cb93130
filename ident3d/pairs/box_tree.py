"""A tree of boxes around cells of points, descended for a whole batch of queries at once."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["FAN", "BoxTree", "Found"]

FAN = 8
"""Children of a node. 8 cost least at 250,000 points in ten dimensions, 4 and 16 some 5% more."""

_Floats = npt.NDArray[np.float32]
_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Found:
    """Pairs of a query and a cell near it.

    Attributes:
        query: (P,) int64, sorted.
        cell: (P,) int64.
        distance: (P,) float32, squared distance from the query to the cell's box.
    """

    query: _Integers
    cell: _Integers
    distance: _Floats

    def __getitem__(self, where: npt.NDArray[np.bool_]) -> "Found":
        return Found(self.query[where], self.cell[where], self.distance[where])


class BoxTree:
    """The bounding boxes of cells, of groups of eight neighbouring cells, of groups of eight of those, up to one root.

    Any order of the cells gives right answers; one in which neighbours in the list are neighbours in space, such as
    the leaves of a k-d tree from left to right, gives quick ones.

    Args:
        low: (L, d) float32, the lower corner of each cell's box.
        high: (L, d) float32, its upper corner.
    """

    def __init__(self, low: _Floats, high: _Floats) -> None:
        self.cells = len(low)
        # One (low, high) a level from the root down, each (d, nodes, FAN): the boxes of the children of its nodes.
        self._levels: list[tuple[_Floats, _Floats]] = []
        while not self._levels or self._levels[0][0].shape[1] > 1:
            self._levels.insert(0, (_by_parent(low), _by_parent(high)))
            first = np.arange(0, len(low), FAN)
            low, high = np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)

    def descend(self, columns: _Floats) -> _Integers:
        """Return a cell near each query, by always taking the nearest child: (d, Q) queries to (Q,) cells."""
        everyone = np.arange(columns.shape[1])
        node = np.zeros_like(everyone)
        for level in range(len(self._levels)):
            node = node * FAN + self._distances(level, columns, everyone, node).argmin(axis=1)
        return node

    def siblings(self, cell: _Integers) -> _Integers:
        """Return the cells with the same parent, itself included: (Q,) to (Q, FAN), -1 for a sibling that is not."""
        family = (cell // FAN * FAN)[:, None] + np.arange(FAN)
        return np.where(family < self.cells, family, -1)

    def within(self, columns: _Floats, bound: _Floats, known: _Integers) -> Found:
        """Return every cell whose box is within a query's bound, but for the siblings of a known cell.

        Args:
            columns: (d, Q) float32 queries.
            bound: (Q,) float32, squared distance up to which boxes are wanted.
            known: (Q,) a cell of each query; it and its siblings are left out.
        """
        query = np.arange(columns.shape[1])
        node = np.zeros_like(query)
        distance = np.zeros(0, dtype=np.float32)
        for level in range(len(self._levels)):
            if level == len(self._levels) - 1:
                new = node != known[query] // FAN
                query, node = query[new], node[new]
            distances = self._distances(level, columns, query, node)
            near = np.flatnonzero(distances <= bound[query][:, None])
            distance = distances.ravel()[near]
            query, node = query[near // FAN], node[near // FAN] * FAN + near % FAN
        return Found(query, node, distance)

    def _distances(self, level: int, columns: _Floats, query: _Integers, node: _Integers) -> _Floats:
        """Return squared distances from queries to the boxes of the children of nodes: (P,), (P,) to (P, FAN)."""
        total = np.zeros((len(node), FAN), dtype=np.float32)
        for column, low, high in zip(columns, *self._levels[level], strict=True):
            position = column.take(query)[:, None]
            below = low.take(node, axis=0)
            below -= position
            above = high.take(node, axis=0)
            np.subtract(position, above, out=above)
            np.maximum(below, above, out=below)
            np.maximum(below, 0, out=below)
            below *= below
            total += below
        return total


def _by_parent(corners: _Floats) -> _Floats:
    """Lay (L, d) corners out as (d, ceil(L / FAN), FAN); places without a box are infinitely far from everything."""
    missing = -len(corners) % FAN
    padded = np.pad(corners, ((0, missing), (0, 0)), constant_values=np.inf)
    return np.ascontiguousarray(padded.T.reshape(corners.shape[1], -1, FAN))
