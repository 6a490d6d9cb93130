"""Exact matching on FAISS: cells of a k-d tree as inverted lists, and a proof that the others hold nothing nearer.

The points are divided by a k-d tree into boxes of 48 to 96. For a batch of queries

1. the box that a query falls into and its siblings are searched, which bounds the distance to the nearest point;
2. a tree of the boxes is descended for all queries at once; a box that is farther away than the bound is dropped with
   all that it holds;
3. the nearer ones of the boxes that are left are searched, which tightens the bound, then the rest within it.

Each search is one call of FAISS on float32 points. A box is dropped only if it is beyond the bound by more than
rounding can explain, so the nearest point is never missed.
"""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from ident3d.matching.faiss import GpuFlatBackend, bounded_threads, faiss_device, faiss_library
from ident3d.matching.points import Backend, Options, Points

__all__ = ["FAN", "BoxTree", "CellBackend", "NearCells"]

FAN = 8
"""Children of a node. 8 cost least at 250,000 points in ten dimensions, 4 and 16 some 5% more."""

_Floats = npt.NDArray[np.float32]
_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NearCells:
    """Pairs of a query and a cell near it.

    Attributes:
        query: (P,) int64, sorted.
        cell: (P,) int64.
        distance: (P,) float32, squared distance from the query to the cell's box.
    """

    query: _Integers
    cell: _Integers
    distance: _Floats

    def __getitem__(self, where: npt.NDArray[np.bool_]) -> "NearCells":
        return NearCells(self.query[where], self.cell[where], self.distance[where])


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

    def within(self, columns: _Floats, bound: _Floats, known: _Integers) -> NearCells:
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
        return NearCells(query, node, distance)

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
    """Arrange (L, d) corners as (d, ceil(L / FAN), FAN); places without a box are infinitely far from everything."""
    missing = -len(corners) % FAN
    padded = np.pad(corners, ((0, missing), (0, 0)), constant_values=np.inf)
    return np.ascontiguousarray(padded.T.reshape(corners.shape[1], -1, FAN))


_POINTS_IN_CELL = 96  # at most: the tree halves until it is below
_NEAR = 0.35  # boxes within this share of the squared bound are searched before the others
_CANDIDATES = 3  # of each search: the answer, the excluded anchor, and a witness that nothing else is as near
_QUERIES_AT_ONCE = 4096  # each takes some 10 kB meanwhile, for its boxes
_TINY = np.float32(1e-35)  # absolute slack, for squares below the normal numbers of float32
_LARGEST = np.finfo(np.float32).max  # the bound of a query for which nothing is found yet


