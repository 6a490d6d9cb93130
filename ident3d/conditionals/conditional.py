"""The interface of a conditional, the distribution of a positive around its anchor, and the scales of most of them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from ident3d.factors import FACTORS, Factors
from ident3d.registry import Registry
from ident3d.spaces import Box, Space

__all__ = [
    "CONDITIONALS",
    "REST",
    "Conditional",
    "Coordinate",
    "Scales",
    "ScalesLike",
    "as_tensor",
    "check_conditional",
    "check_generator",
    "columns_by_name",
    "per_factor",
    "positive",
]

CONDITIONALS: Registry[Callable[..., "Conditional"]] = Registry("conditional")
"""What builds a conditional, by its name in text; see :mod:`ident3d.conditionals.text`."""


class Coordinate(ABC):
    """The law of one factor of a positive given its anchor's, where the factors are independent."""

    @abstractmethod
    def displacement_std(self, width: float) -> float:
        """Return the standard deviation of z_pos - z, over anchors z that are uniform on an interval.

        Args:
            width: the interval's width; infinite where there are no walls.
        """

    @abstractmethod
    def information(self, width: float) -> float:
        """Return the mutual information of z and z_pos in nats, for a z that is uniform on an interval.

        Args:
            width: the interval's width, finite.
        """


class Conditional(ABC):
    """The distribution p(z_pos | z) of a positive's latents around those of its anchor.

    A conditional is a frozen dataclass of its numbers: hashable, picklable, equal to another with the same numbers.
    ``str(conditional)`` is its canonical text, which :func:`ident3d.conditionals.parse` reads back. One whose factors
    are independent, with one density at several scales, is easier to write as a
    :class:`~ident3d.conditionals.FactorwiseConditional`.

    Example:
        >>> import ident3d
        >>> ident3d.conditionals.parse("normal(sigma=0.1)") == ident3d.Normal(0.1)
        True

    Attributes:
        spaces: the kinds of space that it is defined on.
    """

    spaces: ClassVar[tuple[type[Space], ...]]

    def sample(
        self, z: Float[Tensor, "*batch dim"], space: Space, generator: torch.Generator
    ) -> Float[Tensor, "*batch dim"]:
        """Draw one positive for each anchor.

        Args:
            z: anchors in the space, of any float dtype, on any device. The numbers are drawn in float64.
            space: the space that the latents live in.
            generator: source of the randomness, on the anchors' device.

        Returns:
            Positives in the space, with the anchors' dtype and device.

        Raises:
            TypeError: if z is not a floating-point tensor, or generator not a torch.Generator.
            ValueError: if the conditional is not defined on this space, an anchor is not in the space, or the
                generator is on another device.
        """
        self.check(space)
        space.check(z, "the anchors z")
        check_generator(generator, z.device)
        with torch.no_grad():
            anchors = space.settle(z.reshape(-1, space.dim).double())
            return space.cast(self.sample_unchecked(anchors, space, generator), z.dtype).reshape(z.shape)

    def log_prob(
        self, z_pos: Float[Tensor, "*batch dim"], z: Float[Tensor, "*batch dim"], space: Space
    ) -> Float[Tensor, "*batch"]:
        """Return the normalised log density of positives, in nats.

        Args:
            z_pos: positives; on a box, positives outside it have density 0.
            z: anchors in the space.
            space: the space that the latents live in.

        Returns:
            Log densities with respect to the space's natural measure, computed in float64, in z_pos's dtype but
            at least float32.

        Raises:
            TypeError: if z_pos or z is not a floating-point tensor.
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
        """Raise ValueError if this conditional is not defined on ``space``, or its scales do not fit it."""
        if not isinstance(space, self.spaces):
            fitting = " or ".join(kind.__name__ for kind in self.spaces)
            raise ValueError(f"{self} is not defined on {space}; use {fitting}")  # noqa: TRY004 - a Space of the wrong kind is a wrong value
        if self.dim is not None and self.dim != space.dim:
            raise ValueError(f"{self} is given for {self.dim} factors, and {space} has {space.dim}")

    @property
    def dim(self) -> int | None:
        """The number of factors that the scales are given for; None where one number holds for any number of them."""
        return None

    def coordinates(self, space: Space) -> tuple[Coordinate, ...]:
        """Return the law of each factor, in the order of the columns, where the factors are independent.

        Raises:
            ValueError: if they are not: on a sphere.
        """
        raise ValueError(f"the factors of {self} on {space} are not independent")

    def displacement_std(self, space: Space) -> tuple[float, ...]:
        """Return the standard deviation of z_pos - z for every factor, over anchors that are uniform on the space.

        On the unbounded space it is the same for every anchor. It says how far apart a pair is in each factor, and
        is a natural length scale of that factor when pairs are matched.

        Raises:
            ValueError: on a sphere, for the conditionals whose displacement there is not known.
        """
        width = space.width if isinstance(space, Box) else math.inf
        return tuple(law.displacement_std(width) for law in self.coordinates(space))

    def mutual_information(self, space: Space) -> float:
        """Return the mutual information of z and z_pos in nats, for anchors z that are uniform on the space.

        On a box the factors are independent, and the information of each adds up.

        Raises:
            ValueError: if the conditional is not defined on the space, or its mutual information is not known there.
        """
        self.check(space)
        if isinstance(space, Box):
            return math.fsum(law.information(space.width) for law in self.coordinates(space))
        raise ValueError(
            f"the mutual information of {self} on {space} is not known: the marginal of the positive has no closed "
            "form there; von_mises_fisher, anisotropic_normal and a normal with one sigma have one"
        )

    @abstractmethod
    def sample_unchecked(
        self, z: Float64[Tensor, "batch dim"], space: Space, generator: torch.Generator
    ) -> Float64[Tensor, "batch dim"]:
        """Draw positives for anchors that are in the space to the last digit."""

    @abstractmethod
    def log_prob_unchecked(
        self, z_pos: Float64[Tensor, "batch dim"], z: Float64[Tensor, "batch dim"], space: Space
    ) -> Float64[Tensor, " batch"]:
        """Return log densities of points that are in the space to the last digit."""

    def __str__(self) -> str:
        numbers = (f"{field.name}={_text(getattr(self, field.name))}" for field in fields(self))  # type: ignore[arg-type]  # every subclass is a dataclass
        return f"{self.text_name()}({', '.join(numbers)})"

    @classmethod
    def text_name(cls) -> str:
        """Return the name of this class in text: that in CONDITIONALS, or ``package.module:Class``."""
        names = (name for name, builder in CONDITIONALS.items() if builder is cls)
        return next(names, f"{cls.__module__}:{cls.__qualname__}")


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


REST = "rest"
"""The name for every column that no other name covers."""


def columns_by_name(names: Iterable[str], factors: Factors) -> dict[str, tuple[int, ...]]:
    """Assign every column of the factors to one name.

    A factor's own name takes precedence over its group's, and its group's over :data:`REST`. So with the names
    "rotation", "rotation_x" and "rest", column rotation_x belongs to "rotation_x", the other rotations to "rotation",
    and everything else to "rest".

    Args:
        names: names of factors, names of groups, or "rest".
        factors: the factors, one per column.

    Returns:
        The columns of each name, in the order of ``names``.

    Raises:
        ValueError: if a name is unknown or covers no column, or a column has no name.
    """
    columns: dict[str, list[int]] = {name: [] for name in names}
    known = (*factors.names, *factors.groups, REST)
    unknown = [str(name) for name in columns if name not in known]
    if unknown:
        raise ValueError(
            f"no factor or group is called {', '.join(unknown)}; the factors are {', '.join(factors.names)}, "
            f"the groups {', '.join(factors.groups)}, and {REST} means all others"
        )
    left_out = []
    for column, factor in enumerate(factors):
        owner = next((name for name in (factor.name, factor.group, REST) if name in columns), None)
        if owner is None:
            left_out.append(factor.name)
        else:
            columns[owner].append(column)
    if left_out:
        raise ValueError(f"nothing is given for {', '.join(left_out)}; name them, their group, or {REST}")
    idle = [name for name, owned in columns.items() if not owned]
    if idle:
        raise ValueError(f"no column is left for {', '.join(idle)}: other names cover them all")
    return {name: tuple(owned) for name, owned in columns.items()}


_SMALLEST, _LARGEST = 1e-30, 1e30

Scales = float | tuple[float, ...]
"""One positive number for all factors, or a tuple with one for each."""

ScalesLike = float | Sequence[float] | Mapping[str, float] | Tensor | np.ndarray[Any, Any]
"""What a conditional takes for its scales; see :func:`per_factor`."""


def per_factor(value: ScalesLike, what: str, factors: Factors = FACTORS) -> Scales:
    """Return scales as a float or as a tuple of floats.

    Args:
        value: a number for all factors; a sequence, array or tensor with one number a column; or a mapping from
            names of factors or groups ("rest" for all others) to numbers, as in ``{"hue": 0.5, "rest": 0.1}``.
        what: their name, for messages.
        factors: the factors that the names of a mapping refer to.

    Returns:
        A float, or a tuple of floats in the order of the columns.

    Raises:
        TypeError: if a scale is not a number.
        ValueError: if a scale is not in [1e-30, 1e30], there are none, or names and factors do not fit.
    """
    if isinstance(value, Tensor | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        columns = columns_by_name(value, factors)
        scales = [0.0] * len(factors)
        for name, owned in columns.items():
            scale = positive(value[name], f"{what} of {name}")
            for column in owned:
                scales[column] = scale
        return tuple(scales)
    if isinstance(value, Sequence):
        if not value:
            raise ValueError(f"{what} must be a number, or one number for each factor, not an empty list")
        return tuple(positive(scale, f"{what} of column {column}") for column, scale in enumerate(value))
    return positive(value, what)


def positive(value: Any, what: str, *, or_zero: bool = False) -> float:
    """Return ``value`` as a float, in [1e-30, 1e30], so that its powers are numbers too.

    Args:
        value: the number.
        what: its name, for messages.
        or_zero: whether 0 will do as well.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is not positive, or out of that range.
    """
    if isinstance(value, bool | np.bool_ | str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} must be a number, not {value!r}")
    number = float(value)
    if or_zero and number == 0:
        return 0.0
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{what} must be {'0 or larger' if or_zero else 'positive'} and finite, not {number}")
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(f"{what} must lie between {_SMALLEST:.0e} and {_LARGEST:.0e}, not {number}")
    return number


def as_tensor(scales: Scales, device: torch.device) -> Float64[Tensor, "*dim"]:
    """Return scales as a float64 tensor on ``device``: () for one number, (dim,) for one per factor."""
    return torch.tensor(scales, dtype=torch.float64, device=device)
