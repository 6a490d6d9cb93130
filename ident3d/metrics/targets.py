"""Targets: the columns that a factor is scored by. A factor on a line is one column, one on a circle is two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ident3d.factors import Factor, Factors

__all__ = ["Targets"]

_CONSTANT = 1e-12


@dataclass(frozen=True)
class Targets:
    """The target columns of the factors that vary.

    A circular factor with phase t has the columns (cos t, sin t): values on both sides of the wrap are neighbours, so
    a wrap costs nothing.

    Attributes:
        factors: the factors that are scored.
        constant: names of the factors that do not vary, which nothing can be said about.
        columns: (N, C) float64 target columns.
        owner: (C,) the position in ``factors`` of each column's factor.
    """

    factors: tuple[Factor, ...]
    constant: tuple[str, ...]
    columns: npt.NDArray[np.float64]
    owner: npt.NDArray[np.int64]

    @classmethod
    def of(cls, latents: npt.NDArray[np.float64], factors: Factors) -> Targets:
        """Return the targets of raw latents.

        Args:
            latents: (N, len(factors)) finite raw latents.
            factors: the factors, one a column.

        Raises:
            ValueError: if no factor varies, or a circular factor leaves [-1, 1].
        """
        spread = np.ptp(latents, axis=0)
        varies = spread > _CONSTANT * np.maximum(1, np.abs(latents).max(axis=0))
        if not varies.any():
            raise ValueError(
                f"none of the {len(factors)} latents varies over the {len(latents)} rows: nothing to score"
            )
        kept = tuple(factor for factor, keep in zip(factors, varies, strict=True) if keep)
        constant = tuple(factor.name for factor, keep in zip(factors, varies, strict=True) if not keep)
        columns: list[npt.NDArray[np.float64]] = []
        owner: list[int] = []
        for position, (factor, values) in enumerate(zip(kept, latents[:, varies].T, strict=True)):
            if factor.is_circular:
                if np.abs(values).max() > 1 + 1e-6:
                    raise ValueError(
                        f"{factor.name} lies on a circle, so its raw latents lie in [-1, 1]; "
                        f"got values from {values.min()} to {values.max()}"
                    )
                columns += [np.cos(np.pi * values), np.sin(np.pi * values)]
                owner += [position, position]
            else:
                columns.append(values)
                owner.append(position)
        return cls(kept, constant, np.stack(columns, axis=1), np.array(owner))

    def pooled(self, by_column: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum values of the columns into values of their factors: (..., C) to (..., F)."""
        belongs = (self.owner[:, None] == np.arange(len(self.factors))).astype(np.float64)
        return np.asarray(by_column @ belongs)
