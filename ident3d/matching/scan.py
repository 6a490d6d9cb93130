"""Exact matching by looking at every point: in torch on any device, or with FAISS on a GPU."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ident3d.matching.faiss_library import check_gpu, faiss_library
from ident3d.matching.points import Points

__all__ = ["GpuFlatBackend", "TorchBackend"]

_CANDIDATES = 3  # the answer, the excluded anchor, and a witness that nothing else is as near
_GROUP = 64  # points whose least distance stands for them at first: a minimum is cheaper than a sort
_DISTANCES_AT_ONCE = {"cpu": 1 << 22, "cuda": 1 << 27}
_GPU_CANDIDATES = 8


class TorchBackend:
    """Compares every query with every point, in float64, by matrix products on the points' device.

    float64 because float32 products may be rounded to ten bits of mantissa where a training run asked torch for that.

    Args:
        points: the points, on the device that is to do the work.
    """

    is_exact = True

    def __init__(self, points: Points) -> None:
        self._points = points
        coordinates = points.coordinates.double()
        missing = -len(points) % _GROUP
        self._transposed = torch.nn.functional.pad(coordinates, (0, 0, 0, missing)).T.contiguous()
        self._norms = torch.nn.functional.pad(coordinates.square().sum(1), (0, missing), value=torch.inf)
        self._largest = coordinates.square().sum(1).max()

    def __reduce__(self) -> tuple[type["TorchBackend"], tuple[Points]]:
        return type(self), (self._points,)

    def candidates(self, queries: Tensor, banned: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return candidates of each query; see :class:`~ident3d.matching.index.Backend`."""
        at_once = _DISTANCES_AT_ONCE.get(queries.device.type, _DISTANCES_AT_ONCE["cpu"])
        rows = max(1, at_once // len(self._norms))
        parts = [
            self._part(queries[start : start + rows], None if banned is None else banned[start : start + rows])
            for start in range(0, len(queries), rows)
        ]
        return torch.cat([points for points, _ in parts]), torch.cat([settled for _, settled in parts])

    def _part(self, queries: Tensor, banned: Tensor | None) -> tuple[Tensor, Tensor]:
        wide = queries.double()
        own = wide.square().sum(1, keepdim=True)
        distances = torch.addmm(self._norms, wide, self._transposed, alpha=-2).view(len(queries), -1, _GROUP)
        # The few least of all lie in the few groups with the least minima.
        groups = min(_CANDIDATES, distances.shape[1])
        nearest = distances.amin(2).topk(groups, largest=False).indices
        members = distances.gather(1, nearest[:, :, None].expand(-1, -1, _GROUP)).view(len(queries), -1)
        least, place = members.topk(_CANDIDATES, largest=False)
        points = nearest.gather(1, place // _GROUP) * _GROUP + place % _GROUP
        least = least + own
        points = torch.where(least.isinf(), -1, points)
        rounding = (own[:, 0] + self._largest) * (len(self._transposed) + 8) * 2.0**-51
        return points, _is_settled(points, least, banned, rounding)


class GpuFlatBackend:
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
        self._candidates = min(_GPU_CANDIDATES, len(points))
        self._resources: Any = faiss.StandardGpuResources()
        configuration = faiss.GpuIndexFlatConfig()
        configuration.device = device.index or 0
        self._index: Any = faiss.GpuIndexFlatL2(self._resources, points.width, configuration)
        self._index.add(points.coordinates.numpy())
        self._largest = points.coordinates.double().square().sum(1).max()

    def __reduce__(self) -> tuple[type["GpuFlatBackend"], tuple[Points, torch.device]]:
        return type(self), (self._points, self._device)

    def candidates(self, queries: Tensor, banned: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return candidates of each query; see :class:`~ident3d.matching.index.Backend`."""
        distances, found = self._index.search(queries.numpy(), self._candidates)
        points = torch.from_numpy(found)
        least = torch.from_numpy(np.where(found < 0, np.inf, distances)).double()
        # FAISS expands the square, so the error is that of the norms, not of the distance.
        rounding = (queries.double().square().sum(1) + self._largest) * (self._points.width + 8) * 2.0**-21
        everything = torch.full((len(queries),), self._candidates == len(self._points))
        return points, everything | _is_settled(points, least, banned, rounding)


def _is_settled(points: Tensor, least: Tensor, banned: Tensor | None, rounding: Tensor) -> Tensor:
    """Return whether everything that may be the nearest is among the candidates.

    Args:
        points: (Q, k) candidates.
        least: (Q, k) their squared distances, ascending, off by at most ``rounding``.
        banned: (Q,) points that are no answer, or None.
        rounding: (Q,) the error.
    """
    allowed = least if banned is None else least.masked_fill(points == banned[:, None], torch.inf)
    return least[:, -1] - allowed.min(dim=1).values > 2 * rounding
