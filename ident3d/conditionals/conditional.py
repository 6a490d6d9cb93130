"""What every conditional is: the distribution of a positive around its anchor."""

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from ident3d.conditionals.coordinate import Coordinate
from ident3d.spaces import Box, Space

__all__ = ["Conditional", "check_conditional", "check_generator"]


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
