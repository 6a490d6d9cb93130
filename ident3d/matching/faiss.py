"""Matching with FAISS itself: inverted lists, navigable small-world graphs, and on a GPU all points.

FAISS is imported where it is used, and kept to a bounded number of threads.
"""

import contextlib
import math
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from ident3d.device import named_device
from ident3d.errors import MissingDependencyError
from ident3d.matching.points import Backend, Options, Points, is_settled

__all__ = [
    "FaissBackend",
    "GpuFlatBackend",
    "HnswBackend",
    "IvfBackend",
    "bounded_threads",
    "check_gpu",
    "faiss_device",
    "faiss_library",
    "gpu_number",
]


def faiss_library() -> Any:
    """Return the module ``faiss``.

    Raises:
        MissingDependencyError: if it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError(
            "faiss", "match pairs with this backend (backend='torch' does not need it)", None
        ) from error
    return faiss


def faiss_device(device: torch.device | str) -> torch.device:
    """Return the CPU, or a GPU that FAISS can search on, which torch may have been built without.

    Raises:
        ValueError: if FAISS cannot search there.
    """
    wanted = named_device(device)
    if wanted.type != "cpu":
        check_gpu(wanted)
    return wanted


def check_gpu(device: torch.device) -> None:
    """Raise ValueError if FAISS cannot search on ``device``."""
    faiss = faiss_library()
    gpus = faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else 0
    if device.type != "cuda" or gpu_number(device) >= gpus:
        other = "backend='torch', or device='cpu'" if torch.cuda.is_available() else "device='cpu'"
        raise ValueError(f"FAISS sees no GPU {device}, but {gpus} in all; use {other}")


def gpu_number(device: torch.device) -> int:
    """Return the number of a CUDA device; of one without a number, that of torch's current device."""
    number: int | None = getattr(device, "index", None)  # torch's types say that it always has one
    if number is not None:
        return number
    return torch.cuda.current_device() if torch.cuda.is_available() else 0


@contextlib.contextmanager
def bounded_threads(threads: int | None) -> Iterator[None]:
    """Let FAISS use at most ``threads`` threads inside the block, and never more than torch may use here.

    torch is at one thread in a DataLoader's worker process, so FAISS is too: many workers do not start all threads
    each, and a forked worker never waits for the threads of the process that it was forked from.
    """
    faiss = faiss_library()
    before = faiss.omp_get_max_threads()
    allowed = torch.get_num_threads()
    faiss.omp_set_num_threads(allowed if threads is None else min(threads, allowed))
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


_CANDIDATES = 2  # the answer, and the excluded anchor
_ROWS_PER_CELL = 39  # fewer are too little for k-means to learn from
_LINKS = 32
_BUILD_EFFORT = 64
_HNSW_EFFORT = 32


class FaissBackend(Backend):
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
            self._index = faiss.index_cpu_to_gpu(self._resources, gpu_number(options.device), self._cpu_index)

    def __reduce__(self) -> tuple[type["FaissBackend"], tuple[Points, Options, Tensor]]:
        return type(self), (self._points, self._options, self._stored)

    @cached_property
    def _stored(self) -> Tensor:
        """The index as FAISS writes it; kept, because a process that is being started reads it from shared memory."""
        return torch.from_numpy(faiss_library().serialize_index(self._cpu_index))

    @classmethod
    def check_device(cls, device: torch.device | str) -> torch.device:
        """Return the CPU, or a GPU that FAISS can search on."""
        return faiss_device(device)

    @classmethod
    def build(cls, points: Points, options: Options) -> "FaissBackend":
        """Return the backend for some points."""
        return cls(points, options)

    def candidates(
        self, queries: Float32[Tensor, "queries dim"], banned: Int64[Tensor, " queries"] | None
    ) -> tuple[Int64[Tensor, "queries candidates"], Bool[Tensor, " queries"]]:
        """Return candidates of each query; see :class:`~ident3d.matching.points.Backend`."""
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

    @classmethod
    def check_device(cls, device: torch.device | str) -> torch.device:
        """Return the CPU; ValueError for any other device."""
        wanted = named_device(device)
        if wanted.type != "cpu":
            raise ValueError(f"backend='hnsw' runs on the CPU only, not on {wanted}; 'exact' and 'ivf' run on a GPU")
        return wanted

    def _built(self, points: Points) -> Any:
        faiss = faiss_library()
        index = faiss.IndexHNSWFlat(points.width, _LINKS)
        index.hnsw.efConstruction = _BUILD_EFFORT
        index.add(np.ascontiguousarray(points.coordinates.numpy()))
        return index

    def _set_effort(self, effort: int | None) -> None:
        self._cpu_index.hnsw.efSearch = _HNSW_EFFORT if effort is None else effort


_FLAT_CANDIDATES = 8


class GpuFlatBackend(Backend):
    """Compares every query with every point with FAISS on a GPU, in float32.

    Args:
        points: the points, on the CPU.
        device: the GPU.

    Raises:
        ValueError: if FAISS sees no such GPU.
    """

    is_exact = True

    def __init__(self, points: Points, device: torch.device) -> None:
        check_gpu(device)
        faiss = faiss_library()
        self._points = points
        self._device = device
        self._candidates = min(_FLAT_CANDIDATES, len(points))
        self._resources: Any = faiss.StandardGpuResources()
        configuration = faiss.GpuIndexFlatConfig()
        configuration.device = gpu_number(device)
        self._index: Any = faiss.GpuIndexFlatL2(self._resources, points.width, configuration)
        self._index.add(points.coordinates.numpy())
        self._largest = points.coordinates.double().square().sum(1).max()

    def __reduce__(self) -> tuple[type["GpuFlatBackend"], tuple[Points, torch.device]]:
        return type(self), (self._points, self._device)

    @classmethod
    def check_device(cls, device: torch.device | str) -> torch.device:
        """Return a GPU that FAISS can search on; ValueError if it sees no such GPU."""
        wanted = named_device(device)
        check_gpu(wanted)
        return wanted

    @classmethod
    def build(cls, points: Points, options: Options) -> "GpuFlatBackend":
        """Return the backend for some points."""
        return cls(points, options.device)

    def candidates(
        self, queries: Float32[Tensor, "queries dim"], banned: Int64[Tensor, " queries"] | None
    ) -> tuple[Int64[Tensor, "queries candidates"], Bool[Tensor, " queries"]]:
        """Return candidates of each query; see :class:`~ident3d.matching.points.Backend`."""
        distances, found = self._index.search(queries.numpy(), self._candidates)
        points = torch.from_numpy(found)
        least = torch.from_numpy(np.where(found < 0, np.inf, distances)).double()
        # FAISS expands the square, so the error is that of the norms, not of the distance.
        rounding = (queries.double().square().sum(1) + self._largest) * (self._points.width + 8) * 2.0**-21
        everything = torch.tensor(self._candidates == len(self._points), dtype=torch.bool, device=points.device)
        return points, everything | is_settled(points, least, banned, rounding)
