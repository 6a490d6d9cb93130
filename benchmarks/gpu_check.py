"""A check of one GPU, in under eight minutes: everything that a GPU does against the CPU, and how fast it trains.

It needs torch, torchvision, numpy, pillow and jaxtyping and a checkout, which is not to be installed: the images are
made here, smooth functions of their latents. Parts that need more are left out, and said to be. The rate of whole
training steps (drawing, matching, gathering, loss, update) stands beside the rate of the same step on one batch that
never changes; their ratio is what the data cost.

Usage: ``python -m benchmarks.gpu_check [--out gpu_check.json] [--minutes 30 [--root DATA]] ...``; exit status 1 where
anything differs or fails. With ``--device cpu --small`` it runs the same checks on a CPU, in minutes.
"""

import argparse
import itertools
import json
import math
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from baselines.losses import an_info_nce, delta_info_nce, info_nce
from baselines.recipes import RECIPES, Recipe
from baselines.training.checkpoint import Checkpoint
from baselines.training.loop import Batch, Trainer
from baselines.training.memory import step_memory
from baselines.training.objective import TrainedModel, build_encoder, build_loss, build_optimiser
from baselines.training.options import Intervals, Precision
from baselines.training.placement import Placement, place
from baselines.training.progress import Schedule
from ident3d import (
    FACTORS,
    AugmentedPairs,
    Box,
    LivePairs,
    Normal,
    PairIndex,
    PositivePairs,
    RenderedPairs,
    live,
    sample_latents,
)
from ident3d.embedding import embed
from ident3d.pairs import PairStream
from ident3d.pairs.stream import ResidentImages
from ident3d.randomness import torch_generator

CPU = torch.device("cpu")
LOSSES: dict[str, Callable[..., Tensor]] = {
    "InfoNCE": info_nce,
    "delta-InfoNCE, p = 1": partial(delta_info_nce, p=1),
    "delta-InfoNCE, p = 2": delta_info_nce,
    "delta-InfoNCE, p = 3": partial(delta_info_nce, p=3),
    "delta-InfoNCE, L2 metric": partial(delta_info_nce, metric=True),
    "AnInfoNCE": partial(an_info_nce, precision=[0.5, 2.0] * 5),
}
TOLERANCE = 1e-4  # relative, float32 against float64
LIVE_NEEDS = {"warp": "warp-lang", "scipy": "scipy"}  # packages, by the modules that live images import
TRAINED = 1e-3  # relative, of embeddings and losses of networks in float32


@dataclass(frozen=True)
class Options:
    """What to check.

    Attributes:
        device: cuda, cuda:N, or cpu to try the script.
        images: images on the device.
        batch_size: pairs in a step.
        loss_batch: pairs that losses are computed of beyond one block.
        large_bytes: size of the images that are gathered from, more than 32 bits can count.
        steps: timed steps at the smallest resolution; half as many come before them, untimed.
        resolutions: pixels a side, multiples of 8, separated by commas.
        small: whether all sizes are those of a try on a CPU.
        out: file of the results as JSON; none where empty.
        minutes: minutes in all; what the checks leave of them is spent on training the first row of Table 4.
        root: folder of the dataset of that training; images made here where empty.
    """

    device: str = "cuda"
    images: int = 20_000
    batch_size: int = 512
    loss_batch: int = 8192
    large_bytes: int = 2**31 + 2**28
    steps: int = 200
    resolutions: str = "64,224"
    small: bool = False
    out: str = ""
    minutes: float = 0.0
    root: str = ""

    def __post_init__(self) -> None:
        if not self.sides or any(side < 8 or side % 8 for side in self.sides):
            raise ValueError(f"images are 8 x 8 squares: a resolution is a multiple of 8, not {self.resolutions}")
        if not 2 <= self.batch_size <= self.images or self.steps < 1:
            raise ValueError(
                f"expected a step or more of 2 pairs to {self.images}, the number of images, not {self.steps} of "
                f"{self.batch_size}"
            )

    @property
    def sides(self) -> tuple[int, ...]:
        """The resolutions."""
        return tuple(int(side) if side.strip().isdecimal() else 0 for side in self.resolutions.split(","))

    @classmethod
    def read(cls, arguments: Sequence[str] | None = None) -> "Options":
        """Read a command line; the standard library does, because other parsers may not be installed."""
        parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__)
        for field in fields(cls):
            option = "--" + field.name.replace("_", "-")
            if isinstance(field.default, bool):
                parser.add_argument(option, action="store_true")
            else:
                parser.add_argument(option, type=type(field.default), default=field.default, help="%(default)s")
        try:
            read = cls(**vars(parser.parse_args(arguments)))
            return replace(read, **_SMALL) if read.small else read
        except ValueError as error:
            parser.error(str(error))


