"""The report of a run: one HTML page with its curves and what the encoder does to the latents."""

from __future__ import annotations

import base64
import html
import io
import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from baselines.training import figures
from baselines.training.anisotropy import content_and_style, true_precision
from baselines.training.checkpoint import load_state
from baselines.training.data import DatasetPart, matching_index, pair_conditional, split_validation
from baselines.training.evaluation import embed, evaluation_mode
from baselines.training.logbook import read_metrics
from baselines.training.objective import build_loss
from baselines.training.run import Run
from ident3d import ThreeDIdent, realised_conditional
from ident3d.errors import MissingDependencyError
from ident3d.storage.atomic import write_text

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

    from baselines.losses import AnInfoNCE
    from baselines.recipes import Recipe
    from ident3d.conditionals.conditional import Conditional

__all__ = ["check_can_draw", "write_report"]

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
    part, held_out = split_validation(data, options["validation"], options["seed"])
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
        _shown("Loss and R2", figures.curves(metrics, in_nats=recipe.loss != "supervised")),
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
        others = _other_precisions(recipe, conditional, part)
        parts.append(_shown("Learned Lambda, and the conditional's", figures.precisions(diagonal, others)))
    parts.append(f"<h2>Options</h2><pre>{html.escape(json.dumps(record, indent=1))}</pre>")
    page = run.folder / "report.html"
    title = f"<title>{html.escape(recipe.name)}</title>"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8">{title}<style>{_STYLE}</style>'
    write_text(page, head + "\n".join(parts) + "</html>\n")
    return page


def _other_precisions(
    recipe: Recipe, conditional: Conditional | None, part: DatasetPart
) -> dict[str, npt.NDArray[np.float64]]:
    """Return what the learned diagonal of Lambda is held against: the conditional's, and that of pairs as matched."""
    truth = true_precision(conditional, len(part.factors))
    if conditional is None or truth is None:
        return {}
    if recipe.pairs != "matched":
        return {"conditional": truth}
    index = matching_index(conditional, part, in_own_metric=recipe.match_in_own_metric)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that matching widens the conditional is what the figure shows
        found = realised_conditional(part.latents, conditional, index=index, factors=part.factors)
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
