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
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ident3d.pairs.box_tree import FAN, BoxTree, Found
from ident3d.pairs.faiss_library import bounded_threads, faiss_library
from ident3d.pairs.points import Points

__all__ = ["CellBackend"]

_POINTS_IN_CELL = 96  # at most: the tree halves until it is below
_NEAR = 0.35  # boxes within this share of the squared bound are searched before the others
_CANDIDATES = 3  # of each search: the answer, the excluded anchor, and a witness that nothing else is as near
_QUERIES_AT_ONCE = 4096  # each takes some 10 kB meanwhile, for its boxes
_TINY = np.float32(1e-35)  # absolute slack, for squares below the normal numbers of float32
_LARGEST = np.finfo(np.float32).max  # the bound of a query for which nothing is found yet

_Floats = npt.NDArray[np.float32]
_Integers = npt.NDArray[np.int64]


class CellBackend:
    """Finds nearest points exactly; see :mod:`ident3d.pairs.cells`.

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

    def candidates(self, queries: Tensor, banned: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return candidates of each query; see :class:`~ident3d.pairs.index.Backend`."""
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
    return torch.from_numpy(np.array(tree.indices, dtype=np.int64)), torch.tensor(starts)


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


def _rows_of_cells(found: Found, queries: int) -> _Integers:
    """Lay pairs out as one row of cells for each query, filled up with -1."""
    counts = np.bincount(found.query, minlength=queries)
    place = np.arange(len(found.query)) - (np.cumsum(counts) - counts)[found.query]
    rows = np.full((queries, counts.max(initial=0)), -1)
    rows[found.query, place] = found.cell
    return rows