_SMALL: dict[str, Any] = {
    "images": 64,
    "batch_size": 8,
    "loss_batch": 96,
    "large_bytes": 2**20,
    "steps": 2,
    "resolutions": "32",
}


class MadeImages:
    """Images of 8 x 8 squares whose colours are smooth functions of the latents.

    Attributes:
        latents: (N, 10) float32.
        factors: those of 3DIdent, which only name its columns here.
        positives: images of latents near by; None where these are positives.
    """

    def __init__(self, n: int, resolution: int, latents: Tensor | None = None) -> None:
        self.latents = torch.from_numpy(sample_latents(n)) if latents is None else latents
        self.factors = FACTORS
        self._weight = torch.randn(10, 8 * 8 * 3, generator=torch_generator(0, "gpu_check/images"))
        self._side = resolution // 8
        self.positives: MadeImages | None = None
        if latents is None:
            drawn = Normal(0.1).sample(self.latents, Box(10), torch_generator(0, "gpu_check/positives"))
            self.positives = MadeImages(n, resolution, drawn)

    def __len__(self) -> int:
        return len(self.latents)

    def pixels(self, rows: Tensor) -> Tensor:
        """Return the (B, H, W, 3) uint8 images of (B,) rows."""
        colours = (127 * (torch.tanh(self.latents[rows] @ self._weight / 2) + 1)).to(torch.uint8)
        squares = colours.reshape(-1, 8, 8, 3)
        return squares.repeat_interleave(self._side, 1).repeat_interleave(self._side, 2)


