"""The pair index: which stored latents are nearest to a target."""

from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from ident3d.arguments import as_numbers, check_count
from ident3d.device import named_device, usable_device
from ident3d.factors import Factors
from ident3d.matching.exact import CellBackend
from ident3d.matching.faiss import HnswBackend, IvfBackend
from ident3d.matching.points import Backend, Options, Points, check_coordinates
from ident3d.matching.torch import TorchBackend
from ident3d.randomness import generator
from ident3d.registry import Registry

__all__ = ["BACKENDS", "PairIndex", "check_index", "check_options", "nearest_candidate", "nearest_of_all"]

_RECALL_QUERIES = 1000

_DISTANCES_AT_ONCE = 1 << 22  # an exhaustive search holds this many float64 distances

_Array = npt.NDArray[Any]

BACKENDS: Registry[type[Backend]] = Registry(
    "backend", {"exact": CellBackend, "torch": TorchBackend, "ivf": IvfBackend, "hnsw": HnswBackend}
)
"""The backends of the pair index, by name; see :mod:`ident3d.matching` for which to choose."""


class PairIndex:
    """Matches targets to the nearest of N stored latents, by sum(((a - b) / scale)^2).

    The index holds latents / scale, rounded to float32, and distances between such rows are compared in float64. Of
    several latents at one distance, for example equal ones, the lowest id is the match. So every exact backend returns
    the same ids.

    Backends; :mod:`ident3d.matching` says when to choose which:

    * "exact" (default): FAISS over the cells of a k-d tree, or over all points on a GPU. Always right.
    * "torch": all points, on any device that torch has float64 on, without FAISS. Always right.
    * "ivf": FAISS inverted lists of k-means cells, on the CPU or a GPU. Approximate.
    * "hnsw": a FAISS navigable small-world graph, on the CPU. Approximate, and slow to build.

    An index pickles: what FAISS holds is made again, or carried along where that would be slow, and the latents are
    tensors, which processes started with torch's multiprocessing share.

    Example:
        >>> import ident3d
        >>> latents = ident3d.sample_latents(1000)
        >>> index = ident3d.PairIndex(latents)
        >>> ids, distances = index.match(latents[:3])
        >>> ids
        array([0, 1, 2])
        >>> bool((index.match(latents[:3], exclude=ids)[0] != ids).all())  # the nearest others
        True

    Args:
        latents: (N, d) numbers, N at least 2; any dtype, layout and device.
        backend: one of the names above, or ``package.module:Class`` for a
            :class:`~ident3d.matching.Backend` of your own.
        scale: (d,) length scales, one per factor: the match is made in latents / scale. A conditional's own
            ``displacement_std`` keeps an anisotropic conditional anisotropic. None: plain L2.
        device: where the search runs.
        threads: the most threads that a search uses; None: as many as torch, which is one in a DataLoader's worker.
        effort: how much of an approximate index is searched: cells for "ivf" (64), candidates for "hnsw" (32).
        factors: what the columns are, for messages; ``data.factors`` for a dataset's. None: 3DIdent's where d is 10,
            nameless ones otherwise.

    Attributes:
        backend: name of the backend.
        device: where the search runs.

    Raises:
        TypeError: if latents or scale are not numbers, or device, threads or effort of another type.
        ValueError: if latents are NaN, infinite, fewer than two, or not (N, d), scale does not fit or is not
            positive, there is no such backend, or not on this device, or threads or effort are not usable.
        MissingDependencyError: if FAISS is needed and not installed.
    """

    def __init__(
        self,
        latents: Tensor | npt.ArrayLike,
        backend: str = "exact",
        scale: Tensor | npt.ArrayLike | None = None,
        *,
        device: torch.device | str = "cpu",
        threads: int | None = None,
        effort: int | None = None,
        factors: Factors | None = None,
    ) -> None:
        options = check_options(backend, device, threads, effort)
        self._build(Points.from_latents(latents, scale, factors), backend, options)

    def _build(self, points: Points, backend: str, options: Options) -> None:
        self.backend = backend
        self.device = options.device
        self._backend = BACKENDS.find(backend).build(points, options)
        self._points = points.to(self.search_device)

    def __len__(self) -> int:
        return self._points.ids

    def __repr__(self) -> str:
        metric = "plain L2" if self.scale is None else f"scale {self.scale.tolist()}"
        return f"PairIndex of {len(self)} latents, backend {self.backend!r} on {self.device}, {metric}"

    @property
    def is_exact(self) -> bool:
        """Whether the match is the nearest latents always, by proof."""
        return self._backend.is_exact

    @property
    def width(self) -> int:
        """d, the number of factors."""
        return self._points.width

    @overload
    def match(self, queries: Tensor, exclude: Tensor | npt.ArrayLike | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def match(
        self, queries: npt.ArrayLike, exclude: Tensor | npt.ArrayLike | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]: ...
    def match(
        self, queries: Tensor | npt.ArrayLike, exclude: Tensor | npt.ArrayLike | None = None
    ) -> tuple[Tensor, Tensor] | tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return the nearest stored latents of each query.

        Args:
            queries: (Q, d) targets, in the latents' own units.
            exclude: (Q,) one id for each query, in [0, N), that is not to be its match; None excludes none.

        Returns:
            ids: (Q,) int64 in [0, N); never the excluded one.
            distances: (Q,) float32, the root of sum(((a - b) / scale)^2).
            Both are tensors on the queries' device for a tensor, and arrays for anything else.

        Raises:
            TypeError: if queries or ids are not numbers.
            ValueError: if shapes do not fit, a query is not finite, or an excluded id is out of range.
        """
        wanted = self._check_queries(as_numbers(queries, "queries"))
        excluded = self._check_exclude(exclude, len(wanted))
        coordinates = self._points.scaled(wanted.to(self.search_device))
        check_coordinates(coordinates, "queries", self._points.factors)
        ids, squared = _find(self._points, self._backend, coordinates, excluded)
        distances = squared.sqrt().float()
        if isinstance(queries, Tensor):
            return ids.to(wanted.device), distances.to(wanted.device)
        return ids.cpu().numpy(), distances.cpu().numpy()

    def nearest(
        self, queries: Float32[Tensor, "queries dim"], exclude: Int64[Tensor, " queries"]
    ) -> tuple[Int64[Tensor, " queries"], Bool[Tensor, " queries"]]:
        """Match without waiting for the device that the search runs on, and without a check of what is given.

        Args:
            queries: targets, finite, on the device of the search.
            exclude: an id for each that is not to be its match, in [0, N), on the same device.

        Returns:
            The ids that :meth:`match` returns; and whether that is certain, in the sense of :attr:`is_exact`. The
            others are left to :meth:`match`.
        """
        coordinates = self._points.scaled(queries)
        candidates, settled = self._backend.candidates(coordinates, self._points.banned(exclude))
        return nearest_candidate(self._points, coordinates, candidates, exclude)[0], settled

    @cached_property
    def recall(self) -> float:
        """The share of up to 1,000 stored latents whose nearest other one is found: 1 for an exact backend."""
        if self.is_exact:
            return 1.0
        rows = min(len(self), _RECALL_QUERIES)
        ids = torch.from_numpy(generator(0, "pairs/recall").choice(len(self), rows, replace=False))
        points = ids if self._points.of_id is None else self._points.of_id[ids]
        queries = self._points.coordinates[points]
        exact = CellBackend.build(self._points, Options(torch.device("cpu")))
        right, _ = _find(self._points, exact, queries, ids)
        found, _ = _find(self._points, self._backend, queries, ids)
        return float((right == found).double().mean())

    def holds(self, latents: Tensor | npt.ArrayLike) -> bool:
        """Return whether this is an index of the given (N, d) latents."""
        latents = as_numbers(latents, "latents")
        if tuple(latents.shape) != (len(self), self.width):
            return False
        stored = self._points.coordinates
        if self._points.of_id is not None:
            stored = stored[self._points.of_id]
        return torch.equal(self._points.scaled(latents.to(self.search_device)), stored)

    def on(self, device: torch.device | str) -> "PairIndex":
        """Return an index for queries on ``device`` that gives the same matches as this one.

        For a CUDA device and an exact index that is a "torch" index there. Any other stays where it is and takes
        queries from everywhere: an approximate search on another device would miss other matches.
        """
        target = named_device(device)
        if target.type != "cuda" or not self.is_exact:
            return self
        target = usable_device(target)
        if self.search_device == target:
            return self
        moved = object.__new__(PairIndex)
        moved._build(self._points, "torch", Options(target))
        return moved

    def _check_queries(self, queries: Tensor) -> Tensor:
        if queries.ndim != 2 or queries.shape[1] != self.width:
            raise ValueError(f"expected numeric queries of shape (Q, {self.width}), not {tuple(queries.shape)}")
        return queries

    def _check_exclude(self, exclude: Tensor | npt.ArrayLike | None, queries: int) -> Tensor | None:
        if exclude is None:
            return None
        ids = as_numbers(exclude, "the ids of exclude")
        if ids.shape != (queries,) or (ids.is_floating_point() and queries):
            raise ValueError(f"exclude is one id for each of {queries} queries, not {tuple(ids.shape)}, {ids.dtype}")
        ids = ids.to(self.search_device, torch.int64)
        if len(ids) and not bool(((ids >= 0) & (ids < len(self))).all()):
            raise ValueError(f"exclude holds ids in [0, {len(self)}), not {int(ids.min())} to {int(ids.max())}")
        return ids

    @property
    def scale(self) -> Tensor | None:
        """(d,) float64, the length scales that latents are divided by in the match; None for plain L2."""
        return self._points.scale

    @property
    def search_device(self) -> torch.device:
        """The device that queries are searched on; the CPU, too, where FAISS takes them from there to a GPU."""
        return self.device if self._backend.takes_tensors_of_device else torch.device("cpu")


def check_options(backend: str, device: torch.device | str, threads: int | None, effort: int | None) -> Options:
    """Return how a backend is to run, before anything is built.

    Raises:
        TypeError: if device, threads or effort are of another type.
        ValueError: if there is no such backend, it does not run on this device, threads or effort are below 1, or an
            effort is asked of a backend that always looks at everything.
    """
    kind = BACKENDS.find(backend if isinstance(backend, str) else repr(backend))
    for what, number in (("threads", threads), ("effort", effort)):
        if number is not None:
            check_count(number, what, 1)
    if effort is not None and kind.is_exact:
        approximate = " or ".join(name for name, other in BACKENDS.items() if not other.is_exact)
        raise ValueError(f"backend={backend!r} is exact, whatever the effort: leave it out, or choose {approximate}")
    return Options(kind.check_device(device), threads, effort)


def check_index(index: Any, latents: Tensor) -> None:
    """Check that an index can match targets to the given (N, d) latents.

    Raises:
        TypeError: if it is not an index.
        ValueError: if it is one of other latents.
    """
    if not isinstance(index, PairIndex):
        raise TypeError(
            f"an index is a PairIndex of the dataset's latents, such as PairIndex(data.latents, 'ivf'), not {index!r}"
        )
    if not index.holds(latents):
        raise ValueError(
            f"the index is not one of this dataset's latents: it holds {len(index)} rows of {index.width}, the dataset "
            f"{' of '.join(map(str, latents.shape))}; make it with PairIndex(data.latents)"
        )


def _find(points: Points, backend: Backend, queries: Tensor, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
    """Match (Q, d) float32 queries in the metric of the points to (Q,) ids and (Q,) float64 squared distances."""
    if not len(queries):
        return queries.new_zeros(0, dtype=torch.int64), queries.new_zeros(0, dtype=torch.float64)
    banned = None if exclude is None else points.banned(exclude)
    candidates, settled = backend.candidates(queries, banned)
    ids, squared = nearest_candidate(points, queries, candidates, exclude)
    if not bool(settled.all()):
        left = ~settled
        ids[left], squared[left] = nearest_of_all(points, queries[left], None if exclude is None else exclude[left])
    return ids, squared


def nearest_candidate(
    points: Points,
    queries: Float32[Tensor, "queries dim"],
    candidates: Int64[Tensor, "queries candidates"],
    exclude: Int64[Tensor, " queries"] | None,
) -> tuple[Int64[Tensor, " queries"], Float64[Tensor, " queries"]]:
    """Return the nearest candidate of each query.

    Args:
        points: the points.
        queries: in the metric of the points.
        candidates: points, -1 for none.
        exclude: ids that are no answer, or None.

    Returns:
        Ids, -1 where no candidate is left, and squared distances.
    """
    ids = points.answers(candidates, exclude)
    squared = _squared_distances(points.coordinates[candidates], queries[:, None])
    return _lowest(ids, squared.masked_fill(ids < 0, torch.inf))


def nearest_of_all(
    points: Points, queries: Float32[Tensor, "queries dim"], exclude: Int64[Tensor, " queries"] | None
) -> tuple[Int64[Tensor, " queries"], Float64[Tensor, " queries"]]:
    """Return the nearest point of each query by looking at all of them; see :func:`nearest_candidate`."""
    every = torch.arange(len(points), device=queries.device)
    rows = max(1, _DISTANCES_AT_ONCE // len(points))
    ids = torch.empty(len(queries), dtype=torch.int64, device=queries.device)
    squared = torch.empty(len(queries), dtype=torch.float64, device=queries.device)
    for start in range(0, len(queries), rows):
        part = slice(start, start + rows)
        found = points.answers(every.expand(len(queries[part]), -1), None if exclude is None else exclude[part])
        distances = _squared_distances(points.coordinates, queries[part, None])
        ids[part], squared[part] = _lowest(found, distances.masked_fill(found < 0, torch.inf))
    return ids, squared


def _squared_distances(points: Tensor, queries: Tensor) -> Tensor:
    """Sum over the last axis column by column: one order of additions, whatever the shapes and the device."""
    total = torch.zeros((), dtype=torch.float64, device=queries.device)
    for column in range(queries.shape[-1]):
        difference = points[..., column].double() - queries[..., column].double()
        total = total + difference * difference
    return total


def _lowest(ids: Tensor, squared: Tensor) -> tuple[Tensor, Tensor]:
    least = squared.min(dim=1).values
    tied = ids.masked_fill(squared != least[:, None], torch.iinfo(torch.int64).max).min(dim=1).values
    return torch.where(least.isinf(), -1, tied), least
