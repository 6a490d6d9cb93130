"""The factors of variation: what each column of a latents array stands for.

A dataset's factors are data, so that a variant of 3DIdent with other ranges or other factors is another
:class:`Factors` instance and no other code.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from ident3d.codec import INLINE, from_json, to_json

__all__ = ["FACTORS", "Factor", "Factors", "held_factors", "plain_factors", "resolve_factors"]


@dataclass(frozen=True)
class Factor:
    """One generative factor.

    A raw latent in [-1, 1] maps linearly to the physical interval [low, high].

    Example:
        >>> import ident3d
        >>> ident3d.FACTORS[0]
        Factor(name='position_x', group='position', low=-3.0, high=3.0, unit='bu', period=None)

    Attributes:
        name: unique name, as it is written in tables and manifests.
        group: what it belongs to when scores are reported by group, for example "position".
        low: physical value of the raw latent -1, in ``unit``.
        high: physical value of the raw latent 1, in ``unit``.
        unit: "rad" for angles, "bu" for Blender units.
        period: the physical period for a factor on a circle, in ``unit``; None for one on a line.
    """

    name: str
    group: str
    low: float
    high: float
    unit: str
    period: float | None = None

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, *(() if self.period is None else (self.period,)))
        if not self.name or not isinstance(self.name, str) or not all(map(_is_number, numbers)):
            raise TypeError(f"expected a factor with a name and numbers for low, high and period, not {self}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"factor {self.name}: expected finite low < high, not {self.low} and {self.high}")
        if self.period is not None and not self.high - self.low <= self.period * (1 + 1e-9):
            raise ValueError(f"factor {self.name}: the range {self.high - self.low} exceeds its period {self.period}")

    @property
    def is_circular(self) -> bool:
        """Whether the range closes the circle, so that both of its ends are the same value."""
        return self.period is not None and math.isclose(self.high - self.low, self.period, rel_tol=1e-6)


@dataclass(frozen=True)
class Factors(Sequence[Factor]):
    """The factors of a dataset, in the order of the columns of its latents.

    Example:
        >>> import ident3d
        >>> ident3d.FACTORS.groups
        {'position': [0, 1, 2], 'rotation': [3, 4, 5], 'spotlight': [6], 'hue': [7, 8, 9]}
        >>> ident3d.FACTORS.column("object_hue")
        7

    Attributes:
        items: the factors; names are unique.
    """

    items: tuple[Factor, ...] = field(metadata=INLINE)

    def __post_init__(self) -> None:
        if not isinstance(self.items, tuple) or not all(isinstance(item, Factor) for item in self.items):
            raise TypeError(f"expected a tuple of factors, not {self.items!r}")
        if not self.items or len(set(self.names)) != len(self.items):
            raise ValueError(f"expected at least one factor and unique names, not {list(self.names)}")

    @overload
    def __getitem__(self, index: int) -> Factor: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Factor, ...]: ...
    def __getitem__(self, index: int | slice) -> Factor | tuple[Factor, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Factor]:
        return iter(self.items)

    def __repr__(self) -> str:
        width, kind = max(map(len, self.names)), max(len(factor.group) for factor in self)
        lines = [
            f"  {column} {f.name:{width}}  {f.group:{kind}}  [{f.low:.4g}, {f.high:.4g}] {f.unit}"
            for column, f in enumerate(self)
        ]
        return "\n".join([f"{len(self)} factors: column, name, group, physical range, unit", *lines])

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in column order."""
        return tuple(factor.name for factor in self.items)

    @property
    def low(self) -> npt.NDArray[np.float64]:
        """(len(self),) float64: the physical values of the raw latents -1."""
        return np.array([factor.low for factor in self.items])

    @property
    def high(self) -> npt.NDArray[np.float64]:
        """(len(self),) float64: the physical values of the raw latents 1."""
        return np.array([factor.high for factor in self.items])

    @property
    def groups(self) -> dict[str, list[int]]:
        """The columns of each group, groups in the order in which they first appear."""
        columns: dict[str, list[int]] = {}
        for column, factor in enumerate(self.items):
            columns.setdefault(factor.group, []).append(column)
        return columns

    def column(self, name: str) -> int:
        """Return the column of the factor ``name``; KeyError with the known names if there is none."""
        try:
            return self.names.index(name)
        except ValueError:
            raise KeyError(f"no factor {name!r}; the factors are {', '.join(self.names)}") from None

    def to_json(self) -> list[dict[str, Any]]:
        """Return the factors as plain data, for a manifest."""
        written: list[dict[str, Any]] = to_json(self)
        return written

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> "Factors":
        """Return the factors that :meth:`to_json` wrote; ValueError if the data describe none."""
        return from_json(cls, data, "factors")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _position(axis: str) -> Factor:
    return Factor(f"position_{axis}", "position", -3.0, 3.0, "bu")


def _angle(name: str, group: str) -> Factor:
    return Factor(name, group, -math.pi / 2, math.pi / 2, "rad", period=2 * math.pi)


FACTORS = Factors(
    (
        *map(_position, "xyz"),
        *(_angle(f"rotation_{axis}", "rotation") for axis in "xyz"),
        _angle("spotlight_angle", "spotlight"),
        _angle("object_hue", "hue"),
        _angle("spotlight_hue", "hue"),
        _angle("ground_hue", "hue"),
    )
)
"""The ten factors of 3DIdent, in the column order of every latents array."""


def plain_factors(width: int) -> Factors:
    """Return ``width`` nameless factors on lines, z0, z1, ..., in one group, for latents that are not 3DIdent's."""
    return Factors(tuple(Factor(f"z{column}", "latents", -1.0, 1.0, "1") for column in range(width)))


def held_factors(texts: Sequence[str]) -> dict[str, float]:
    """Return the values at which factors are held, by name, from the command line.

    Args:
        texts: each of the form NAME=VALUE, for example "position_z=0".

    Raises:
        ValueError: if one is of another form, or a factor is held twice.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"{text!r} holds no factor: expected NAME=VALUE, for example position_z=0") from None
        if name in found:
            raise ValueError(f"the factor {name} is held twice")
        found[name] = number
    return found


def resolve_factors(factors: Factors | None, width: int) -> Factors:
    """Return the factors of latents of that width.

    Args:
        factors: the factors; where None, 3DIdent's for ten columns and :func:`plain_factors` for any other number.
        width: number of columns of the latents.

    Raises:
        ValueError: if there are not as many factors as columns.
    """
    if factors is None:
        return FACTORS if width == len(FACTORS) else plain_factors(width)
    if len(factors) != width:
        raise ValueError(f"expected latents with {len(factors)} columns ({', '.join(factors.names)}), got {width}")
    return factors
