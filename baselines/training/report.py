"""The report of a run: one HTML page with its curves and what the encoder does to the latents."""

from __future__ import annotations

import base64
import html
import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from baselines.training import figures
from baselines.training.checkpoint import load_state
from baselines.training.data import pair_conditional, split_validation
from baselines.training.evaluation import embed, evaluation_mode
from baselines.training.logbook import read_metrics
from baselines.training.objective import build_loss
from baselines.training.run import Run
from ident3d import ThreeDIdent
from ident3d.conditionals import AnisotropicNormal, Normal
from ident3d.errors import MissingDependencyError
from ident3d.storage.atomic import write_text

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

    from baselines.losses import AnInfoNCE
    from ident3d.conditionals.conditional import Conditional

__all__ = ["check_can_draw", "content_and_style", "true_precision", "write_report"]

_STYLE = "body{font-family:sans-serif;max-width:70rem;margin:2rem auto}td,th{padding:.2rem .8rem;text-align:left}"


def check_can_draw() -> None:
    """Raise MissingDependencyError if matplotlib is not installed: before a training, not after it."""
    if find_spec("matplotlib") is None:
        raise MissingDependencyError("matplotlib", "draw a report", "train")


def write_report(run: Run, root: str | Path, device: torch.device) -> Path:
    """Write ``report.html`` into a run's folder: options, curves, latents against embeddings, Lambda.

    Args:
        run: the run, with a checkpoint.
        root: the dataset that it was trained on; its validation part is embedded.
        device: where the encoder runs.

    Returns:
        The page, which needs no other file.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
    """
    check_can_draw()
    record = run.record()
    options = record["options"]
    data = ThreeDIdent(root, split="train")
    _, held_out = split_validation(data, options["validation"], options["seed"])
    encoder, checkpoint = run.encoder(device)
    with evaluation_mode(encoder):
        embeddings = embed(encoder, held_out, device)
    metrics = read_metrics(run.folder)
    recipe = run.recipe()
    conditional = pair_conditional(recipe, data)
    summary = (
        f"{recipe.title}. {checkpoint.step} steps, seed {options['seed']}, {record['dataset']['rows']} pictures, "
        f"on {record['device']}."
    )
    parts = [
        f"<h1>{html.escape(recipe.name)}</h1>",
        f"<p>{html.escape(summary)}</p>",
        _shown("Loss and R2", figures.curves(metrics)),
        _scores(metrics, data.factors.names, content_and_style(conditional, len(data.factors))),
        _shown(
            "Latents against embeddings, validation part",
            figures.scatter(held_out.latents.numpy(), embeddings, data.factors.names),
        ),
    ]
    if recipe.loss == "an_info_nce":
        learned = build_loss(recipe, record["dim"])
        load_state(learned, checkpoint.loss, f"the loss in {run.checkpoint_path}")
        diagonal = cast("AnInfoNCE", learned).precision.tolist()
        truth = true_precision(conditional, len(data.factors))
        parts.append(_shown("Learned Lambda, and the conditional's", figures.precisions(diagonal, truth)))
    parts.append(f"<h2>Options</h2><pre>{html.escape(json.dumps(record, indent=1))}</pre>")
    page = run.folder / "report.html"
    title = f"<title>{html.escape(recipe.name)}</title>"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8">{title}<style>{_STYLE}</style>'
    write_text(page, head + "\n".join(parts) + "</html>\n")
    return page


def true_precision(conditional: Conditional | None, dim: int) -> npt.NDArray[np.float64] | None:
    """Return the (dim,) diagonal of Lambda that a normal conditional stands for; None for others."""
    if isinstance(conditional, Normal):
        return 1 / (2 * np.broadcast_to(np.asarray(conditional.sigma, dtype=np.float64), dim) ** 2)
    if isinstance(conditional, AnisotropicNormal):
        return np.broadcast_to(np.asarray(conditional.precision, dtype=np.float64), dim).copy()
    return None


def content_and_style(conditional: Conditional | None, dim: int) -> dict[str, list[int]]:
    """Return the columns that vary little within a pair ("content") and much ("style").

    Returns:
        Nothing where the conditional has not exactly two widths.
    """
    precision = true_precision(conditional, dim)
    kinds = [] if precision is None else sorted(set(precision.tolist()), reverse=True)
    if precision is None or len(kinds) != 2:
        return {}
    return {name: np.flatnonzero(precision == k).tolist() for name, k in zip(("content", "style"), kinds, strict=True)}


def _shown(caption: str, figure: Figure) -> str:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110)
    data = base64.b64encode(image.getvalue()).decode()
    text = html.escape(caption)
    return f'<h2>{text}</h2><img alt="{text}" style="max-width:100%" src="data:image/png;base64,{data}">'


def _scores(metrics: list[dict[str, Any]], names: tuple[str, ...], groups: dict[str, list[int]]) -> str:
    evaluations = [line for line in metrics if "r2" in line]
    if not evaluations:
        return "<p>There was no evaluation yet.</p>"
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
