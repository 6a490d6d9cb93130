"""A check of one GPU, in minutes: losses against the CPU, then training from images resident on the device.

It needs torch, torchvision, numpy and jaxtyping and a checkout, which is not to be installed: the images are made here,
smooth functions of their latents, and pairs are matched on the device. The rate of whole training steps (drawing,
matching, gathering, loss, update) stands beside the rate of the same step on one batch that never changes; their ratio
is what the data cost.

Usage: ``python -m benchmarks.gpu_check [--device cuda] [--steps 200] ...``; exit status 1 where a loss differs.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from baselines.losses import an_info_nce, delta_info_nce, info_nce
from baselines.recipes import RECIPES, Recipe
from baselines.training.loop import Trainer
from baselines.training.objective import TrainedModel, build_encoder, build_loss, build_optimiser
from baselines.training.options import Intervals, Precision
from baselines.training.placement import Placement, place
from baselines.training.progress import Schedule
from ident3d import FACTORS, Normal, PairIndex, PositivePairs, sample_latents
from ident3d.pairs import PairBatch
from ident3d.randomness import torch_generator

LOSSES: dict[str, Callable[..., Tensor]] = {
    "InfoNCE": info_nce,
    "delta-InfoNCE, p = 1": partial(delta_info_nce, p=1),
    "delta-InfoNCE, p = 2": delta_info_nce,
    "delta-InfoNCE, p = 3": partial(delta_info_nce, p=3),
    "delta-InfoNCE, L2 metric": partial(delta_info_nce, metric=True),
    "AnInfoNCE": partial(an_info_nce, precision=[0.5, 2.0] * 5),
}
TOLERANCE = 1e-4  # relative, float32 against float64


@dataclass(frozen=True)
class Options:
    """What to check.

    Attributes:
        device: cuda, cuda:N, or cpu to try the script.
        precision: what the encoder computes in.
        compile: whether the encoder is compiled.
        images: images on the device.
        resolution: pixels a side, a multiple of 8.
        batch_size: pairs in a step.
        steps: timed steps; half as many come before them, untimed.
    """

    device: str = "cuda"
    precision: Precision = "auto"
    compile: bool = False
    images: int = 20_000
    resolution: int = 64
    batch_size: int = 512
    steps: int = 200

    def __post_init__(self) -> None:
        if self.resolution < 8 or self.resolution % 8:
            raise ValueError(f"images are 8 x 8 squares: a resolution is a multiple of 8, not {self.resolution}")
        if not 2 <= self.batch_size <= self.images or self.steps < 1:
            raise ValueError(
                f"expected a step or more of 2 pairs to {self.images}, the number of images, not {self.steps} of "
                f"{self.batch_size}"
            )

    @classmethod
    def read(cls, arguments: Sequence[str] | None = None) -> "Options":
        """Read a command line; the standard library does, because other parsers may not be installed."""
        parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__)
        for field in fields(cls):
            option = "--" + field.name.replace("_", "-")
            if isinstance(field.default, bool):
                parser.add_argument(option, action="store_true")
            elif field.name == "precision":
                parser.add_argument(option, choices=get_args(Precision), default=field.default)
            else:
                parser.add_argument(option, type=type(field.default), default=field.default, help="%(default)s")
        try:
            return cls(**vars(parser.parse_args(arguments)))
        except ValueError as error:
            parser.error(str(error))


class MadeImages:
    """Images of 8 x 8 squares whose colours are smooth functions of the latents.

    Attributes:
        latents: (N, 10) float32.
        factors: those of 3DIdent, which only name its columns here.
    """

    def __init__(self, n: int, resolution: int) -> None:
        self.latents = torch.from_numpy(sample_latents(n))
        self.factors = FACTORS
        self._weight = torch.randn(10, 8 * 8 * 3, generator=torch_generator(0, "gpu_check/images"))
        self._side = resolution // 8

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


def check_losses(device: torch.device) -> bool:
    """Compare losses and gradients in float32 on the device with float64 on the CPU; print a table."""
    generator = torch_generator(0, "gpu_check/losses")
    z = torch.rand(1024, 10, generator=generator) * 2 - 1
    z_pos = z + 0.1 * torch.randn(1024, 10, generator=generator)
    print("| loss | value | error of the value | error of the gradient |\n|---|---|---|---|")
    good = True
    for name, loss in LOSSES.items():
        found, slope = _value_and_gradient(loss, z.to(device), z_pos.to(device))
        exact, exact_slope = _value_and_gradient(loss, z.double(), z_pos.double())
        errors = [float((a.double().cpu() - b).norm() / b.norm()) for a, b in ((found, exact), (slope, exact_slope))]
        good &= max(errors) < TOLERANCE
        print(f"| {name} | {float(exact):.6f} | {errors[0]:.1e} | {errors[1]:.1e} |")
    return good


def train(options: Options, placement: Placement, batches: Iterator[PairBatch]) -> float:
    """Train and return images per second, untimed steps first."""
    recipe: Recipe = replace(RECIPES["infonce-box"], batch_size=options.batch_size)
    model = TrainedModel(build_encoder(recipe, 10, options.resolution, seed=0), build_loss(recipe, 10))
    model.to(placement.device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # a module's to takes it
    logbook = LastMetrics()
    warm_up = max(1, options.steps // 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        trainer = Trainer(model, build_optimiser(model, recipe), placement, path, options.compile)
        trainer.train(batches, _only_at_the_end(warm_up), logbook, dict)
        trainer.train(batches, _only_at_the_end(warm_up + options.steps), logbook, dict)
    waiting = f"{logbook.last['waiting']:.0%} of the time waiting for batches"
    print(f"mean loss of steps {warm_up + 1} to {trainer.step}: {logbook.last['loss']:.4f}; {waiting}")
    return logbook.last["images_per_second"]


def main(options: Options) -> int:
    """Print both checks; return the exit status."""
    start = time.perf_counter()
    with place(options.device, options.precision) as placement:
        name = torch.cuda.get_device_name(placement.device) if placement.device.type == "cuda" else "CPU"
        print(f"{name}, torch {torch.__version__}, {'bfloat16' if placement.half else 'float32'}")
        good = check_losses(placement.device)
        data = MadeImages(options.images, options.resolution)
        index = PairIndex(data.latents, "torch", device=placement.device)
        pairs = PositivePairs(data, Normal(0.1), options.batch_size, index=index).on_device(placement.device)
        whole = train(options, placement, iter(pairs))
        fixed = train(options, placement, itertools.repeat(pairs.batch(0)))
    print(f"ResNet18, {options.resolution}x{options.resolution}, {options.batch_size} pairs a step")
    print(
        f"training: {whole:.0f} images/s; the same step on one batch: {fixed:.0f} images/s; ratio {whole / fixed:.2f}"
    )
    print(f"{time.perf_counter() - start:.0f} s; losses {'agree' if good else 'DIFFER'}")
    return 0 if good else 1


def _value_and_gradient(loss: Callable[..., Tensor], z: Tensor, z_pos: Tensor) -> tuple[Tensor, Tensor]:
    z = z.clone().requires_grad_()
    value = loss(z, z_pos, negatives="both", symmetric=True)
    return value.detach(), torch.autograd.grad(value, z)[0]


def _only_at_the_end(steps: int) -> Schedule:
    return Schedule(steps, Intervals(log_every=steps, evaluate_every=steps, checkpoint_every=steps))


if __name__ == "__main__":
    sys.exit(main(Options.read()))
