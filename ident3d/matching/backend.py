"""What a backend of the pair index does, and which there are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ident3d.arguments import check_count
from ident3d.device import named_device, usable_device
from ident3d.matching.faiss_library import check_gpu
from ident3d.matching.points import Points

__all__ = ["BACKENDS", "Backend", "Options", "check_options"]


class Backend(Protocol):
    """Finds, for each query, a few points among which the nearest is.

    Attributes:
        is_exact: whether a query that is settled has its nearest point among the candidates, always.
    """

    is_exact: bool

    def candidates(self, queries: Tensor, banned: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return candidates.

        Args:
            queries: (Q, d) float32, Q at least 1, in the metric of the points, on the backend's device.
            banned: (Q,) int64 point that is no answer, -1 for none; or None.

        Returns:
            (Q, k) int64 points, -1 for none; and (Q,) bool, whether the query is settled: every point that rounding
            could make the nearest is among its candidates, or, from an approximate backend, there is a candidate
            that is not banned. The others are compared with every point.
        """


@dataclass(frozen=True)
class Options:
    """How a backend runs.

    Attributes:
        device: where.
        threads: the most threads that FAISS uses; None: as many as torch.
        effort: how much of an approximate index a search looks at; None for the backend's own choice.
    """

    device: torch.device
    threads: int | None
    effort: int | None


def _exact(points: Points, options: Options) -> Backend:
    if options.device.type == "cpu":
        from ident3d.matching.exact import CellBackend

        return CellBackend(points, options.threads)
    from ident3d.matching.scan import GpuFlatBackend

    return GpuFlatBackend(points, options.device)


def _torch(points: Points, options: Options) -> Backend:
    from ident3d.matching.scan import TorchBackend

    return TorchBackend(points.to(options.device))


def _ivf(points: Points, options: Options) -> Backend:
    from ident3d.matching.faiss import IvfBackend

    return IvfBackend(points, options)


def _hnsw(points: Points, options: Options) -> Backend:
    from ident3d.matching.faiss import HnswBackend

    return HnswBackend(points, options)


BACKENDS: dict[str, Callable[[Points, Options], Backend]] = {
    "exact": _exact,
    "torch": _torch,
    "ivf": _ivf,
    "hnsw": _hnsw,
}
"""How each backend is made, by its name."""

_APPROXIMATE = ("ivf", "hnsw")


def check_options(backend: str, device: torch.device | str, threads: int | None, effort: int | None) -> Options:
    """Return how a backend is to run, before anything is built.

    Raises:
        TypeError: if device, threads or effort are of another kind.
        ValueError: if there is no such backend, it does not run on this device, threads or effort are below 1, or an
            effort is asked of a backend that always looks at everything.
    """
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise ValueError(f"there is no backend {backend!r}; there are {', '.join(BACKENDS)}")
    for what, number in (("threads", threads), ("effort", effort)):
        if number is not None:
            check_count(number, what, 1)
    if effort is not None and backend not in _APPROXIMATE:
        raise ValueError(
            f"backend={backend!r} is exact, whatever the effort: leave it out, or choose {' or '.join(_APPROXIMATE)}"
        )
    return Options(_device(backend, device), threads, effort)


def _device(backend: str, device: torch.device | str) -> torch.device:
    if backend == "torch":
        return usable_device(device)
    wanted = named_device(device)  # FAISS may have a GPU that torch was built without
    if wanted.type != "cpu":
        if backend == "hnsw":
            raise ValueError(f"backend='hnsw' runs on the CPU only, not on {wanted}; 'exact' and 'ivf' run on a GPU")
        check_gpu(wanted)
    return wanted
