"""The points that a target is matched to, distinct latents in the metric of the match, and what searches them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float32, Float64, Int64, Num
from torch import Tensor

from ident3d.arguments import as_numbers
from ident3d.factors import Factors, resolve_factors
from ident3d.latents import check_finite

__all__ = ["Backend", "Options", "Points", "check_coordinates", "is_settled"]

_SHORTEST, _LONGEST = 1e-30, 1e30  # as the scales of conditionals; beyond, latents would round to nothing
_LARGEST = 1e15  # coordinates beyond this are refused: their squared distances would leave float32


@dataclass(frozen=True)
class Points:
    """The distinct rows of N latents.

    Latents that occur twice would be two nearest neighbours at one distance. Here they are one point that knows the
    two lowest of its ids: one to answer with, and one to answer with when the first is the excluded anchor.
    Everything is held in tensors, which processes share instead of copying.

    Attributes:
        coordinates: (U, d) float32, the distinct rows of latents / scale, by their lowest id.
        factors: what the columns are, for messages.
        scale: (d,) float64, the length scales that latents are divided by; None for none.
        first: (U,) int64, the lowest id of each point; None when every latent is distinct, so that ids are points.
        second: (U,) int64, the second lowest id, or -1; None like ``first``.
        of_id: (N,) int64, the point of each id; None like ``first``.
    """

    coordinates: Tensor
    factors: Factors
    scale: Tensor | None = None
    first: Tensor | None = None
    second: Tensor | None = None
    of_id: Tensor | None = None

    @classmethod
    def from_latents(
        cls,
        latents: Tensor | npt.ArrayLike,
        scale: Tensor | npt.ArrayLike | None = None,
        factors: Factors | None = None,
    ) -> "Points":
        """Check latents and find the distinct ones.

        Args:
            latents: (N, d) numbers of any dtype, layout and device.
            scale: (d,) length scales, or None.
            factors: what the columns are; see :func:`~ident3d.factors.resolve_factors`.

        Raises:
            TypeError: if latents or scale are not numbers.
            ValueError: if the shape is another, there are fewer than two rows, a value is NaN, infinite or too
                large to be squared (row and factor are named), or a length scale is missing or not positive.
        """
        rows = as_numbers(latents, "latents").cpu()
        if rows.ndim != 2 or rows.shape[1] < 1:
            raise ValueError(f"expected numeric latents of shape (N, d), not shape {tuple(rows.shape)}")
        if len(rows) < 2:
            raise ValueError(f"matching pairs needs the latents of 2 images or more, got {len(rows)}")
        columns = resolve_factors(factors, rows.shape[1])
        lengths = _as_scale(scale, rows.shape[1])
        # A copy, and contiguous: what the caller does to its latents later changes nothing here.
        coordinates = _scaled(rows if rows.dtype == torch.float32 else rows.double(), lengths)
        check_coordinates(coordinates, "latents", columns)
        representative = _lowest_twin(coordinates.numpy())
        if representative is None:
            return cls(coordinates, columns, lengths)
        lowest, of_id = np.unique(representative, return_inverse=True)
        second = np.full(len(lowest), -1)
        twins = np.flatnonzero(representative != np.arange(len(representative)))[::-1]
        second[of_id[twins]] = twins  # from the highest id down, so that the lowest is written last
        first = torch.from_numpy(lowest)
        return cls(coordinates[first], columns, lengths, first, torch.from_numpy(second), torch.from_numpy(of_id))

    def __len__(self) -> int:
        return len(self.coordinates)

    @property
    def ids(self) -> int:
        """N, the number of ids: of latents, repeated ones included."""
        return len(self.coordinates if self.of_id is None else self.of_id)

    @property
    def width(self) -> int:
        """d, the number of columns."""
        return self.coordinates.shape[1]

    def to(self, device: torch.device | str) -> "Points":
        """Return these points on ``device``."""
        parts = (self.scale, self.first, self.second, self.of_id)
        moved = (None if part is None else part.to(device) for part in parts)
        return Points(self.coordinates.to(device), self.factors, *moved)

    def scaled(self, latents: Num[Tensor, "*batch dim"]) -> Float32[Tensor, "*batch dim"]:
        """Return latents / scale, on the latents' device."""
        return _scaled(latents, self.scale)

    def banned(self, exclude: Int64[Tensor, " queries"]) -> Int64[Tensor, " queries"]:
        """Return the point that an excluded id leaves without any id, or -1."""
        if self.of_id is None or self.second is None:
            return exclude
        point = self.of_id[exclude]
        return torch.where(self.second[point] < 0, point, -1)

    def answers(
        self, points: Int64[Tensor, "queries candidates"], exclude: Int64[Tensor, " queries"] | None
    ) -> Int64[Tensor, "queries candidates"]:
        """Return the lowest id of each point that is not excluded, or -1.

        Args:
            points: points, -1 for none.
            exclude: ids, or None.

        Returns:
            Ids, -1 where the point has no other id.
        """
        if self.first is None or self.second is None:
            ids, other = points, torch.full_like(points, -1)
        else:
            ids, other = self.first[points], self.second[points]
        if exclude is not None:
            ids = torch.where(ids == exclude[:, None], other, ids)
        return torch.where(points < 0, -1, ids)


