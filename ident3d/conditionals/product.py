"""The product of conditionals over groups of factors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float64
from torch import Tensor

from ident3d.conditionals.conditional import CONDITIONALS, Conditional, Coordinate, columns_by_name
from ident3d.factors import FACTORS, Factors
from ident3d.spaces import Box, Space, Unbounded

__all__ = ["Product"]

Columns = tuple[int, ...]


@dataclass(frozen=True, init=False, repr=False)
class Product(Conditional):
    """Independent conditionals, each over its own factors: content narrow and style wide, say.

    Example:
        >>> import ident3d
        >>> by_name = ident3d.Product(
        ...     {"position": ident3d.Normal(0.1), "hue": ident3d.Laplace(0.5), "rest": ident3d.Uniform()}
        ... )
        >>> by_column = ident3d.Product({(0, 1, 2): ident3d.Normal(0.1), (3, 4): ident3d.Uniform()})
        >>> [columns for columns, _ in by_name.parts]
        [(0, 1, 2), (3, 4, 5, 6), (7, 8, 9)]

    Args:
        parts: the conditional of each factor, group or tuple of columns. A factor's name takes precedence over its
            group's, and "rest" means all others. Every column has one conditional. Pairs (key, conditional) work too.
        factors: the factors that names refer to.

    Attributes:
        parts: pairs (columns, conditional), in the order of their first columns.

    Raises:
        TypeError: if a part is not a conditional, or its key neither a name nor columns.
        ValueError: if names or columns are unknown, missing or given twice, or a part does not fit its columns.
    """

    spaces: ClassVar[tuple[type[Space], ...]] = (Box, Unbounded)

    parts: tuple[tuple[Columns, Conditional], ...]

    def __init__(
        self,
        parts: Mapping[str, Conditional] | Mapping[Columns, Conditional] | Iterable[tuple[Sequence[int], Conditional]],
        factors: Factors = FACTORS,
    ) -> None:
        given = parts.items() if isinstance(parts, Mapping) else parts
        pairs = list(given) if isinstance(given, Iterable) else [given]
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise TypeError(f"a product has a conditional for each factor, group or tuple of columns, not {parts!r}")
        for key, part in pairs:
            if not isinstance(part, Conditional):
                raise TypeError(f"the part of {key} must be a conditional, not {part!r}")
        if any(isinstance(key, str) for key, _ in pairs):
            columns = columns_by_name(_names(pairs), factors)
            resolved = [(columns[str(key)], part) for key, part in pairs]
        else:
            resolved = [(_columns(key), part) for key, part in pairs]
        _check_cover(resolved)
        object.__setattr__(self, "parts", tuple(sorted(resolved, key=lambda pair: pair[0])))

    @property
    def dim(self) -> int:
        """The number of factors."""
        return sum(len(columns) for columns, _ in self.parts)

    def check(self, space: Space) -> None:
        """Raise ValueError if this product, or one of its parts, is not defined on ``space``."""
        super().check(space)
        for columns, part in self.parts:
            part.check(replace(space, dim=len(columns)))

    def coordinates(self, space: Space) -> tuple[Coordinate, ...]:
        """Return the law of each factor, in the order of the columns."""
        self.check(space)
        laws = {
            column: law
            for columns, part in self.parts
            for column, law in zip(columns, part.coordinates(replace(space, dim=len(columns))), strict=True)
        }
        return tuple(laws[column] for column in range(space.dim))

    def sample_unchecked(
        self, z: Float64[Tensor, "batch dim"], space: Space, generator: torch.Generator
    ) -> Float64[Tensor, "batch dim"]:
        """Draw each part's factors; see :meth:`Conditional.sample_unchecked`."""
        z_pos = torch.empty_like(z)
        for columns, part in self.parts:
            z_pos[:, columns] = part.sample_unchecked(z[:, columns], replace(space, dim=len(columns)), generator)
        return z_pos

    def log_prob_unchecked(
        self, z_pos: Float64[Tensor, "batch dim"], z: Float64[Tensor, "batch dim"], space: Space
    ) -> Float64[Tensor, " batch"]:
        """Return the sum of the parts' log densities; see :meth:`Conditional.log_prob_unchecked`."""
        log_density = z.new_zeros(len(z))
        for columns, part in self.parts:
            part_space = replace(space, dim=len(columns))
            log_density = log_density + part.log_prob_unchecked(z_pos[:, columns], z[:, columns], part_space)
        return log_density

    def __str__(self) -> str:
        return f"{self.text_name()}({{{', '.join(f'{list(columns)}: {part}' for columns, part in self.parts)}}})"

    def __repr__(self) -> str:
        return f"Product({{{', '.join(f'{columns}: {part!r}' for columns, part in self.parts)}}})"


def _names(pairs: Sequence[tuple[object, Conditional]]) -> list[str]:
    names = [key for key, _ in pairs if isinstance(key, str)]
    if len(names) != len(pairs):
        raise TypeError("the parts of a product are keyed by names or by columns, not by both")
    if len(set(names)) != len(names):
        raise ValueError(f"every name may occur once, not {', '.join(names)}")
    return names


def _columns(key: object) -> Columns:
    if not isinstance(key, Sequence) or any(isinstance(column, bool) or not isinstance(column, int) for column in key):
        raise TypeError(f"a part is keyed by a name or by a tuple of column numbers, not {key!r}")
    return tuple(key)


def _check_cover(pairs: Sequence[tuple[Columns, Conditional]]) -> None:
    """Raise ValueError unless the columns are 0, 1, ... without gap or repeat, and every part fits its columns."""
    used = sorted(column for columns, _ in pairs for column in columns)
    if not used or used != list(range(len(used))) or not all(columns for columns, _ in pairs):
        raise ValueError(
            "the parts of a product must cover the columns 0, 1, ... each once, "
            f"not {', '.join(str(list(columns)) for columns, _ in pairs) or 'none'}"
        )
    for columns, part in pairs:
        if part.dim is not None and part.dim != len(columns):
            raise ValueError(f"{part} is given for {part.dim} factors, and covers the columns {list(columns)}")


CONDITIONALS.register("product", Product)
