"""Draws of every conditional in processor time, against the published way of drawing them, in one process.

The published ways are written anew here from their descriptions, in the quickest form that they have: noise of
``torch.distributions`` in float32 that is added to the anchors, redrawn where it leaves the box, and projected onto the
sphere; Wood's rejection for von Mises-Fisher, in NumPy and in float64; and for the anisotropic normal conditional on a
sphere normal vectors of which those are kept whose length is within a tenth of 1. That last one is not exact, all of
ours are. Ours check what they are given and compute in float64. Both take turns; medians over rounds count.

What bounds ours is the stream of a seed, which never changes, since stored runs are drawn from it: one uniform number
in float64 for each number that is drawn, turned into it by an inverse distribution function. The last line says what
the uniform numbers and the inversion for a normal distribution take alone. That is more than all of the published way
takes with its float32 normals, so that no implementation of this stream reaches 1 without walls. With walls ours draws
once where the published way redraws.

Run as ``make bench-samplers``, or ``python -m benchmarks.bench_samplers``, whose options are the number of draws, their
dimension, rounds and threads.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import tyro
from torch import Tensor
from torch.distributions import Gamma
from torch.nn import functional as F

from ident3d.conditionals import AnisotropicNormal, Conditional, GeneralizedNormal, Laplace, Normal, VonMisesFisher
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Space, Sphere, Unbounded

Sampler = Callable[[Tensor], Tensor]

_SECONDS_A_TURN = 0.02  # several calls make a turn where one is short: the processor's clock is coarse


@dataclass(frozen=True)
class Options:
    """What to measure."""

    draws: int = 6144
    """Positives in a call."""
    dim: int = 10
    """Number of latents."""
    rounds: int = 31
    """Rounds; in each, both ways take their turn."""
    threads: int = 1
    """Threads on the CPU."""


def _normal(sigma: float) -> Sampler:
    return lambda z: torch.randn_like(z) * sigma


def _laplace(scale: float) -> Sampler:
    law = torch.distributions.Laplace(0.0, scale)
    return lambda z: law.sample(z.shape)


def _generalized_normal(p: float, scale: float) -> Sampler:
    size = Gamma(1 / p, 1.0)
    return lambda z: size.sample(z.shape).pow(1 / p) * scale * (2 * torch.randint(0, 2, z.shape) - 1)


def _on(space: Space, noise: Sampler) -> Sampler:
    """Return the published way to draw positives on a space with noise around the anchors."""

    def plain(z: Tensor) -> Tensor:
        return z + noise(z)

    def truncated(z: Tensor) -> Tensor:
        drawn = z + noise(z)
        while bool((outside := (drawn < 0) | (drawn > 1)).any()):
            drawn[outside] = z[outside] + noise(z[outside])
        return drawn

    def projected(z: Tensor) -> Tensor:
        return F.normalize(z + noise(z), dim=-1)

    return {Box: truncated, Sphere: projected, Unbounded: plain}[type(space)]


def _von_mises_fisher(kappa: float) -> Sampler:
    random = np.random.RandomState(0)

    def cosines(count: int, n: int) -> npt.NDArray[np.float64]:
        b = (n - 1) / (2 * kappa + math.sqrt(4 * kappa**2 + (n - 1) ** 2))
        x = (1 - b) / (1 + b)
        c = kappa * x + (n - 1) * math.log(1 - x**2)
        found = np.empty(0)
        while len(found) < count:
            beta = random.beta((n - 1) / 2, (n - 1) / 2, count - len(found))
            w = (1 - (1 + b) * beta) / (1 - (1 - b) * beta)
            kept = kappa * w + (n - 1) * np.log(1 - x * w) - c >= np.log(random.random_sample(len(beta)))
            found = np.concatenate([found, w[kept]])
        return found

    def sample(z: Tensor) -> Tensor:
        centre = z.numpy().astype(np.float64)
        w = cosines(*z.shape)[:, None]
        noise = random.standard_normal(centre.shape)
        tangent = noise - (noise * centre).sum(-1, keepdims=True) * centre
        tangent /= np.linalg.norm(tangent, axis=-1, keepdims=True)
        return torch.from_numpy((w * centre + np.sqrt(1 - w * w) * tangent).astype(np.float32))

    return sample


def _kept_near_the_sphere(precision: tuple[float, ...]) -> Sampler:
    sigma = (2 * torch.tensor(precision)).rsqrt()

    def sample(z: Tensor) -> Tensor:
        drawn = torch.empty_like(z)
        waiting = torch.arange(len(z))
        while len(waiting):
            x = z[waiting] + torch.randn(len(waiting), z.shape[-1]) * sigma
            length = x.norm(dim=-1)
            kept = (length - 1).abs() < 0.1
            drawn[waiting[kept]] = x[kept] / length[kept, None]
            waiting = waiting[~kept]
        return drawn

    return sample


def _cases(dim: int) -> dict[str, tuple[Conditional, Space, Sampler]]:
    """Return, by their names, the conditional, its space and the published way to draw from it."""
    spaces = {"unbounded": Unbounded(dim), "box": Box(dim, 0.0, 1.0), "sphere": Sphere(dim)}
    noises: dict[str, tuple[Conditional, Sampler]] = {
        "normal": (Normal(0.05), _normal(0.05)),
        "Laplace": (Laplace(0.05), _laplace(0.05)),
        "generalised normal, p = 3": (GeneralizedNormal(3.0, 0.05), _generalized_normal(3.0, 0.05)),
    }
    cases = {
        f"{place}, {name}": (law, space, _on(space, noise))
        for place, space in spaces.items()
        for name, (law, noise) in noises.items()
    }
    for kappa in (1.0, 10.0, 100.0):
        cases[f"sphere, von Mises-Fisher, kappa {kappa:g}"] = (
            VonMisesFisher(kappa),
            spaces["sphere"],
            _von_mises_fisher(kappa),
        )
    halves = (12.5,) * (dim - dim // 2) + (2.5,) * (dim // 2)
    name = "sphere, anisotropic normal, 12.5 and 2.5"
    cases[name] = AnisotropicNormal(halves), spaces["sphere"], _kept_near_the_sphere(halves)
    return cases


def _anchors(space: Space, draws: int) -> Tensor:
    generator = torch_generator(0, "bench/anchors")
    if isinstance(space, Unbounded):
        return torch.randn(draws, space.dim, generator=generator)
    return space.uniform(draws, generator).float()


def _milliseconds(call: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        call()
    return 1000 * (time.process_time() - start) / times


def _compare(name: str, law: Conditional, space: Space, published: Sampler, options: Options) -> None:
    z, generator = _anchors(space, options.draws), torch_generator(0, "bench/draws")
    ways: dict[str, Callable[[], Tensor]] = {
        "published": lambda: published(z),
        "ours": lambda: law.sample(z, space, generator),
    }
    times = {way: max(1, round(1000 * _SECONDS_A_TURN / _milliseconds(call, 2))) for way, call in ways.items()}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, call in ways.items():
            taken[way].append(_milliseconds(call, times[way]))
    theirs, ours = (statistics.median(taken[way]) for way in ("published", "ours"))
    print(f"{name:42} published {theirs:7.3f} ms, ours {ours:7.3f} ms: {theirs / ours:5.2f} times", flush=True)


def main(options: Options) -> None:
    """Compare both ways for every conditional."""
    torch.set_num_threads(options.threads)
    print(f"{options.draws} draws of {options.dim} latents, {options.threads} threads, processor time")
    for name, (law, space, published) in _cases(options.dim).items():
        _compare(name, law, space, published, options)
    _bound(options)


def _bound(options: Options) -> None:
    generator, numbers = (
        torch_generator(0, "bench/draws"),
        torch.empty(options.draws * options.dim, dtype=torch.float64),
    )
    ways: dict[str, Callable[[], Tensor]] = {
        "published, normal in float32": lambda: torch.randn(options.draws, options.dim),
        "ours, uniform in float64": lambda: numbers.uniform_(-1, 1, generator=generator),
        "and its inversion": lambda: torch.erfinv(numbers),
    }
    taken = {
        way: statistics.median(_milliseconds(call, 5) for _ in range(options.rounds)) for way, call in ways.items()
    }
    print("bound: " + ", ".join(f"{way} {milliseconds:.3f} ms" for way, milliseconds in taken.items()))


if __name__ == "__main__":
    main(tyro.cli(Options))
    sys.exit(0)
