"""The report of a run: one HTML page with curves, scores, pairs, and embeddings plotted against latents."""

from __future__ import annotations

import html
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from baselines.pairs import DatasetPart, PairSource, RunImages, find_source, matching_index
from baselines.training.checkpoint import load_state
from baselines.training.conditional import content_and_style, pair_conditional, true_precision
from baselines.training.objective import build_loss
from baselines.training.progress import read_metrics
from baselines.training.run import Run
from ident3d.display import as_images, contact_sheet, embedded
from ident3d.embedding import embed
from ident3d.errors import MissingDependencyError
from ident3d.files import write_text
from ident3d.metrics import DegenerateEmbeddingWarning, score
from ident3d.pairs import realised_conditional
from ident3d.progress import duration

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

    from baselines.recipes import Recipe
    from ident3d.conditionals import Conditional

__all__ = ["check_can_draw", "curves", "precisions", "scatter", "write_report"]

_MOST_POINTS = 1000
_SUFFIXES = {"": "all factors", "/content": "content", "/style": "style"}
_PAIRS_SHOWN = 8
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
img { display: block; max-width: 100%; height: auto; background: #fff; }
.tables { display: flex; flex-wrap: wrap; gap: 1.5rem 3rem; }
table { border-collapse: collapse; font-size: .92rem; }
td, th { padding: .2rem .7rem .2rem 0; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td:first-child, th:first-child { text-align: left; }
tr.mean td { border-bottom: 1px solid #8886; font-weight: 600; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .25rem; }
.pairs img { width: 100%; image-rendering: auto; }
pre { white-space: pre-wrap; font-size: .85rem; }
"""


def check_can_draw() -> None:
    """Raise MissingDependencyError if matplotlib is not installed, before a training."""
    if find_spec("matplotlib") is None:
        raise MissingDependencyError("matplotlib", "draw a report", "train")


def write_report(run: Run, root: str | Path | None, device: torch.device) -> Path:
    """Write ``report.html`` into a run's folder: counts, curves, scores, pairs, latents against embeddings, Lambda.

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
    source = find_source(recipe.pairs)
    groups = content_and_style(conditional, len(factors))
    parts = [
        f"<h1>{html.escape(recipe.name)}</h1>",
        f"<p>{html.escape(summary)}</p>",
        f"<p>{html.escape(_counts(recipe, checkpoint.step, images, metrics, source.views))}</p>",
        *([f"<p>{html.escape(record['pairs'])}</p>"] if record.get("pairs") else []),  # runs of earlier days have none
        _shown("Loss, R2 and MCC", curves(metrics, loss.label)),
        _scores(held_out, embeddings, groups, checkpoint.step),
        _pairs(source, images, conditional, options.seed),
        _panels("Latents against embeddings, validation part", scatter(held_out, embeddings)),
    ]
    if loss.precision is not None:
        others = _other_precisions(conditional, images, is_matched=source.is_matched)
        parts.append(_shown("Learned Lambda, and the conditional's", precisions(loss.precision.tolist(), others)))
    parts.append(f"<h2>Options</h2><pre>{html.escape(json.dumps(record, indent=1))}</pre>")
    page = run.report_path
    title = f"<title>{html.escape(recipe.name)}</title>"
    phone = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<!doctype html><html lang="en"><meta charset="utf-8">{phone}{title}<style>{_STYLE}</style>'
    write_text(page, head + "\n".join(parts) + "</html>\n")
    return page


def curves(metrics: list[dict[str, Any]], label: str = "loss in nats") -> Figure:
    """Plot loss, R2 and MCC against steps, one below the other, with those of content and style if a run has them.

    Args:
        metrics: lines of metrics.
        label: label of the loss's axis, with the unit.
    """
    from matplotlib.ticker import MaxNLocator

    figure = _new_figure(6.5, 7.5)
    loss, *scores = (figure.add_subplot(3, 1, row) for row in (1, 2, 3))
    loss.plot(*_points(metrics, "loss"))
    loss.set_ylabel(label)
    for axes, metric in zip(scores, ("r2", "mcc"), strict=True):
        apart = {f"{metric}{suffix}": text for suffix, text in _SUFFIXES.items()}
        apart = {name: text for name, text in apart.items() if any(name in line for line in metrics)}
        for name, text in apart.items():
            axes.plot(*_points(metrics, name), marker=".", label=text)
        axes.set_ylabel(f"{metric.upper()} on the validation part")
        if len(apart) > 1:
            axes.legend()
    for axes in (loss, *scores):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    scores[-1].set_xlabel("step")
    return figure


def scatter(part: DatasetPart, embeddings: npt.NDArray[np.float32]) -> dict[str, Figure]:
    """Plot each factor against the embedding dimension that correlates with it most.

    Args:
        part: the images that were embedded.
        embeddings: (N, d) their embeddings.

    Returns:
        A small plot for each factor, by what it shows.
    """
    latents = part.latents.numpy()
    strengths = _correlations(latents, embeddings)
    panels = {}
    for k, name in enumerate(part.factors.names):
        best = int(strengths[k].argmax())
        figure = _new_figure(2.2, 2.2)
        axes = figure.add_subplot()
        axes.scatter(latents[:_MOST_POINTS, k], embeddings[:_MOST_POINTS, best], s=2, rasterized=True)
        axes.set_title(f"{name}\ndimension {best}, |r| {strengths[k, best]:.2f}", fontsize=7)
        axes.set_xlabel("latent", fontsize=6)
        axes.set_ylabel("embedding", fontsize=6)
        axes.tick_params(labelsize=6)
        panels[f"{name} against dimension {best}"] = figure
    return panels


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
    text = html.escape(caption)
    return f"<h2>{text}</h2>{_image(caption, figure)}"


def _panels(caption: str, figures: Mapping[str, Figure]) -> str:
    shown = "".join(_image(text, figure) for text, figure in figures.items())
    return f'<h2>{html.escape(caption)}</h2><div class="panels">{shown}</div>'


def _image(alt: str, figure: Figure) -> str:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110)
    return embedded(image.getvalue(), alt)


def _pairs(source: PairSource, images: RunImages, conditional: Conditional | None, seed: int) -> str:
    """Show the first pairs of the training, anchors above positives; the images alone for losses of one view."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the report says what pairs realise
        batch = source.stream(images, conditional, _PAIRS_SHOWN, seed).batch(0)
    rows = [as_images(view) for view in (batch.x, batch.x_pos)[: source.views]]
    found = [row for row in rows if row is not None]
    if not found:
        return ""
    sheet = io.BytesIO()
    contact_sheet(found).save(sheet, format="png")
    what = "Pairs: anchors above, positives below" if source.views == 2 else "Images"
    return f'<h2>{what}</h2><div class="pairs">{embedded(sheet.getvalue(), what)}</div>'


def _counts(recipe: Recipe, steps: int, images: RunImages, metrics: list[dict[str, Any]], views: int) -> str:
    """Say what was really used: pairs, images, and time."""
    pairs = steps * recipe.batch_size
    shown = f"{pairs:,} pairs, {views * pairs:,} images" if views == 2 else f"{pairs:,} images"
    text = f"Shown: {shown}, in {steps:,} steps of {recipe.batch_size:,}"
    if images.stored is not None:
        held = len(images.stored)
        text += f"; {held:,} images were trained on, each {views * pairs / held:,.1f} times on average"
    text += f"; {len(images.held_out):,} others are evaluated on"
    seconds = sum(line.get("seconds") or 0 for line in metrics)
    if seconds > 0:
        text += f". Training took {duration(seconds)}, {views * pairs / seconds:,.0f} images/s"
    return text + "."


def _scores(
    part: DatasetPart, embeddings: npt.NDArray[np.float32], groups: Mapping[str, Sequence[int]], step: int
) -> str:
    """Return a table of the scores by factor and group, with 95% intervals and the chance level."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateEmbeddingWarning)  # the scores are there all the same
        found = score(part.latents, embeddings, part.rows.numpy(), factors=part.factors)
    metrics = [found.metrics[name] for name in ("r2", "mcc_pearson")]

    def cells(value: float, low: float | None = None, high: float | None = None, chance: float | None = None) -> str:
        interval = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
        return f"<td>{value:.3f}</td><td>{interval}</td><td>{'' if chance is None else f'{chance:.3f}'}</td>"

    rows = {"mean": [cells(m.value.mean, m.low.mean, m.high.mean, m.chance.mean) for m in metrics]}
    for name, own in groups.items():
        names = [part.factors.names[k] for k in own]
        rows[name] = [cells(fmean(m.value.per_factor.get(one, 0.0) for one in names)) for m in metrics]
    for kind in ("per_group", "per_factor"):
        for name in getattr(metrics[0].value, kind):
            rows[name] = [
                cells(*(getattr(scores, kind)[name] for scores in (m.value, m.low, m.high, m.chance))) for m in metrics
            ]
    tables = [
        f"<table><tr><th>factor</th><th>{name}</th><th>95% interval</th><th>chance</th></tr>"
        + "".join(
            f"<tr{' class=mean' if row == 'mean' else ''}><td>{html.escape(row)}</td>{both[k]}</tr>"
            for row, both in rows.items()
        )
        + "</table>"
        for k, name in enumerate(("R2", "MCC"))
    ]
    caption = f"Scores on the validation part, step {step:,}"
    faults = "".join(f"<p>{html.escape(text)}</p>" for text in found.warnings)
    return f'<h2>{caption}</h2><div class="tables">{"".join(tables)}</div>{faults}'


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
