"""The figures of a run's report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["curves", "precisions", "scatter"]

_MOST_POINTS = 1000


def curves(metrics: list[dict[str, Any]]) -> Figure:
    """Draw loss and R2 against steps."""
    figure = _new_figure(10, 3.2)
    for place, name in enumerate(("loss", "r2"), start=1):
        axes = figure.add_subplot(1, 2, place)
        points = [(line["step"], line[name]) for line in metrics if line.get(name) is not None]
        axes.plot(*zip(*points, strict=True) if points else ((), ()))
        axes.set_xlabel("step")
        axes.set_ylabel("loss in nats" if name == "loss" else "R2 on the validation part")
    return figure


def scatter(latents: npt.NDArray[np.float32], embeddings: npt.NDArray[np.float32], names: tuple[str, ...]) -> Figure:
    """Draw each factor against the embedding dimension that correlates with it most.

    Args:
        latents: (N, k) latents.
        embeddings: (N, d) embeddings of the same pictures.
        names: names of the k factors.
    """
    columns = min(5, len(names))
    rows = -(-len(names) // columns)
    figure = _new_figure(2.2 * columns, 2.2 * rows)
    strengths = _correlations(latents, embeddings)
    for k, name in enumerate(names):
        best = int(strengths[k].argmax())
        axes = figure.add_subplot(rows, columns, k + 1)
        axes.scatter(latents[:_MOST_POINTS, k], embeddings[:_MOST_POINTS, best], s=2, rasterized=True)
        axes.set_title(f"{name}\ndimension {best}, |r| {strengths[k, best]:.2f}", fontsize=7)
        axes.tick_params(labelsize=6)
    return figure


def precisions(learned: list[float], truth: npt.NDArray[np.float64] | None) -> Figure:
    """Draw the learned diagonal of Lambda beside the conditional's, both sorted, for dimensions come in any order."""
    figure = _new_figure(6, 3)
    axes = figure.add_subplot()
    axes.plot(sorted(learned, reverse=True), "o-", label="learned")
    if truth is not None:
        axes.plot(sorted(truth.tolist(), reverse=True), "x--", label="conditional")
    axes.set_yscale("log")
    axes.set_xlabel("dimension, by precision")
    axes.set_ylabel("precision")
    axes.legend()
    return figure


def _new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _correlations(latents: npt.NDArray[np.float32], embeddings: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the (k, d) absolute correlations; 0 where a column does not vary."""
    a, b = (x.astype(np.float64) - x.mean(0, dtype=np.float64) for x in (latents, embeddings))
    norms = np.linalg.norm(a, axis=0)[:, None] * np.linalg.norm(b, axis=0)
    found: npt.NDArray[np.float64] = np.abs(a.T @ b) / np.where(norms > 0, norms, 1)
    return found
