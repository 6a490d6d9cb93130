"""The papers' tables in Markdown: what was measured beside what was reported."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from baselines.synthetic.anisotropy import AnisotropicRow
from baselines.synthetic.budgets import PAPER
from baselines.synthetic.concentration import CONDITIONAL_CONCENTRATION, ConcentrationPoint
from baselines.synthetic.evaluation import Snapshot
from baselines.synthetic.outcomes import Outcome
from baselines.synthetic.rows import Row

__all__ = ["aninfonce_markdown", "concentration_markdown", "footer", "table_markdown"]

_NAMES = {"r2": "R2", "mcc": "MCC"}


def table_markdown(rows: Sequence[Row], outcomes: Mapping[int, Outcome]) -> str:
    """Return Table 1 or 2: every measured row, in percent, each score with the paper's after it."""
    metric = rows[0].metric
    head = ["Row", "Space, p(z), p(z_pos, given z)", "Model space, q_h", "M."]
    head += [f"{kind} {_NAMES[metric]} (paper)" for kind in ("Identity", "Supervised", "Unsupervised")]
    body = []
    for row in rows:
        if row.number not in outcomes:
            continue
        outcome = outcomes[row.number]
        kinds = [
            (outcome.identity, row.identity),
            (outcome.supervised, row.supervised),
            (outcome.final, row.unsupervised),
        ]
        scores = [
            percent(snapshot, metric) + ("" if reported is None else f" ({reported})") for snapshot, reported in kinds
        ]
        body.append([str(row.number), row.process_label, row.model_label, "✓" if row.matches else "✗", *scores])
    return _table(head, body)


def aninfonce_markdown(rows: Sequence[AnisotropicRow], outcomes: Mapping[int, Outcome]) -> str:
    """Return the scores of content and style apart, and the learned Lambda against the truth."""
    head = ["Row", "Process", "Model", "R2 content", "R2 style", "R2", "MCC", "True Λ", "Learned Λ"]
    body = []
    for row in rows:
        if row.number not in outcomes:
            continue
        final = outcomes[row.number].final
        r2 = np.array(final.r2)
        body.append(
            [
                str(row.number),
                row.process_label,
                row.model_label,
                _mean_and_std(100 * r2[:, : row.content].mean(1)),
                _mean_and_std(100 * r2[:, row.content :].mean(1)),
                percent(final, "r2"),
                percent(final, "mcc"),
                _numbers(row.precision),
                "not learned" if final.precision is None else _numbers(np.sort(final.precision)[:, ::-1].mean(0)),
            ]
        )
    return _table(head, body)


def concentration_markdown(points: Sequence[ConcentrationPoint], outcomes: Mapping[int, Outcome]) -> str:
    """Return the points of Figure 2."""
    head = ["Point", "Space", "Marginal's concentration", "Conditional's", "Mass to move", "R2"]
    body = [
        [
            str(point.number),
            point.panel.capitalize(),
            f"{point.concentration:g}",
            f"{CONDITIONAL_CONCENTRATION[point.panel]:g}",
            f"{100 * float(outcomes[point.number].about['mass_to_move']):.0f}%",
            percent(outcomes[point.number].final, "r2"),
        ]
        for point in points
        if point.number in outcomes
    ]
    return _table(head, body)


def footer(outcomes: Mapping[int, Outcome], budget: Mapping[str, object]) -> str:
    """Return the lines under a table that say how it was made."""
    held = list(outcomes.values())
    commands = dict.fromkeys(str(outcome.provenance["command"]) for outcome in held)
    machines = dict.fromkeys(
        f"{outcome.provenance['processor']}, {outcome.provenance['device']}, "
        f"threads: {outcome.provenance['threads']}, hidden layers in "
        f"{outcome.provenance['hidden_layers']}, torch {outcome.provenance['versions']['torch']}"
        for outcome in held
    )
    loads = [float(outcome.provenance["load"]) for outcome in held if outcome.provenance["load"] is not None]
    seconds = sum(outcome.final.seconds for outcome in held)
    runs = sorted({len(outcome.seeds) for outcome in held})
    steps = sorted({outcome.final.step for outcome in held})
    how = (
        f"{_of_seeds(runs)}. Budget {budget['name']}: {budget['dim']} latents, "
        f"batches of {budget['batch']}, {_span(steps)} steps{_of_all(budget)}. "
        f"Training took {seconds:.0f} s for all rows together"
        + (f", at load averages of {min(loads):g} to {max(loads):g}." if loads else ".")
    )
    lines = [
        how,
        *(f"Machine: {machine}." for machine in machines),
        *(f"Command: `{command}`" for command in commands),
    ]
    return "\n\n".join(lines) + "\n"


def _of_seeds(runs: Sequence[int]) -> str:
    return "One seed" if set(runs) == {1} else f"Mean ± standard deviation over {_span(runs)} seeds"


def _of_all(budget: Mapping[str, object]) -> str:
    """Return of how many steps a training is the beginning, where it is the beginning of the paper's."""
    return f" of the paper's {PAPER.steps:,}" if str(budget["name"]).startswith(f"{PAPER.name}-") else ""


def percent(snapshot: Snapshot | None, metric: str) -> str:
    """Return a score in percent, mean and standard deviation over runs."""
    return "not run" if snapshot is None else _mean_and_std(100 * np.array(snapshot.mean(metric), dtype=np.float64))


def _mean_and_std(values: npt.NDArray[np.float64]) -> str:
    return f"{values.mean():.2f}" + (f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else "")


def _numbers(values: Iterable[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)


def _span(values: Sequence[int]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