class LastMetrics:
    """Takes metrics and keeps the last that tell a loss."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}

    def write(self, step: int, metrics: dict[str, float]) -> None:  # noqa: ARG002 - the protocol's signature
        """Keep the metrics."""
        self.last = metrics if "loss" in metrics else self.last


class LeftOut(Exception):  # noqa: N818 - no error
    """A part cannot be checked here; the message says why."""


Part = Callable[[Options], dict[str, Any]]
"""A part of the check: returns what it found, with "good" where it compares."""


def losses(options: Options) -> dict[str, Any]:
    """Compare losses and gradients in float32 on the device with float64 on the CPU, in one block and beyond."""
    found: dict[str, Any] = {}
    for length in (min(1024, options.loss_batch // 2), options.loss_batch):
        generator = torch_generator(0, "gpu_check/losses")
        z = torch.rand(length, 10, generator=generator) * 2 - 1
        z_pos = z + 0.1 * torch.randn(length, 10, generator=generator)
        for name, loss in LOSSES.items():
            value, slope = _value_and_gradient(loss, z.to(options.device), z_pos.to(options.device))
            exact, exact_slope = _value_and_gradient(loss, z.double(), z_pos.double())
            found[f"{name}, {length} pairs"] = max(_error(value, exact), _error(slope, exact_slope))
    return {"good": max(found.values()) < TOLERANCE, "largest_error": max(found.values()), "errors": found}


def pairs(options: Options) -> dict[str, Any]:
    """Compare batches that are made on the device with those of the CPU."""
    data = MadeImages(options.images, options.sides[0])
    index = PairIndex(data.latents, "torch")
    streams: dict[str, Any] = {
        "matched": PositivePairs(data, Normal(0.1), options.batch_size, index=index),
        "rendered": RenderedPairs(data, options.batch_size),
        "augmented": AugmentedPairs(data, options.batch_size),
    }
    found: dict[str, Any] = {}
    for name, stream in streams.items():
        for own, expected in itertools.islice(zip(stream.on_device(options.device), stream, strict=False), 3):
            same = all(
                torch.equal(getattr(own, field).cpu(), getattr(expected, field))
                for field in ("z", "z_pos", "ids", "ids_pos")
            )
            levels = int((own.x_pos.cpu().int() - expected.x_pos.int()).abs().max())
            found[name] = found.get(name, True) and same and levels <= (2 if name == "augmented" else 0)
    return {"good": all(found.values()), **found}


def large(options: Options) -> dict[str, Any]:
    """Gather images from a tensor whose bytes 32 bits cannot count."""
    side = options.sides[-1]
    n = math.ceil(options.large_bytes / (3 * side * side))
    data = MadeImages(n, side)
    rows = torch.tensor([0, n // 2, n - 2, n - 1])
    images = ResidentImages(data, torch.device(options.device)).pixels(rows)
    return {"good": torch.equal(images.cpu(), data.pixels(rows)), "gigabytes": n * 3 * side * side / 2**30}


def resume(options: Options) -> dict[str, Any]:
    """Interrupt a training and resume it, deterministically: its weights are those of one that was not, bit for bit."""
    data = MadeImages(options.images, options.sides[0])
    ends = {"whole": (6,), "parts": (2, 4, 6)}
    held = {}
    with place(options.device, "float32", deterministic=True) as placement, tempfile.TemporaryDirectory() as folder:
        stream = _matched(data, options, placement)
        for name, stops in ends.items():
            for stop in stops:
                trainer = _trainer(options, placement, options.sides[0], Path(folder) / name)
                trainer.resume()
                trainer.train(iter(stream.from_step(trainer.step)), _only_at_the_end(stop), LastMetrics(), dict)
            held[name] = Checkpoint.read(Path(folder) / name / "checkpoint.pt")
        on_cpu = all(state["step"].device == CPU for state in trainer.optimiser.state.values())
    same = all(torch.equal(held["parts"].encoder[key], value) for key, value in held["whole"].encoder.items())
    return {"good": same and on_cpu, "same_bits": same, "steps_counted_on_cpu": on_cpu}


def embeddings(options: Options) -> dict[str, Any]:
    """Embed images on the device and on the CPU, and score both where scipy is installed."""
    data = MadeImages(min(options.images, 256), options.sides[0])
    with place(options.device, "float32") as placement:
        encoder = build_encoder(RECIPES["infonce-box"], 10, options.sides[0], seed=0)
        expected = torch.from_numpy(embed(encoder, data, device=CPU, batch_size=64))
        found = torch.from_numpy(embed(encoder.to(placement.device), data, device=placement.device, batch_size=64))
    error = _error(found, expected)
    known: dict[str, Any] = {"good": error < TRAINED, "error": error}
    try:
        from ident3d.metrics import affine_r2
    except ImportError:
        return {**known, "r2": "left out: scipy is not installed"}
    scores = [float(affine_r2(data.latents, embedded)) for embedded in (found, expected)]
    return {**known, "good": known["good"] and abs(scores[0] - scores[1]) < 1e-3, "r2": scores[0]}


def pinned(options: Options) -> dict[str, Any]:
    """Train on images that are decoded on the CPU and sent from page-locked memory."""
    data = MadeImages(options.images, options.sides[0])
    with place(options.device) as placement:
        index = PairIndex(data.latents, "torch", device=placement.device)
        stream = PositivePairs(data, Normal(0.1), options.batch_size, index=index)
        found = rate(options, placement, options.sides[0], stream.loader())
    return {"good": math.isfinite(found["loss"]), **found}


def graph(options: Options) -> dict[str, Any]:
    """Train encoders of a study without images, on a GPU as one CUDA graph, against the CPU."""
    try:
        from baselines.synthetic.studies.tables import table1
        from baselines.synthetic.training import QUICK, PairPools, Runs
    except ImportError as error:
        raise LeftOut(f"needs {error.name}") from error
    budget = replace(QUICK, dim=4, batch=64, steps=20, hidden_precision="float32")
    experiment = table1(4)[0].experiment
    pools = PairPools(experiment, (0, 1), budget.batch, 20, CPU)
    device = torch.device(options.device)
    with place(options.device, "float32"):
        runs, expected = Runs(experiment, (0, 1), budget, device), Runs(experiment, (0, 1), budget, CPU)
        for step in range(8):
            runs.step(pools.batch_of(step).to(device), 1.0)
            expected.step(pools.batch_of(step), 1.0)
    error = _error(torch.tensor(runs.last_losses()), torch.tensor(expected.last_losses()))
    return {"good": error < TRAINED, "error": error}


def simclr(options: Options) -> dict[str, Any]:
    """Train on augmented views beside a batch that never changes."""
    with place(options.device) as placement:
        stream = AugmentedPairs(MadeImages(options.images, options.sides[0]), options.batch_size)
        return _beside_fixed(options, placement, options.sides[0], stream.on_device(placement.device), "simclr")


def live_images(options: Options) -> dict[str, Any]:
    """Compare live images with the CPU's, and train on live pairs beside a batch that never changes."""
    missing = [package for module, package in LIVE_NEEDS.items() if find_spec(module) is None]
    if missing:
        raise LeftOut(f"needs pip install {' '.join(missing)}")
    side = options.sides[0]
    with place(options.device) as placement:
        device = placement.device
        latents = torch.from_numpy(sample_latents(min(options.images, 512), seed=1))
        renderer = live.LiveRenderer(side, device)
        expected = live.LiveRenderer(side, CPU).render(latents[:64])
        difference = int((renderer.render(latents[:64]).cpu().int() - expected.int()).abs().max())
        renderer.render(latents)  # what is made once for this many images is not timed
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        renderer.render(latents)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        rendered = len(latents) / (time.perf_counter() - start)
        stream = LivePairs(Normal(0.1), options.batch_size, resolution=side, device=device)
        found = _beside_fixed(options, placement, side, stream)
    good = found["good"] and difference <= 1
    return {**found, "good": good, "levels_from_cpu": difference, "rendered_per_second": rendered}


