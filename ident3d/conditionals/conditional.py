"""What every conditional is: the distribution of a positive around its anchor."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ident3d.conditionals.numerics import power_integral
from ident3d.spaces import Box, Space

__all__ = ["Conditional", "Coordinate", "check_conditional", "check_generator"]

_FALL = 42.0  # exp(-42) is below float64's resolution
_FLAT = 2.0**-53  # a width of the interval, in units of the scale, over which the density does not change
_OUTER_NODES = 128
_INNER_NODES = 96

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Coordinate:
    """A density proportional to exp(-|z_pos - z|^p / scale^p), truncated to an interval where the space has walls.

    Attributes:
        p: the exponent, 1 or larger.
        scale: the width, infinite for the uniform law.
    """

    p: float
    scale: float

    def displacement_std(self, width: float) -> float:
        """Return the standard deviation of z_pos - z, over anchors z that are uniform on an interval.

        Args:
            width: the interval's width; infinite where there are no walls.
        """
        if math.isinf(width):
            return self.scale * math.sqrt(math.gamma(3 / self.p) / math.gamma(1 / self.p))
        if width <= _FLAT * self.scale:
            return width / math.sqrt(6)
        return self.scale * math.sqrt(_mean_square(self.p, width / self.scale))

    def information(self, width: float) -> float:
        """Return the mutual information of z and z_pos in nats, for a z that is uniform on an interval.

        The positive is not uniform: it piles up less near the walls than elsewhere, which this takes into account.

        Args:
            width: the interval's width.
        """
        if width <= _FLAT * self.scale:
            return 0.0
        return max(0.0, _information(self.p, width / self.scale))  # a very wide conditional leaves rounding alone


@lru_cache(maxsize=4096)
def _mean_square(p: float, width: float) -> float:
    """Return the mean of (z_pos - z)^2 at scale 1: over anchors uniform on [0, width]."""
    z, weights, interior = _from_wall(p, width)
    near, far = _walls(z, p, width)
    square = (_moment(2, near, p) + _moment(2, far, p)) / (_moment(0, near, p) + _moment(0, far, p))
    plain = math.gamma(3 / p) / math.gamma(1 / p)
    return float(2 / width * (square @ weights + interior * plain))


@lru_cache(maxsize=4096)
def _information(p: float, width: float) -> float:
    """Return the mutual information at scale 1, for anchors uniform on [0, width].

    It is h(q) - E h(z), with h(z) the entropy of the positive given its anchor, which is ln Z(z) + E |z_pos - z|^p in
    closed form, and q(x) the marginal density of the positive, the mean of exp(-|x - z|^p) / Z(z) over anchors.
    """
    x, weights, interior = _from_wall(p, width)
    near, far = _walls(x, p, width)
    mass = _moment(0, near, p) + _moment(0, far, p)
    edge = near * np.exp(-(near**p)) + far * np.exp(-(far**p))
    entropy = np.log(mass) + (1 - edge / mass) / p
    density = _marginal(x, p, width)
    surprise = -width * density * np.log(density)
    plain = math.log(2 * math.gamma(1 + 1 / p)) + 1 / p
    return float(2 / width * ((surprise - entropy) @ weights + interior * (math.log(width) - plain)))


def _marginal(x: Array, p: float, width: float) -> Array:
    """Return the density of the positive at each x, for anchors uniform on [0, width]."""
    density = np.zeros_like(x)
    nodes, weights = _graded(_INNER_NODES, 3)
    for wall, side in ((x, -1.0), (width - x, 1.0)):
        reach = np.minimum(wall, _reach(p))[:, None]
        distance = reach * nodes  # (points, nodes): from the positive to the anchor
        anchor = x[:, None] + side * distance
        near, far = _walls(anchor, p, width)
        mass = _moment(0, near, p) + _moment(0, far, p)
        density += (np.exp(-(distance**p)) / mass * reach) @ weights
    return density / width


def _from_wall(p: float, width: float) -> tuple[Array, Array, float]:
    """Return nodes and weights for the part of [0, width / 2] that feels the wall at 0, and the length of the rest.

    Beyond twice the density's reach from both walls, everything is as if there were no walls.
    """
    end = min(width / 2, 2 * _reach(p))
    # The larger p is, the sharper is the bend of the density at a distance of 1 from a wall.
    bends = sorted({0.0, end, *(place for place in (1.0, width - 1) if 0 < place < end)})
    start, length = np.array(bends[:-1])[:, None], np.diff(bends)[:, None]
    nodes, weights = _graded(_OUTER_NODES, 2)
    return (start + length * nodes).ravel(), (length * weights).ravel(), width / 2 - end


def _walls(x: Array, p: float, width: float) -> tuple[Array, Array]:
    """Return the distances from x to both walls, at most so far as the density reaches."""
    return np.clip(x, 0, _reach(p)), np.clip(width - x, 0, _reach(p))


def _reach(p: float) -> float:
    return float(_FALL ** (1 / p))


def _moment(order: int, wall: Array, p: float) -> Array:
    """Return the integral of y^order exp(-y^p) from 0 to ``wall``."""
    moment: Array = power_integral(torch.from_numpy(wall), p, order).numpy()
    return moment


@lru_cache(maxsize=4)
def _graded(count: int, grade: int) -> tuple[Array, Array]:
    """Return nodes and weights over [0, 1] for functions that are rough at 0: Gauss-Legendre in x^(1 / grade)."""
    from scipy import special  # here, because nothing that is drawn needs it

    nodes, weights = special.roots_legendre(count)
    unit = (nodes + 1) / 2
    return unit**grade, grade * unit ** (grade - 1) * weights / 2


class Conditional(ABC):
    """The distribution p(z_pos | z) of a positive's latents around those of its anchor.

    A conditional is a frozen dataclass of its numbers: hashable, picklable, equal to another with the same numbers.
    ``str(conditional)`` is its canonical text, which :func:`ident3d.conditionals.parse` reads back.

    Attributes:
        name: its name in the canonical text.
        spaces: the kinds of space that it is defined on.
    """

    name: ClassVar[str]
    spaces: ClassVar[tuple[type[Space], ...]]

    def sample(self, z: Tensor, space: Space, generator: torch.Generator) -> Tensor:
        """Draw one positive for each anchor.

        Args:
            z: (..., dim) anchors in the space, any float dtype and device. The numbers are drawn in float64.
            space: the space that the latents live in.
            generator: source of the randomness, on the anchors' device.

        Returns:
            (..., dim) positives in the space, with the anchors' dtype and device.

        Raises:
            TypeError: if z is no floating-point tensor, or generator no torch.Generator.
            ValueError: if the conditional is not defined on this space, an anchor is not in the space, or the
                generator is on another device.
        """
        self.check(space)
        space.check(z, "the anchors z")
        check_generator(generator, z.device)
        with torch.no_grad():
            anchors = space.settle(z.reshape(-1, space.dim).double())
            return space.cast(self.sample_unchecked(anchors, space, generator), z.dtype).reshape(z.shape)

    def log_prob(self, z_pos: Tensor, z: Tensor, space: Space) -> Tensor:
        """Return the normalised log density of positives, in nats.

        Args:
            z_pos: (..., dim) positives; on a box, positives outside it have density 0.
            z: (..., dim) anchors in the space.
            space: the space that the latents live in.

        Returns:
            (...) log densities with respect to the space's natural measure, computed in float64, in z_pos's dtype but
            at least float32.

        Raises:
            TypeError: if z_pos or z is no floating-point tensor.
            ValueError: if the conditional is not defined on this space, shapes differ, an anchor is not in the
                space, or a positive is not finite or not on the sphere.
        """
        self.check(space)
        space.check(z, "the anchors z")
        space.check(z_pos, "the positives z_pos", inside=not isinstance(space, Box))
        if z_pos.shape != z.shape:
            raise ValueError(f"z_pos and z must have one shape, not {tuple(z_pos.shape)} and {tuple(z.shape)}")
        anchors = space.settle(z.reshape(-1, space.dim).double())
        positives = space.settle(z_pos.reshape(-1, space.dim).double())
        density = self.log_prob_unchecked(positives, anchors, space).reshape(z.shape[:-1])
        density = density.masked_fill(~space.contains(z_pos), -torch.inf)
        return density.to(torch.promote_types(z_pos.dtype, torch.float32))

    def check(self, space: Space) -> None:
        """Raise ValueError if this conditional is not defined on ``space``, or its widths do not fit it."""
        if not isinstance(space, self.spaces):
            fitting = " or ".join(kind.__name__ for kind in self.spaces)
            raise ValueError(f"{self} is not defined on {space}; it is on {fitting}")  # noqa: TRY004 - a Space of the wrong kind is a wrong value
        if self.dim is not None and self.dim != space.dim:
            raise ValueError(f"{self} is given for {self.dim} factors, and {space} has {space.dim}")

    @property
    def dim(self) -> int | None:
        """The number of factors that the widths are given for; None where one number holds for any number of them."""
        return None

    def coordinates(self, space: Space) -> tuple[Coordinate, ...]:
        """Return the law of each factor, in the order of the columns, where the factors are independent.

        Raises:
            ValueError: if they are not: on a sphere.
        """
        raise ValueError(f"the factors of {self} on {space} are not independent")

    def displacement_std(self, space: Space) -> tuple[float, ...]:
        """Return the standard deviation of z_pos - z for every factor, over anchors that are uniform on the space.

        On the unbounded space it is the same for every anchor. It tells how far apart a pair is in each factor, and is
        a natural length of that factor when pairs are matched.

        Raises:
            ValueError: on a sphere, for the conditionals whose displacement there is not known.
        """
        width = space.width if isinstance(space, Box) else math.inf
        return tuple(law.displacement_std(width) for law in self.coordinates(space))

    @abstractmethod
    def sample_unchecked(self, z: Tensor, space: Space, generator: torch.Generator) -> Tensor:
        """Draw positives, (B, dim) float64, for (B, dim) float64 anchors that lie in the space to the last digit."""

    @abstractmethod
    def log_prob_unchecked(self, z_pos: Tensor, z: Tensor, space: Space) -> Tensor:
        """Return log densities, (B,) float64, of (B, dim) float64 points that lie in the space to the last digit."""

    def __str__(self) -> str:
        numbers = (f"{field.name}={_text(getattr(self, field.name))}" for field in fields(self))  # type: ignore[arg-type]  # every subclass is a dataclass
        return f"{self.name}({', '.join(numbers)})"


def check_conditional(conditional: Any) -> None:
    """Raise TypeError unless ``conditional`` is one."""
    if not isinstance(conditional, Conditional):
        raise TypeError(
            f"expected a conditional, such as ident3d.Normal(0.3), not {conditional!r}; "
            "ident3d.conditionals.parse reads one from text"
        )


def check_generator(generator: torch.Generator, device: torch.device | None = None) -> None:
    """Raise TypeError unless ``generator`` is a torch.Generator, ValueError unless it is on the device given."""
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"randomness comes from a torch.Generator, not {type(generator).__name__}; "
            "ident3d.randomness.torch_generator(seed, purpose, index) makes one"
        )
    if device is not None and generator.device.type != device.type:
        raise ValueError(f"the generator is on {generator.device} and the latents are on {device}; use one device")


def _text(value: float | tuple[float, ...]) -> str:
    return f"[{', '.join(map(repr, value))}]" if isinstance(value, tuple) else repr(value)
