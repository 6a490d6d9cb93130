"""The report of a run: one HTML page with curves, scores, and embeddings plotted against latents."""

from __future__ import annotations

import base64
import html
import io
import json
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from baselines.pairs import RunImages, find_source, matching_index
from baselines.training.checkpoint import load_state
from baselines.training.conditional import content_and_style, pair_conditional, true_precision
from baselines.training.objective import build_loss
from baselines.training.progress import read_metrics
from baselines.training.run import Run
from ident3d.embedding import embed
from ident3d.errors import MissingDependencyError
from ident3d.files import write_text
from ident3d.pairs import realised_conditional

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

    from ident3d.conditionals import Conditional

__all__ = ["check_can_draw", "curves", "precisions", "scatter", "write_report"]

_MOST_POINTS = 1000
_R2_LABELS = {"r2": "all factors", "r2/content": "content", "r2/style": "style"}
_STYLE = "body{font-family:sans-serif;max-width:70rem;margin:2rem auto}td,th{padding:.2rem .8rem;text-align:left}"


def check_can_draw() -> None:
    """Raise MissingDependencyError if matplotlib is not installed, before a training."""
    if find_spec("matplotlib") is None:
        raise MissingDependencyError("matplotlib", "draw a report", "train")


def write_report(run: Run, root: str | Path | None, device: torch.device) -> Path:
    """Write ``report.html`` into a run's folder: options, curves, latents against embeddings, Lambda.

    Args:
        run: the run, with a checkpoint.
        root: the dataset that it was trained on, whose validation part is embedded; None for live images.
        device: device to run the encoder on.

    Returns:
        The path of the page, which is self-contained.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
    """
    check_can_draw()
    record = run.record()
    options = run.options()
    recipe = run.recipe()
    images = find_source(recipe.pairs).open(root, options, device, in_own_metric=recipe.match_in_own_metric)
    held_out, factors = images.held_out, images.factors
    encoder, checkpoint = run.encoder(device)
    embeddings = embed(encoder, held_out, device=device)
    metrics = read_metrics(run.folder)
    conditional = pair_conditional(recipe, factors, images.exact_pairs)
    loss = build_loss(recipe, record["dim"])
    load_state(loss, checkpoint.loss, f"the loss in {run.checkpoint_path}")
    summary = (
        f"{recipe.title}. {checkpoint.step} steps, seed {options.seed}, {run.training_images()}, on {record['device']}."
    )
    parts = [
        f"<h1>{html.escape(recipe.name)}</h1>",
        f"<p>{html.escape(summary)}</p>",
        *([f"<p>{html.escape(record['pairs'])}</p>"] if record.get("pairs") else []),  # runs of earlier days have none
        _shown("Loss and R2", curves(metrics, loss.label)),
        _scores(metrics, factors.names, content_and_style(conditional, len(factors))),
        _shown(
            "Latents against embeddings, validation part",
            scatter(held_out.latents.numpy(), embeddings, factors.names),
        ),
    ]
    if loss.precision is not None:
        others = _other_precisions(conditional, images, is_matched=find_source(recipe.pairs).is_matched)
        parts.append(_shown("Learned Lambda, and the conditional's", precisions(loss.precision.tolist(), others)))
    parts.append(f"<h2>Options</h2><pre>{html.escape(json.dumps(record, indent=1))}</pre>")
    page = run.report_path
    title = f"<title>{html.escape(recipe.name)}</title>"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8">{title}<style>{_STYLE}</style>'
    write_text(page, head + "\n".join(parts) + "</html>\n")
    return page


def curves(metrics: list[dict[str, Any]], label: str = "loss in nats") -> Figure:
    """Plot loss and R2 against steps, with the R2 of content and style if a run has them.

    Args:
        metrics: lines of metrics.
        label: label of the loss's axis, with the unit.
    """
    from matplotlib.ticker import MaxNLocator

    figure = _new_figure(10, 3.2)
    loss, r2 = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    loss.plot(*_points(metrics, "loss"))
    loss.set_ylabel(label)
    apart = [name for name in _R2_LABELS if any(name in line for line in metrics)]
    for name in apart:
        r2.plot(*_points(metrics, name), marker=".", label=_R2_LABELS[name])
    r2.set_ylabel("R2 on the validation part")
    if len(apart) > 1:
        r2.legend()
    for axes in (loss, r2):
        axes.set_xlabel("step")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def scatter(latents: npt.NDArray[np.float32], embeddings: npt.NDArray[np.float32], names: tuple[str, ...]) -> Figure:
    """Plot each factor against the embedding dimension that correlates with it most.

    Args:
        latents: (N, k) latents.
        embeddings: (N, d) embeddings of the same images.
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
    """Plot the learned diagonal of Lambda and others, by name; all sorted, because dimensions come in any order."""
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


def _other_precisions(
    conditional: Conditional | None, images: RunImages, *, is_matched: bool
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the diagonals to compare the learned Lambda with: the conditional's, and that of the matched pairs."""
    truth = true_precision(conditional, len(images.factors))
    if conditional is None or truth is None:
        return {}
    stored = images.stored if is_matched else None
    if stored is None:
        return {"conditional": truth}
    index = matching_index(conditional, stored, in_own_metric=images.in_own_metric, space=images.space.space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the figure shows how much matching widens the conditional
        found = realised_conditional(stored.latents, conditional, index=index, factors=stored.factors)
    return {"conditional": truth, "pairs as matched": 1 / (2 * np.square(found.realised_std))}


def _shown(caption: str, figure: Figure) -> str:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110)
    data = base64.b64encode(image.getvalue()).decode()
    text = html.escape(caption)
    return f'<h2>{text}</h2><img alt="{text}" style="max-width:100%" src="data:image/png;base64,{data}">'


def _scores(metrics: list[dict[str, Any]], names: tuple[str, ...], groups: dict[str, list[int]]) -> str:
    evaluations = [line for line in metrics if "r2" in line]
    if not evaluations:
        return "<p>There is no evaluation yet.</p>"
    last = evaluations[-1]
    columns = {"mean": list(range(len(names))), **groups, **{name: [k] for k, name in enumerate(names)}}
    rows = "".join(
        f"<tr><td>{html.escape(label)}</td>"
        + "".join(f"<td>{np.mean([last[f'{score}/{names[k]}'] for k in own]):.3f}</td>" for score in ("r2", "mcc"))
        + "</tr>"
        for label, own in columns.items()
    )
    heads = "<tr><th>factor</th><th>R2</th><th>MCC</th></tr>"
    return f"<h2>Scores on the validation part, step {last['step']}</h2><table>{heads}{rows}</table>"


def _points(metrics: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Return the steps at which a metric was written, and its values."""
    found = [(line["step"], line[name]) for line in metrics if line.get(name) is not None]
    return [step for step, _ in found], [value for _, value in found]


def _new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _correlations(latents: npt.NDArray[np.float32], embeddings: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the (k, d) absolute correlations; 0 for constant columns."""
    a, b = (x.astype(np.float64) - x.mean(0, dtype=np.float64) for x in (latents, embeddings))
    norms = np.linalg.norm(a, axis=0)[:, None] * np.linalg.norm(b, axis=0)
    found: npt.NDArray[np.float64] = np.abs(a.T @ b) / np.where(norms > 0, norms, 1)
    return found