def faiss(options: Options) -> dict[str, Any]:
    """Match with FAISS on the GPU, exactly as in torch on the CPU."""
    latents = torch.from_numpy(sample_latents(options.images))
    queries, exclude = torch.from_numpy(sample_latents(64, seed=1)), torch.arange(64) % options.images
    try:
        index = PairIndex(latents, device=options.device)
    except (ImportError, ValueError) as error:
        raise LeftOut(str(error)) from error
    expected = PairIndex(latents, "torch").match(queries, exclude)[0]
    return {"good": torch.equal(index.match(queries, exclude)[0], expected)}


def training(
    options: Options, side: int, precision: Precision, *, compiled: bool = False, deterministic: bool = False
) -> dict[str, Any]:
    """Train on matched pairs beside a batch that never changes, and compare the peak of memory with the estimate."""
    with place(options.device, precision, deterministic=deterministic) as placement:
        if placement.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(placement.device)
        stream = _matched(MadeImages(options.images, side), options, placement)
        held = torch.cuda.memory_allocated(placement.device) if placement.device.type == "cuda" else 0
        found = _beside_fixed(options, placement, side, stream, compiled=compiled)
        found["precision"] = placement.precision
        if placement.device.type == "cuda":
            encoder = build_encoder(RECIPES["infonce-box"], 10, side, seed=0)
            estimate = step_memory(encoder, 2 * options.batch_size, side, half=placement.half)
            found["step_gib"] = (torch.cuda.max_memory_allocated(placement.device) - held) / 2**30
            found["estimated_step_gib"] = estimate / 2**30
            found["good"] = found["good"] and found["step_gib"] <= found["estimated_step_gib"]
    return found


def rate(
    options: Options,
    placement: Placement,
    side: int,
    batches: Iterable[Batch],
    recipe: str = "infonce-box",
    *,
    compiled: bool = False,
) -> dict[str, Any]:
    """Train, untimed steps first, and return rate, loss and share of the time spent waiting for batches."""
    logbook, source = LastMetrics(), iter(batches)
    steps = max(1, round(options.steps * (options.sides[0] / side) ** 2))
    warm_up = max(1, steps // 2)
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(options, placement, side, Path(folder), recipe, compiled=compiled)
        trainer.train(source, _only_at_the_end(warm_up), logbook, dict)
        trainer.train(source, _only_at_the_end(warm_up + steps), logbook, dict)
    return {name: logbook.last[name] for name in ("loss", "images_per_second", "waiting")}


def train_for(options: Options, minutes: float) -> dict[str, Any]:
    """Train the first row of Table 4 for some minutes, and return what its encoder recovers."""
    side = options.sides[0]
    data: Any = _stored(options.root, "train") if options.root else MadeImages(options.images, side)
    side = data.pixels(torch.zeros(1, dtype=torch.int64)).shape[1]
    end, logbook = time.monotonic() + 60 * minutes, LastMetrics()
    with place(options.device) as placement, tempfile.TemporaryDirectory() as folder:
        stream = iter(_matched(data, options, placement))
        trainer = _trainer(options, placement, side, Path(folder))
        while time.monotonic() < end:
            trainer.train(stream, _only_at_the_end(trainer.step + options.steps), logbook, dict)
        found: dict[str, Any] = {"steps": trainer.step, **logbook.last}
        shown = _stored(options.root, "test") if options.root else MadeImages(2000, side)
        embedded = embed(trainer.model.encoder, shown, device=placement.device)
    try:
        from ident3d.metrics import affine_r2

        found["r2"] = float(affine_r2(shown.latents, embedded))
    except ImportError:
        found["r2"] = "left out: scipy is not installed"
    return {"good": math.isfinite(found["loss"]), **found}


def parts(options: Options) -> Iterator[tuple[str, Part]]:
    """Yield the parts by name."""
    yield from {
        "losses": losses,
        "pairs": pairs,
        "large tensors": large,
        "resume": resume,
        "embed and evaluate": embeddings,
        "pinned": pinned,
        "CUDA graph": graph,
        "simclr": simclr,
        "live images": live_images,
        "FAISS": faiss,
    }.items()
    for side in options.sides:
        for precision in ("bfloat16", "float32"):
            yield f"training, {side}x{side}, {precision}", partial(training, side=side, precision=precision)
    first = options.sides[0]
    if options.device != "cpu":
        yield f"training, {first}x{first}, tf32", partial(training, side=first, precision="tf32")
    yield (
        f"training, {first}x{first}, float32, deterministic",
        partial(training, side=first, precision="float32", deterministic=True),
    )
    if not options.small:
        yield f"training, {first}x{first}, compiled", partial(training, side=first, precision="auto", compiled=True)


def main(options: Options) -> int:
    """Check part by part, print and keep what was found; return the exit status."""
    start = time.monotonic()
    with place(options.device) as placement:
        name = torch.cuda.get_device_name(placement.device) if placement.device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}")
    found = {name: checked(name, part, options) for name, part in parts(options)}
    left = options.minutes - (time.monotonic() - start) / 60
    if left > 0:
        found["Table 4, row 1"] = checked("Table 4, row 1", partial(train_for, minutes=left), options)
    good = all(part["good"] is not False for part in found.values())
    if options.out:
        versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}
        record = {"device": name, "versions": versions, "good": good, "options": vars(options), "parts": found}
        Path(options.out).write_text(json.dumps(record, indent=1), encoding="utf-8")
    print(f"{time.monotonic() - start:.0f} s; {'everything agrees' if good else 'something DIFFERS'}")
    return 0 if good else 1