@dataclass(frozen=True)
class Options:
    """How a backend runs.

    Attributes:
        device: where.
        threads: the most threads that FAISS uses; None: as many as torch.
        effort: how much of an approximate index a search looks at; None for the backend's own choice.
    """

    device: torch.device
    threads: int | None = None
    effort: int | None = None


class Backend(ABC):
    """Finds, for each query, a few points among which the nearest is.

    Attributes:
        is_exact: whether a query that is settled has its nearest point among the candidates, always.
        takes_tensors_of_device: whether points and queries are handed over on the device where the search runs;
            they are on the CPU otherwise.
    """

    is_exact: ClassVar[bool]
    takes_tensors_of_device: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def check_device(cls, device: torch.device | str) -> torch.device:
        """Return the device to search on; ValueError if this backend cannot."""

    @classmethod
    @abstractmethod
    def build(cls, points: Points, options: Options) -> "Backend":
        """Return the backend for some points, which are on the CPU."""

    @abstractmethod
    def candidates(
        self, queries: Float32[Tensor, "queries dim"], banned: Int64[Tensor, " queries"] | None
    ) -> tuple[Int64[Tensor, "queries candidates"], Bool[Tensor, " queries"]]:
        """Return candidates.

        Args:
            queries: one or more, in the metric of the points.
            banned: the point that is no answer, -1 for none; or None.

        Returns:
            Points, -1 for none; and whether the query is settled: every point that rounding
            could make the nearest is among its candidates, or, from an approximate backend, there is a candidate
            that is not banned. The others are compared with every point.
        """


def is_settled(
    points: Int64[Tensor, "queries candidates"],
    least: Float64[Tensor, "queries candidates"],
    banned: Int64[Tensor, " queries"] | None,
    rounding: Float64[Tensor, " queries"],
) -> Bool[Tensor, " queries"]:
    """Return whether everything that may be the nearest is among the candidates of a search of all points.

    Args:
        points: candidates.
        least: their squared distances, ascending, off by at most ``rounding``.
        banned: points that are no answer, or None.
        rounding: the error.
    """
    allowed = least if banned is None else least.masked_fill(points == banned[:, None], torch.inf)
    return least[:, -1] - allowed.min(dim=1).values > 2 * rounding


def _scaled(latents: Tensor, scale: Tensor | None) -> Tensor:
    """Return latents / scale as contiguous float32 on the latents' device; minus zero becomes zero."""
    coordinates = latents if scale is None else latents.double() / scale.to(latents.device)
    return coordinates.float().add(0.0).contiguous()


def _as_scale(scale: Tensor | npt.ArrayLike | None, width: int) -> Tensor | None:
    """Return the length scales of a metric as (width,) float64.

    Raises:
        TypeError: if they are not numbers.
        ValueError: if there is not one positive, finite length scale for each factor.
    """
    if scale is None:
        return None
    lengths = as_numbers(scale, "the length scales").cpu().double().clone()
    if lengths.shape != (width,):
        raise ValueError(f"scale is one length for each of the {width} factors, not of shape {tuple(lengths.shape)}")
    if not bool(((lengths >= _SHORTEST) & (lengths <= _LONGEST)).all()):
        raise ValueError(
            f"the length scales are positive and finite, from {_SHORTEST:.0e} to {_LONGEST:.0e}, not {lengths.tolist()}"
        )
    return lengths


def check_coordinates(coordinates: Tensor, what: str, factors: Factors) -> None:
    """Raise ValueError that names row and factor if a coordinate is NaN, infinite, or too large to be squared."""
    good = coordinates.abs() <= _LARGEST
    if bool(good.all()):
        return
    check_finite(coordinates.cpu().numpy(), what, factors.names)
    row, column = (~good).nonzero()[0].tolist()
    name, value = factors.names[column], coordinates[row, column].item()
    raise ValueError(f"{what} must stay within {_LARGEST:.0e} (divided by scale): row {row}, {name} is {value}")


def _lowest_twin(coordinates: npt.NDArray[np.float32]) -> npt.NDArray[np.int64] | None:
    """Return the lowest id with the same coordinates for every id, or None when all rows are distinct."""
    multipliers = np.random.Generator(np.random.Philox(0)).integers(
        2**63, size=(coordinates.shape[1],), dtype=np.uint64
    )
    bits = coordinates.view(np.uint32)
    key = np.zeros(len(coordinates), dtype=np.uint64)
    for column, multiplier in enumerate(multipliers):
        key += bits[:, column].astype(np.uint64) * multiplier  # wraps around; equal rows have equal keys
    ordered = np.sort(key)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return None
    suspects = np.flatnonzero(np.isin(key, repeated))
    _, start, group = np.unique(coordinates[suspects], axis=0, return_index=True, return_inverse=True)
    representative = np.arange(len(coordinates))
    representative[suspects] = suspects[start[group.reshape(-1)]]
    return representative
