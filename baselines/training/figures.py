"""The figures of a run's report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["curves", "precisions", "scatter"]

_MOST_POINTS = 1000


_SHOWN_APART = {"r2": "all factors", "r2/content": "content", "r2/style": "style"}


def curves(metrics: list[dict[str, Any]], *, in_nats: bool = True) -> Figure:
    """Draw loss and R2 against steps, the R2 of content and style apart where a run has them.

    Args:
        metrics: lines of metrics.
        in_nats: whether the loss is a cross entropy, and not a squared error.
    """
    from matplotlib.ticker import MaxNLocator

    figure = _new_figure(10, 3.2)
    loss, r2 = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    loss.plot(*_points(metrics, "loss"))
    loss.set_ylabel("loss in nats" if in_nats else "mean squared error")
    apart = [name for name in _SHOWN_APART if any(name in line for line in metrics)]
    for name in apart:
        r2.plot(*_points(metrics, name), marker=".", label=_SHOWN_APART[name])
    r2.set_ylabel("R2 on the validation part")
    if len(apart) > 1:
        r2.legend()
    for axes in (loss, r2):
        axes.set_xlabel("step")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
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
    figure.supxlabel("latent", fontsize=8)
    figure.supylabel("embedding", fontsize=8)
    return figure


def precisions(learned: list[float], others: Mapping[str, npt.NDArray[np.float64]]) -> Figure:
    """Draw the learned diagonal of Lambda beside others by name, all sorted, for dimensions come in any order."""
    figure = _new_figure(6, 3)
    axes = figure.add_subplot()
    axes.plot(sorted(learned, reverse=True), "o-", label="learned")
    for name, diagonal in others.items():
        axes.plot(sorted(diagonal.tolist(), reverse=True), "x--", label=name)
    axes.set_yscale("log")
    axes.set_xlabel("dimension, by precision")
    axes.set_ylabel("precision")
    axes.legend()
    return figure


def _points(metrics: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Return the steps at which a number was written down, and the number."""
    found = [(line["step"], line[name]) for line in metrics if line.get(name) is not None]
    return [step for step, _ in found], [value for _, value in found]


def _new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _correlations(latents: npt.NDArray[np.float32], embeddings: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the (k, d) absolute correlations; 0 where a column does not vary."""
    a, b = (x.astype(np.float64) - x.mean(0, dtype=np.float64) for x in (latents, embeddings))
    norms = np.linalg.norm(a, axis=0)[:, None] * np.linalg.norm(b, axis=0)
    found: npt.NDArray[np.float64] = np.abs(a.T @ b) / np.where(norms > 0, norms, 1)
    return found