class CellBackend(Backend):
    """Finds nearest points exactly; see :mod:`ident3d.matching.exact`.

    Args:
        points: the points, on the CPU.
        threads: the most threads that a search uses; None: as many as torch.
        order: (U,) int64, the points cell by cell, and
        starts: (L,) int64, where each cell starts in ``order``; both found here where None.
    """

    is_exact = True

    def __init__(
        self, points: Points, threads: int | None, order: Tensor | None = None, starts: Tensor | None = None
    ) -> None:
        if order is None or starts is None:
            order, starts = _divide(points.coordinates)
        self._state = (points, threads, order, starts)
        self._threads = threads
        self._slack = np.float32(1 + (points.width + 8) * 2.0**-22)  # float32 sums are off by (d + 2) * 2**-24
        coordinates = points.coordinates[order].numpy()
        first = starts.numpy()
        self._tree = BoxTree(np.minimum.reduceat(coordinates, first), np.maximum.reduceat(coordinates, first))
        self._lists = _inverted_lists(coordinates, order.numpy(), first)
        self._one_search = threading.Lock()

    def __reduce__(self) -> tuple[type["CellBackend"], tuple[Points, int | None, Tensor, Tensor]]:
        return type(self), self._state  # what FAISS holds is made again from the tensors, which processes share

    @classmethod
    def check_device(cls, device: torch.device | str) -> torch.device:
        """Return the CPU, or a GPU that FAISS can search on."""
        return faiss_device(device)

    @classmethod
    def build(cls, points: Points, options: Options) -> Backend:
        """Return the backend for some points: the cells of a k-d tree, or on a GPU all points at once."""
        return cls(points, options.threads) if options.device.type == "cpu" else GpuFlatBackend.build(points, options)

    def candidates(
        self, queries: Float32[Tensor, "queries dim"], banned: Int64[Tensor, " queries"] | None
    ) -> tuple[Int64[Tensor, "queries candidates"], Bool[Tensor, " queries"]]:
        """Return candidates of each query; see :class:`~ident3d.matching.points.Backend`."""
        anchors = np.full(len(queries), -1) if banned is None else banned.numpy()
        parts = [slice(start, start + _QUERIES_AT_ONCE) for start in range(0, len(queries), _QUERIES_AT_ONCE)]
        points, settled = zip(*(self._search(queries[part].numpy(), anchors[part]) for part in parts), strict=True)
        return torch.from_numpy(np.concatenate(points)), torch.from_numpy(np.concatenate(settled))

    def _search(self, queries: _Floats, banned: _Integers) -> tuple[_Integers, npt.NDArray[np.bool_]]:
        columns = np.ascontiguousarray(queries.T)
        cell = self._tree.descend(columns)
        searches = [self._scan(queries, self._tree.siblings(cell))]
        bound = self._bound(searches, banned)
        boxes = self._tree.within(columns, bound, cell)
        near = boxes.distance <= _NEAR * bound[boxes.query]
        searches.append(self._scan(queries, _rows_of_cells(boxes[near], len(queries))))
        bound = self._bound(searches, banned)
        rest = ~near & (boxes.distance <= bound[boxes.query])
        searches.append(self._scan(queries, _rows_of_cells(boxes[rest], len(queries))))
        bound = self._bound(searches, banned)
        # What a search did not return is at least as far away as the last that it returned.
        settled = np.all([distances[:, -1] > bound for distances, _ in searches], axis=0)
        return np.concatenate([points for _, points in searches], axis=1), settled

    def _bound(self, searches: list[tuple[_Floats, _Integers]], banned: _Integers) -> _Floats:
        """Return the squared distance beyond which no nearest point is, with the slack for rounding."""
        least = [np.where(points == banned[:, None], np.inf, distances).min(axis=1) for distances, points in searches]
        bound: _Floats = np.minimum(np.minimum.reduce(least).astype(np.float32) * self._slack + _TINY, _LARGEST)
        return bound

    def _scan(self, queries: _Floats, cells: _Integers) -> tuple[_Floats, _Integers]:
        """Search the given cells of each query: (Q, d), (Q, n) to (Q, k) squared distances and (Q, k) points."""
        if cells.shape[1] == 0:
            shape = (len(queries), _CANDIDATES)
            return np.full(shape, np.inf, dtype=np.float32), np.full(shape, -1)
        with self._one_search, bounded_threads(self._threads):
            self._lists.nprobe = cells.shape[1]  # FAISS takes it from the index, hence one search at a time
            distances, points = self._lists.search_preassigned(queries, _CANDIDATES, cells, None)
        return np.where(points < 0, np.inf, distances), points


def _divide(coordinates: Tensor) -> tuple[Tensor, Tensor]:
    from scipy.spatial import cKDTree  # here, because matching on a device does not need it

    tree = cKDTree(coordinates.numpy(), leafsize=_POINTS_IN_CELL)
    starts = []
    pending: list[Any] = [tree.tree]
    while pending:
        node = pending.pop()
        if node.split_dim == -1:
            starts.append(node.start_idx)
        else:
            pending += [node.greater, node.lesser]
    return torch.from_numpy(np.array(tree.indices, dtype=np.int64)), torch.from_numpy(np.array(starts, dtype=np.int64))


def _inverted_lists(coordinates: _Floats, order: _Integers, first: _Integers) -> Any:
    """Return a FAISS index whose inverted lists are the cells."""
    faiss = faiss_library()
    # FAISS reads a row of named lists only up to the number of lists; a row has FAN of them or more.
    cells, width = max(len(first), FAN), coordinates.shape[1]
    # Lists are always named in a search, so the quantizer that would choose them is never asked.
    quantizer = faiss.IndexFlatL2(width)
    quantizer.add(np.zeros((cells, width), dtype=np.float32))
    lists = faiss.IndexIVFFlat(quantizer, width, cells)
    lists.is_trained = True
    cell = np.repeat(np.arange(len(first)), np.diff(first, append=len(order)))
    with bounded_threads(1):
        lists.add_core(len(order), faiss.swig_ptr(coordinates), faiss.swig_ptr(order), faiss.swig_ptr(cell))
    return lists


def _rows_of_cells(found: NearCells, queries: int) -> _Integers:
    """Arrange pairs as one row of cells for each query, filled up with -1."""
    counts = np.bincount(found.query, minlength=queries)
    place = np.arange(len(found.query)) - (np.cumsum(counts) - counts)[found.query]
    rows = np.full((queries, counts.max(initial=0)), -1)
    rows[found.query, place] = found.cell
    return rows