def checked(name: str, part: Part, options: Options) -> dict[str, Any]:
    """Return what a part finds, and its time; "good" is False where it fails, and None where it is left out."""
    start = time.monotonic()
    found: dict[str, Any]
    try:
        found = part(options)
    except LeftOut as reason:
        found = {"good": None, "left_out": str(reason)}
    except Exception as error:  # noqa: BLE001 - a part that fails is a result, and the others are run too
        traceback.print_exc()
        found = {"good": False, "error": f"{type(error).__name__}: {error}"}
    found["seconds"] = round(time.monotonic() - start, 2)
    said = {True: "good", False: "WRONG", None: "left out"}[found["good"]]
    numbers = ", ".join(f"{key} {_shown(value)}" for key, value in found.items() if key not in {"good", "errors"})
    print(f"{name}: {said}; {numbers}", flush=True)
    return found


def _beside_fixed(
    options: Options,
    placement: Placement,
    side: int,
    stream: PairStream,
    recipe: str = "infonce-box",
    *,
    compiled: bool = False,
) -> dict[str, Any]:
    whole = rate(options, placement, side, iter(stream), recipe, compiled=compiled)
    fixed = rate(options, placement, side, itertools.repeat(stream.batch(0)), recipe, compiled=compiled)
    speeds = whole["images_per_second"], fixed["images_per_second"]
    return {"good": math.isfinite(whole["loss"]), **whole, "fixed_batch": speeds[1], "ratio": speeds[0] / speeds[1]}


def _stored(root: str, split: str) -> Any:
    from ident3d import ThreeDIdent  # reading files needs more than the checks do

    return ThreeDIdent(root, split)


def _matched(data: Any, options: Options, placement: Placement) -> PositivePairs:
    index = PairIndex(data.latents, "torch", device=placement.device)
    return PositivePairs(data, Normal(0.1), options.batch_size, index=index).on_device(placement.device)


def _trainer(
    options: Options,
    placement: Placement,
    side: int,
    folder: Path,
    name: str = "infonce-box",
    *,
    compiled: bool = False,
) -> Trainer:
    recipe: Recipe = replace(RECIPES[name], batch_size=options.batch_size)
    model = TrainedModel(build_encoder(recipe, 10, side, seed=0), build_loss(recipe, 10))
    model.to(placement.device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # a module's to takes it
    return Trainer(model, build_optimiser(model, recipe), placement, folder / "checkpoint.pt", compiled)


def _value_and_gradient(loss: Callable[..., Tensor], z: Tensor, z_pos: Tensor) -> tuple[Tensor, Tensor]:
    z = z.clone().requires_grad_()
    value = loss(z, z_pos, negatives="both", symmetric=True)
    return value.detach(), torch.autograd.grad(value, z)[0]


def _error(found: Tensor, expected: Tensor) -> float:
    expected = expected.double()
    return float((found.double().cpu() - expected).norm() / expected.norm())


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _only_at_the_end(steps: int) -> Schedule:
    return Schedule(steps, Intervals(log_every=steps, evaluate_every=steps, checkpoint_every=steps))


if __name__ == "__main__":
    sys.exit(main(Options.read()))
