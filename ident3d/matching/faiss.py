"""Approximate matching with FAISS: inverted lists of k-means cells, and navigable small-world graphs."""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ident3d.matching.backend import Options
from ident3d.matching.faiss_library import bounded_threads, check_gpu, faiss_library
from ident3d.matching.points import Points

__all__ = ["FaissBackend", "HnswBackend", "IvfBackend"]

_CANDIDATES = 2  # the answer, and the excluded anchor
_ROWS_PER_CELL = 39  # fewer are too little for k-means to learn from
_LINKS = 32
_BUILD_EFFORT = 64
_HNSW_EFFORT = 32


class FaissBackend(ABC):
    """An approximate FAISS index over the points.

    Args:
        points: the points, on the CPU.
        options: how the search runs.
        stored: the index as FAISS writes it, from another process; built where None.

    Raises:
        ValueError: if FAISS sees no GPU where one is asked for.
    """

    is_exact = False

    def __init__(self, points: Points, options: Options, stored: Tensor | None = None) -> None:
        on_gpu = options.device.type != "cpu"
        if on_gpu:
            check_gpu(options.device)
        faiss = faiss_library()
        self._points = points
        self._options = options
        # One thread: with more, the graph of HNSW depends on which thread came first.
        with bounded_threads(1):
            self._cpu_index: Any = self._built(points) if stored is None else faiss.deserialize_index(stored.numpy())
        self._set_effort(options.effort)
        self._index = self._cpu_index
        if on_gpu:
            self._resources = faiss.StandardGpuResources()
            self._index = faiss.index_cpu_to_gpu(self._resources, options.device.index or 0, self._cpu_index)

    def __reduce__(self) -> tuple[type["FaissBackend"], tuple[Points, Options, Tensor]]:
        stored = torch.from_numpy(faiss_library().serialize_index(self._cpu_index))
        return type(self), (self._points, self._options, stored)

    def candidates(self, queries: Tensor, banned: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return candidates of each query; see :class:`~ident3d.matching.backend.Backend`."""
        with bounded_threads(self._options.threads):
            _, found = self._index.search(queries.numpy(), _CANDIDATES)
        points = torch.from_numpy(found)
        usable = points >= 0 if banned is None else (points >= 0) & (points != banned[:, None])
        return points, usable.any(dim=1)

    @abstractmethod
    def _built(self, points: Points) -> Any:
        """Build the index of the points."""

    @abstractmethod
    def _set_effort(self, effort: int | None) -> None:
        """Set how much of the index a search looks at."""


class IvfBackend(FaissBackend):
    """Inverted lists of k-means cells; ``effort`` is the number of cells that a search looks into (nprobe)."""

    def _built(self, points: Points) -> Any:
        faiss = faiss_library()
        cells = 2 ** round(math.log2(8 * math.sqrt(len(points))))
        cells = max(1, min(cells, len(points) // _ROWS_PER_CELL))
        quantizer = faiss.IndexFlatL2(points.width)
        index = faiss.IndexIVFFlat(quantizer, points.width, cells)
        index.cp.min_points_per_centroid = 1  # a single cell of a few points is as it should be
        coordinates = points.coordinates.numpy()
        index.train(coordinates)
        index.add(coordinates)
        return index

    def _set_effort(self, effort: int | None) -> None:
        self._cpu_index.nprobe = min(self._cpu_index.nlist, 64 if effort is None else effort)


class HnswBackend(FaissBackend):
    """A navigable small-world graph; ``effort`` is the length of the list of candidates of a search (efSearch)."""

    def _built(self, points: Points) -> Any:
        faiss = faiss_library()
        index = faiss.IndexHNSWFlat(points.width, _LINKS)
        index.hnsw.efConstruction = _BUILD_EFFORT
        index.add(np.ascontiguousarray(points.coordinates.numpy()))
        return index

    def _set_effort(self, effort: int | None) -> None:
        self._cpu_index.hnsw.efSearch = _HNSW_EFFORT if effort is None else effort
