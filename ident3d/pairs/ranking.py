"""The last word on a match: candidates compared in float64, ties broken by the lowest id.

Backends search in float32 and hand over a few candidates. The winner is found here, by one sequence of operations
for all of them, so that every exact backend gives the same ids.
"""

import torch
from torch import Tensor

from ident3d.pairs.points import Points

__all__ = ["nearest_candidate", "nearest_of_all"]

_DISTANCES_AT_ONCE = 1 << 22  # an exhaustive search holds this many float64 distances


def nearest_candidate(
    points: Points, queries: Tensor, candidates: Tensor, exclude: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the nearest candidate of each query.

    Args:
        points: the points.
        queries: (Q, d) float32, in the metric of the points.
        candidates: (Q, k) int64 points, -1 for none.
        exclude: (Q,) int64 ids that are no answer, or None.

    Returns:
        (Q,) int64 ids, -1 where no candidate is left, and (Q,) float64 squared distances.
    """
    ids = points.answers(candidates, exclude)
    squared = _squared_distances(points.coordinates[candidates], queries[:, None])
    return _lowest(ids, squared.masked_fill(ids < 0, torch.inf))


def nearest_of_all(points: Points, queries: Tensor, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
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
