"""Exact matching in torch, on any device, by comparing every query with every point, block by block."""

import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from ident3d.device import usable_device
from ident3d.matching.points import Backend, Options, Points, is_settled

__all__ = ["TorchBackend"]

_CANDIDATES = 3  # the answer, the excluded anchor, and a witness that nothing else is as near
_GROUP = 64  # points that their least distance represents at first: a minimum is cheaper than a sort
_DISTANCES_AT_ONCE = {"cpu": 1 << 22, "cuda": 1 << 27}


class TorchBackend(Backend):
    """Compares every query with every point, in float64, by matrix products on the points' device.

    float64 because float32 products may be rounded to ten bits of mantissa where a training run asked torch for that.

    Args:
        points: the points, on the device that is to do the work.
    """

    is_exact = True
    takes_tensors_of_device = True

    def __init__(self, points: Points) -> None:
        self._points = points
        coordinates = points.coordinates.double()
        norms = coordinates.square().sum(1, keepdim=True)
        missing = -len(points) % _GROUP
        # A row of norms below the coordinates: one product gives |b|^2 - 2 a.b without a pass over all distances.
        self._columns = torch.cat(
            [
                torch.nn.functional.pad(coordinates, (0, 0, 0, missing)),
                torch.nn.functional.pad(norms, (0, 0, 0, missing), value=torch.inf),
            ],
            dim=1,
        ).T.contiguous()
        self._largest = norms.max()

    def __reduce__(self) -> tuple[type["TorchBackend"], tuple[Points]]:
        return type(self), (self._points,)

    @classmethod
    def check_device(cls, device: torch.device | str) -> torch.device:
        """Return a device that torch can use here; ValueError for any other."""
        return usable_device(device)

    @classmethod
    def build(cls, points: Points, options: Options) -> "TorchBackend":
        """Return the backend for some points, which it copies to the device."""
        return cls(points.to(options.device))

    def candidates(
        self, queries: Float32[Tensor, "queries dim"], banned: Int64[Tensor, " queries"] | None
    ) -> tuple[Int64[Tensor, "queries candidates"], Bool[Tensor, " queries"]]:
        """Return candidates of each query; see :class:`~ident3d.matching.points.Backend`."""
        at_once = _DISTANCES_AT_ONCE.get(queries.device.type, _DISTANCES_AT_ONCE["cpu"])
        rows = max(1, at_once // self._columns.shape[1])
        parts = [
            self._part(queries[start : start + rows], None if banned is None else banned[start : start + rows])
            for start in range(0, len(queries), rows)
        ]
        return torch.cat([points for points, _ in parts]), torch.cat([settled for _, settled in parts])

    def _part(self, queries: Tensor, banned: Tensor | None) -> tuple[Tensor, Tensor]:
        wide = queries.double()
        own = wide.square().sum(1, keepdim=True)
        factors = torch.cat([-2 * wide, torch.ones_like(own)], dim=1)
        distances = (factors @ self._columns).view(len(queries), -1, _GROUP)
        # The few least of all are in the few groups with the least minima.
        groups = min(_CANDIDATES, distances.shape[1])
        nearest = distances.amin(2).topk(groups, largest=False).indices
        members = distances.gather(1, nearest[:, :, None].expand(-1, -1, _GROUP)).view(len(queries), -1)
        least, place = members.topk(_CANDIDATES, largest=False)
        points = nearest.gather(1, place // _GROUP) * _GROUP + place % _GROUP
        least = least + own
        points = torch.where(least.isinf(), -1, points)
        rounding = (own[:, 0] + self._largest) * (len(self._columns) + 8) * 2.0**-51
        return points, is_settled(points, least, banned, rounding)
