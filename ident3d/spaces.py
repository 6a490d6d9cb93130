"""Latent spaces: where the factors live, and the measure that densities refer to.

Densities on a box and on the unbounded space refer to Lebesgue measure, densities on a sphere to its surface measure.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from jaxtyping import Bool, Float, Float32, Float64
from torch import Tensor

from ident3d.arguments import check_count
from ident3d.factors import FACTORS, Factors
from ident3d.randomness import torch_generator

if TYPE_CHECKING:
    from ident3d.storage.manifest import LatentSubset

__all__ = ["Box", "FactorSpace", "Space", "Sphere", "Unbounded"]

_HELD_TOLERANCE = 1e-6  # by which a latent that is held may be off, in float32
_BOX_TOLERANCE = 1e-6  # share of the box's width by which a rounded coordinate may lie outside
_SMALLEST_NORM = 1e-12  # a vector of norm 0 stays one
_SPHERE_TOLERANCE = 1e-4  # relative error of the norm of a point on the sphere


@dataclass(frozen=True)
class Space(ABC):
    """A subset of R^dim that carries a natural measure.

    Attributes:
        dim: number of factors, the columns of a latents tensor.
    """

    dim: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_count(self.dim, "the dimension of a space", 1))

    @property
    @abstractmethod
    def log_volume(self) -> float:
        """The natural logarithm of the space's measure; infinite for the unbounded space."""

    @property
    @abstractmethod
    def centre(self) -> tuple[float, ...]:
        """The point that a marginal is centred on: the box's middle, the origin, or the sphere's first pole."""

    @abstractmethod
    def contains(self, z: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """Return which points lie in the space, up to rounding in their own dtype.

        Args:
            z: (..., dim) points, any float dtype.

        Returns:
            (...) bool; False for points that are not finite.
        """

    @abstractmethod
    def settle(self, z: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Move points that are in the space up to rounding into it, in their own dtype: (..., dim) to (..., dim)."""

    @abstractmethod
    def uniform(self, n: int, generator: torch.Generator) -> Float64[Tensor, "{n} {self.dim}"]:
        """Draw (n, dim) float64 points uniformly, on the generator's device; ValueError where that is not possible."""

    def cast(self, z: Float64[Tensor, "*batch dim"], dtype: torch.dtype) -> Float[Tensor, "*batch dim"]:
        """Round (..., dim) float64 points of the space to ``dtype`` without leaving the space."""
        return self.settle(z).to(dtype)

    def check(self, z: Tensor, what: str = "z", *, inside: bool = True) -> None:
        """Check that points lie in this space.

        Args:
            z: (..., dim) points.
            what: what they are, for the message.
            inside: whether they must lie in the space; otherwise finite points of R^dim will do.

        Raises:
            TypeError: if z is not a floating-point tensor.
            ValueError: if its last axis is not one of ``dim``, or a point is not finite or not in the space.
        """
        if not isinstance(z, Tensor) or not z.is_floating_point():
            kind = f"a {z.dtype} tensor" if isinstance(z, Tensor) else type(z).__name__
            raise TypeError(f"{what} must be a floating-point torch tensor, not {kind}")
        if z.ndim < 1 or z.shape[-1] != self.dim:
            raise ValueError(f"{what} must have shape (..., {self.dim}) to lie in {self}, not {tuple(z.shape)}")
        good = self.contains(z) if inside else _finite(z)
        if not bool(good.all()):
            rows, finite = z.detach().reshape(-1, self.dim), bool(z.isfinite().all())
            bad = ~(good if finite else z.isfinite().all(-1)).reshape(-1)
            row = int(bad.nonzero()[0])
            raise ValueError(
                f"{what} must {f'lie in {self}' if finite else 'be finite'}: "
                f"row {row} is {rows[row].tolist()} ({int(bad.sum())} such rows in all)"
            )


@dataclass(frozen=True)
class Box(Space):
    """The box [low, high]^dim, a convex body.

    Example:
        >>> import ident3d, torch
        >>> box = ident3d.Box(2)
        >>> box.contains(torch.tensor([[0.5, -1.0], [0.0, 1.5]]))
        tensor([ True, False])

    Attributes:
        dim: number of factors.
        low: lower wall of every factor.
        high: upper wall of every factor.
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "low", _number(self.low, "the lower wall of a box"))
        object.__setattr__(self, "high", _number(self.high, "the upper wall of a box"))
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"a box needs finite walls low < high, not {self.low} and {self.high}")

    @property
    def width(self) -> float:
        """The distance between the two walls of a factor."""
        return self.high - self.low

    @property
    def log_volume(self) -> float:
        """The logarithm of (high - low)^dim."""
        return self.dim * math.log(self.width)

    @property
    def centre(self) -> tuple[float, ...]:
        """The middle of the box."""
        return (self.low + self.width / 2,) * self.dim

    def contains(self, z: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """Return which points lie between the walls, up to rounding; see :meth:`Space.contains`."""
        slack = self.width * max(_BOX_TOLERANCE, 2 * torch.finfo(z.dtype).eps)
        return ((z >= self.low - slack) & (z <= self.high + slack)).all(-1)

    def settle(self, z: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Clamp points to the walls."""
        low, high = _walls(self.low, self.high, z.dtype)
        return z.clamp(low, high)

    def cast(self, z: Float64[Tensor, "*batch dim"], dtype: torch.dtype) -> Float[Tensor, "*batch dim"]:
        """Round points of the box to ``dtype``; none rounds past a wall."""
        return self.settle(z.to(dtype))

    def uniform(self, n: int, generator: torch.Generator) -> Float64[Tensor, "{n} {self.dim}"]:
        """Draw (n, dim) float64 points uniformly, on the generator's device."""
        unit = torch.rand(n, self.dim, dtype=torch.float64, device=generator.device, generator=generator)
        return unit.mul_(self.width).add_(self.low)


@dataclass(frozen=True)
class Sphere(Space):
    """The sphere of radius ``radius`` around the origin of R^dim, a surface of dimension dim - 1.

    Example:
        >>> import ident3d, torch
        >>> z = ident3d.Sphere(3).uniform(5, torch.Generator().manual_seed(0))
        >>> torch.allclose(z.norm(dim=1), torch.ones(5, dtype=z.dtype))
        True

    Attributes:
        dim: number of coordinates, 2 or more.
        radius: its radius.
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "radius", _number(self.radius, "the radius of a sphere"))
        if self.dim < 2:
            raise ValueError(f"a sphere needs 2 or more coordinates, not {self.dim}")
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise ValueError(f"the radius of a sphere is positive and finite, not {self.radius}")

    @property
    def log_volume(self) -> float:
        """The logarithm of the surface 2 pi^(dim/2) radius^(dim-1) / Gamma(dim/2)."""
        half = self.dim / 2
        return math.log(2) + half * math.log(math.pi) - math.lgamma(half) + (self.dim - 1) * math.log(self.radius)

    @property
    def centre(self) -> tuple[float, ...]:
        """The pole (radius, 0, ..., 0)."""
        return (self.radius,) + (0.0,) * (self.dim - 1)

    def contains(self, z: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """Return which points have the sphere's radius, up to rounding; see :meth:`Space.contains`."""
        slack = max(_SPHERE_TOLERANCE, 4 * torch.finfo(z.dtype).eps)
        norm: Tensor = torch.linalg.vector_norm(z, dim=-1, dtype=torch.float64)
        return (norm / self.radius - 1).abs() <= slack

    def settle(self, z: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Project points radially onto the sphere."""
        # What torch.nn.functional.normalize computes, in half of its time.
        norm = torch.linalg.vector_norm(z, dim=-1, keepdim=True).clamp_(min=_SMALLEST_NORM)
        unit = z.div(norm)
        return unit if self.radius == 1 else unit * self.radius

    def uniform(self, n: int, generator: torch.Generator) -> Float64[Tensor, "{n} {self.dim}"]:
        """Draw (n, dim) float64 points uniformly, on the generator's device."""
        normal = torch.randn(n, self.dim, dtype=torch.float64, device=generator.device, generator=generator)
        return self.settle(normal)


@dataclass(frozen=True)
class Unbounded(Space):
    """R^dim.

    Example:
        >>> import ident3d, torch
        >>> ident3d.Unbounded(2).contains(torch.tensor([[1e9, 0.0], [float("nan"), 0.0]]))
        tensor([ True, False])

    Attributes:
        dim: number of factors.
    """

    @property
    def log_volume(self) -> float:
        """Infinite."""
        return math.inf

    @property
    def centre(self) -> tuple[float, ...]:
        """The origin."""
        return (0.0,) * self.dim

    def contains(self, z: Float[Tensor, "*batch dim"]) -> Bool[Tensor, "*batch"]:
        """Return which points are finite."""
        return _finite(z)

    def settle(self, z: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Return the points as they are."""
        return z

    def uniform(self, n: int, generator: torch.Generator) -> NoReturn:  # noqa: ARG002 - the signature of every space
        """Raise ValueError: an unbounded space has no uniform distribution."""
        raise ValueError("an unbounded space has no uniform distribution; use a Box or a Sphere")


def _finite(z: Tensor) -> Tensor:
    """Return which (..., dim) points are finite: (...). It is what isfinite and all say, in a fifth of their time."""
    return (z - z).sum(-1) == 0


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} is a number, not {value!r}")
    return float(value)


@lru_cache(maxsize=256)
def _walls(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """Return the outermost numbers of ``dtype`` within [low, high]."""
    upward, downward, first, last = torch.tensor([math.inf, -math.inf, low, high], dtype=dtype, device="cpu")
    first = torch.nextafter(first, upward) if first.item() < low else first
    last = torch.nextafter(last, downward) if last.item() > high else last
    return first.item(), last.item()


class FactorSpace:
    """A space whose coordinates are some of the factors, and what becomes of the others.

    Latents of n factors lie in it where those of its k own factors are a point of the space. Each of the others is
    held at a value, or drawn uniformly from [-1, 1], whatever the rest is.

    Args:
        space: where the own factors live, within [-1, 1] in each coordinate; None: the box [-1, 1]^k.
        names: the names of the factors that are the space's coordinates, in their order; None: all.
        others: values in [-1, 1] at which factors that are not in the space are held, by their names.
        factors: all factors, in the order of the columns of latents.

    Attributes:
        space: where the own factors live.
        factors: all factors.
        own: the k factors that are the space's coordinates.
        columns: the columns of latents that are the space's coordinates.
        held: the values of the columns that are held.

    Raises:
        TypeError: if an argument is of another type.
        ValueError: if the space leaves [-1, 1] or has not as many coordinates as factors are named, a factor is unknown
            or named twice, or a value is not in [-1, 1].
    """

    def __init__(
        self,
        space: Space | None = None,
        names: Sequence[str] | None = None,
        others: Mapping[str, float] | None = None,
        factors: Factors = FACTORS,
    ) -> None:
        self.factors = factors
        self.columns = _columns(factors.names if names is None else names, factors)
        self.own = Factors(tuple(factors[column] for column in self.columns))
        self.space = Box(len(self.columns)) if space is None else space
        _check_fits(self.space, len(self.columns))
        self.held = _held({} if others is None else others, self.columns, factors)

    @classmethod
    def of(cls, subset: "LatentSubset", factors: Factors) -> "FactorSpace":
        """Return the space that a manifest or a command line describes.

        Args:
            subset: which of the factors live where, and what the others are.
            factors: all factors.

        Raises:
            ValueError: if they do not fit together; see the class.
        """
        names = subset.factors or factors.names
        space = Sphere(len(names)) if subset.space == "sphere" else Box(len(names))
        return cls(space, names, subset.others, factors)

    def complete(
        self, coordinates: Float[Tensor, "n k"], generator: torch.Generator
    ) -> Float32[Tensor, "n {len(self.factors)}"]:
        """Return the latents of points of the space.

        Args:
            coordinates: (N, k) points of the space.
            generator: draws the factors that are neither in the space nor held, on the CPU.

        Returns:
            (N, n) float32 latents.
        """
        latents = 2 * torch.rand(len(coordinates), len(self.factors), generator=generator) - 1
        for column, value in self.held.items():
            latents[:, column] = value
        latents[:, list(self.columns)] = coordinates.to(latents.dtype)
        return latents

    def uniform(self, n: int, generator: torch.Generator) -> Float32[Tensor, "{n} {len(self.factors)}"]:
        """Draw (N, n) float32 latents uniformly."""
        points = self.space.cast(self.space.uniform(n, generator), torch.float32)
        return self.complete(points, generator)

    def rows(
        self, n: int, seed: int, start: int = 0, *, split: str = "train"
    ) -> Float32[Tensor, "{n} {len(self.factors)}"]:
        """Draw the latents of rows of a dataset uniformly.

        Row i depends on (seed, split, start + i) only.

        Args:
            n: number of rows.
            seed: seed of the dataset, 0 or larger.
            start: index of the first row within the split.
            split: name of the split; splits are disjoint streams.
        """
        latents = torch.empty(n, len(self.factors))
        for row in range(n):
            latents[row] = self.uniform(1, torch_generator(seed, f"latents on a space/{split}", start + row))[0]
        return latents

    def coordinates(self, latents: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch k"]:
        """Return the (..., k) points of the space that (..., n) latents are."""
        return latents[..., list(self.columns)]

    def check(self, latents: Float[Tensor, "batch n"], what: str = "the latents") -> None:
        """Raise ValueError unless (N, n) latents lie in this space, and held factors have their values.

        Args:
            latents: (N, n) latents.
            what: what they are, for the message.
        """
        names = ", ".join(self.own.names)
        self.space.check(self.coordinates(latents), f"{what} ({names})" if len(self.own) < len(self.factors) else what)
        for column, value in self.held.items():
            off = (latents[:, column] - value).abs() > _HELD_TOLERANCE
            if bool(off.any()):
                row = int(off.nonzero()[0])
                raise ValueError(
                    f"{what} must have {self.factors.names[column]} held at {value}: row {row} has "
                    f"{float(latents[row, column])} ({int(off.sum())} such rows in all)"
                )


def _columns(names: Sequence[str], factors: Factors) -> tuple[int, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"factors are named in a sequence, such as ('position_x', 'object_hue'), not by {names!r}")
    unknown = [name for name in names if name not in factors.names]
    if unknown:
        raise ValueError(f"unknown factors {', '.join(unknown)}; choose from {', '.join(factors.names)}")
    if not names or len(set(names)) != len(names):
        raise ValueError(f"expected one factor or more, each named once, not {', '.join(names) or 'none at all'}")
    return tuple(factors.names.index(name) for name in names)


def _check_fits(space: Space, count: int) -> None:
    if not isinstance(space, Space):
        raise TypeError(f"a space is a Box or a Sphere, not {space!r}")
    if space.dim != count:
        raise ValueError(f"{space} has {space.dim} coordinates for {count} factors; name one factor for each")
    fits = (isinstance(space, Box) and space.low >= -1 and space.high <= 1) or (
        isinstance(space, Sphere) and space.radius <= 1
    )
    if not fits:
        raise ValueError(
            f"latents lie in [-1, 1], and {space} does not: use a Box within [-1, 1] or a Sphere of a radius of at "
            "most 1"
        )


def _held(others: Mapping[str, float], columns: tuple[int, ...], factors: Factors) -> dict[int, float]:
    """Return the values of the columns that are held."""
    held = {}
    for name, value in others.items():
        (column,) = _columns([name], factors)
        if column in columns:
            raise ValueError(f"{name} is a coordinate of the space, and cannot be held at {value}")
        if not -1 <= value <= 1:
            raise ValueError(f"latents lie in [-1, 1], and {name} would be held at {value}")
        held[column] = float(value)
    return held
