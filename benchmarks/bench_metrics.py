"""CPU seconds of ``ident3d.metrics`` beside the published way.

Run as ``make bench-metrics``. The published way of R2 is a least-squares fit, and of MCC ``np.corrcoef`` and a linear
assignment, on float64 arrays that need neither checks nor joining by id. For ``score`` it refits and correlates again
for every draw: it is timed on a few, and its total is what as many as the protocol's would take. CPU time is that of
all threads, so a busy machine changes it little.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.linalg import lstsq
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from ident3d import metrics, sample_latents

ROWS = 25_000
SAMPLED = 3  # draws of the obvious way that are timed
Array = npt.NDArray[np.float64]


def embeddings(latents: npt.NDArray[np.float32], width: int) -> npt.NDArray[np.float32]:
    """Return a noisy, mildly nonlinear map of the latents to ``width`` dimensions."""
    rng = np.random.default_rng(0)
    mixed = np.tanh(latents @ rng.normal(size=(latents.shape[1], width)))
    return np.asarray(mixed + 0.1 * rng.normal(size=mixed.shape), dtype=np.float32)


def plain_r2(z: Array, x: Array, fitted: npt.NDArray[np.bool_]) -> float:
    """Return R2 of a least-squares fit with an intercept, on centred columns as scikit-learn fits it."""
    inputs, outputs = x[fitted], z[fitted]
    centre, offset = inputs.mean(axis=0), outputs.mean(axis=0)
    weight = lstsq(inputs - centre, outputs - offset)[0]
    truth = z[~fitted]
    error = truth - ((x[~fitted] - centre) @ weight + offset)
    return float((1 - (error**2).sum(axis=0) / ((truth - truth.mean(axis=0)) ** 2).sum(axis=0)).mean())


def plain_mcc(z: Array, x: Array) -> float:
    """Return the mean absolute correlation under the best assignment."""
    table = np.abs(np.corrcoef(z.T, x.T)[: z.shape[1], z.shape[1] :])
    return float(table[linear_sum_assignment(table, maximize=True)].mean())


def obvious_draw(z: Array, x: Array, fitted: npt.NDArray[np.bool_], rng: np.random.Generator) -> None:
    """Compute R2 and both MCCs once more, on rows drawn with replacement."""
    rows = rng.integers(0, len(z), len(z))
    z, x, fitted = z[rows], x[rows], fitted[rows]
    plain_r2(z, x, fitted)
    plain_mcc(z, x)
    plain_mcc(rankdata(z, axis=0), rankdata(x, axis=0))


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest CPU time of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Print the table."""
    protocol = metrics.PROTOCOLS[metrics.DEFAULT_PROTOCOL]
    refits = 1 + protocol.draws + protocol.permutations
    latents = sample_latents(ROWS, split="test")
    print(f"{ROWS} rows; score: R2, MCC, rank MCC, {protocol.draws} draws, {protocol.permutations} permutations")
    print(f"{'width':>6} {'what':>6} {'ours, CPU s':>12} {'published, CPU s':>17} {'ratio':>7}")
    fitted, rng = protocol.fitted(np.arange(ROWS)), np.random.default_rng(1)
    z = latents.astype(np.float64)
    for width in (10, 512):
        embedded = embeddings(latents, width)
        x = embedded.astype(np.float64)
        draw = seconds(partial(obvious_draw, z, x, fitted, rng), SAMPLED)
        times = {
            "R2": (seconds(partial(metrics.affine_r2, latents, embedded)), seconds(partial(plain_r2, z, x, fitted))),
            "MCC": (seconds(partial(metrics.mcc, latents, embedded)), seconds(partial(plain_mcc, z, x))),
            "score": (seconds(partial(metrics.score, latents, embedded)), draw * refits),
        }
        for what, (ours, theirs) in times.items():
            print(f"{width:>6} {what:>6} {ours:>12.4f} {theirs:>17.4f} {theirs / ours:>7.2f}")


if __name__ == "__main__":
    main()
