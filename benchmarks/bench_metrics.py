"""Seconds of ``ident3d.metrics.score`` beside the obvious way, which refits and correlates again for every draw.

Run as ``make bench-metrics``. The obvious way is timed on a few bootstrap draws and permutations, and
its total is what as many as the protocol's would take.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
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
    """Return R2 of a least-squares fit with an intercept."""
    design = np.c_[x, np.ones(len(x))]
    weight = np.linalg.lstsq(design[fitted], z[fitted], rcond=None)[0]
    truth, error = z[~fitted], z[~fitted] - design[~fitted] @ weight
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
    """Return the shortest wall time of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the table."""
    protocol = metrics.PROTOCOLS[metrics.DEFAULT_PROTOCOL]
    refits = 1 + protocol.draws + protocol.permutations
    latents = sample_latents(ROWS, split="test")
    print(f"R2, MCC, rank MCC, {protocol.draws} bootstrap draws, {protocol.permutations} permutations, {ROWS} rows")
    print(f"{'width':>6} {'score, s':>9} {'obvious, s':>11} {'ratio':>7}")
    z, fitted, rng = latents.astype(np.float64), protocol.fitted(np.arange(ROWS)), np.random.default_rng(1)
    for width in (10, 512):
        x = embeddings(latents, width)
        ours = seconds(partial(metrics.score, latents, x))
        theirs = seconds(partial(obvious_draw, z, x.astype(np.float64), fitted, rng), SAMPLED) * refits
        print(f"{width:>6} {ours:>9.2f} {theirs:>11.0f} {theirs / ours:>7.0f}")


if __name__ == "__main__":
    main()
