"""Scores: what an evaluation found, by factor, by group and in the mean, as numbers, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ident3d.factors import Factor

if TYPE_CHECKING:
    from ident3d.metrics.dci import Disentanglement
    from ident3d.metrics.dimension import Dimension

__all__ = ["FactorScores", "Metric", "Scores"]

_LABELS = {"r2": "R2", "mcc_pearson": "MCC", "mcc_spearman": "MCC ranks", "nonlinear_r2": "R2 nonlin"}


@dataclass(frozen=True)
class FactorScores:
    """One number a factor, and their means. ``float(...)`` is the mean.

    Attributes:
        mean: the mean over factors.
        per_group: the mean over the factors of each group.
        per_factor: the number of each factor.
    """

    mean: float
    per_group: dict[str, float]
    per_factor: dict[str, float]

    @classmethod
    def of(cls, factors: Sequence[Factor], values: npt.NDArray[np.float64]) -> FactorScores:
        """Return the scores from the (F,) numbers of the factors."""
        return cls.reduced(factors, values[None], lambda draws: np.asarray(draws[0]))

    @classmethod
    def reduced(
        cls, factors: Sequence[Factor], draws: npt.NDArray[np.float64], reduce: Callable[[npt.NDArray[np.float64]], Any]
    ) -> FactorScores:
        """Reduce many draws of the factors' numbers to one of each.

        Args:
            factors: the F factors.
            draws: (D, F) numbers.
            reduce: a function of (D,) or (D, F) draws that reduces the first axis, such as a quantile.

        Returns:
            The reduction of each factor's draws, and of the draws of each mean.
        """
        groups = dict.fromkeys(factor.group for factor in factors)
        members = {group: [i for i, factor in enumerate(factors) if factor.group == group] for group in groups}
        return cls(
            mean=float(reduce(draws.mean(axis=1))),
            per_group={group: float(reduce(draws[:, own].mean(axis=1))) for group, own in members.items()},
            per_factor={
                factor.name: float(value) for factor, value in zip(factors, np.atleast_1d(reduce(draws)), strict=True)
            },
        )

    def __float__(self) -> float:
        return self.mean

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain data."""
        return {"mean": self.mean, "per_group": dict(self.per_group), "per_factor": dict(self.per_factor)}


@dataclass(frozen=True)
class Metric:
    """One metric, with what is needed to judge it.

    Attributes:
        value: the scores.
        low: lower ends of the 95% intervals.
        high: upper ends of the 95% intervals.
        chance: the same metric for latents whose rows were permuted, mean over permutations.
        ceiling: the scores of a supervised encoder; None where none was given.
    """

    value: FactorScores
    low: FactorScores
    high: FactorScores
    chance: FactorScores
    ceiling: FactorScores | None = None

    def __float__(self) -> float:
        return self.value.mean

    def to_json(self) -> dict[str, Any]:
        """Return the metric as plain data; the ceiling is left out where there is none."""
        parts = {"value": self.value, "low": self.low, "high": self.high, "chance": self.chance}
        if self.ceiling is not None:
            parts["ceiling"] = self.ceiling
        return {name: part.to_json() for name, part in parts.items()}


@dataclass(frozen=True)
class Scores:
    """Everything that one evaluation found.

    Attributes:
        protocol: name of the protocol, which carries its version.
        rows: number of rows that were used.
        width: number of embedding dimensions.
        metrics: the metrics by name: "r2", "mcc_pearson", "mcc_spearman", and "nonlinear_r2" where asked for.
        dimension: how many dimensions the embeddings use.
        disentanglement: DCI, where asked for.
        constant_factors: factors that do not vary over the rows, and are in no score.
        warnings: what is wrong with the embeddings without making them unusable.
        fingerprint: fingerprint of the dataset; None where none was given.
        version: version of ident3d.
    """

    protocol: str
    rows: int
    width: int
    metrics: Mapping[str, Metric]
    dimension: Dimension
    disentanglement: Disentanglement | None
    constant_factors: tuple[str, ...]
    warnings: tuple[str, ...]
    fingerprint: str | None
    version: str

    @property
    def r2(self) -> float:
        """R2 up to affine maps, mean over factors."""
        return self.metrics["r2"].value.mean

    @property
    def mcc(self) -> float:
        """Mean correlation coefficient (Pearson)."""
        return self.metrics["mcc_pearson"].value.mean

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain data that strict JSON can hold: no NaN, no infinity."""
        data: dict[str, Any] = {
            "protocol": self.protocol,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "width": self.width,
            "metrics": {name: metric.to_json() for name, metric in self.metrics.items()},
            "dimension": self.dimension.to_json(),
            "constant_factors": list(self.constant_factors),
            "warnings": list(self.warnings),
        }
        if self.disentanglement is not None:
            data["disentanglement"] = self.disentanglement.to_json()
        return data

    def table(self) -> str:
        """Return the scores as a table of plain text: factors, groups and the mean by metric."""
        metrics = list(self.metrics.items())
        header = ["", *(_LABELS.get(name, name) for name, _ in metrics)]
        first = metrics[0][1].value
        lines = [header]
        lines += [[name, *(f"{m.value.per_factor[name]:.4f}" for _, m in metrics)] for name in first.per_factor]
        lines += [[f"[{name}]", *(f"{m.value.per_group[name]:.4f}" for _, m in metrics)] for name in first.per_group]
        lines.append(["mean", *(f"{m.value.mean:.4f}" for _, m in metrics)])
        lines.append(["95% from", *(f"{m.low.mean:.4f}" for _, m in metrics)])
        lines.append(["95% to", *(f"{m.high.mean:.4f}" for _, m in metrics)])
        lines.append(["chance", *(f"{m.chance.mean:.4f}" for _, m in metrics)])
        if all(m.ceiling for _, m in metrics):
            lines.append(["ceiling", *(f"{m.ceiling.mean:.4f}" if m.ceiling else "" for _, m in metrics)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(
                [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
            )
            for line in lines
        ]
        text.append(f"{self.rows} rows, {self.width} dimensions, protocol {self.protocol}; {self.dimension}")
        if self.disentanglement is not None:
            text.append(str(self.disentanglement))
        text += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(text)
