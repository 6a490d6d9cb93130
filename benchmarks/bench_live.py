"""Speed and fidelity of the live renderer's grids beside those of Cycles, and of live pairs beside stored ones.

Run as ``make bench-live``. All runs in this process with one thread, and all take turns, so that all meet the same
machine. Milliseconds are CPU time per image, which other programs disturb less than wall-clock time, the fastest of all
turns. After each stands how many times faster that is than Cycles' quality ``standard`` at the same size. PSNR is in dB
over 8-bit sRGB values, mean and minimum over images: at 224x224 beside images of Cycles with 1,024 samples, at 64x64
beside those of the slow ray caster in tests/ident3d/live.
"""

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import torch
import tyro
from PIL import Image

import ident3d
from ident3d.pairs import PairStream
from ident3d.scene.world import World
from render.blender.cycles import Blender
from render.blender.protocol import Device, Settings
from render.blender.quality import QUALITIES

TESTS = Path(__file__).resolve().parents[1] / "tests"
GRIDS = (2, 3, 4, 8)
Latents = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Bench:
    """Speed and fidelity of the live renderer's grids beside Cycles, and of live pairs beside stored ones."""

    sizes: tuple[int, ...] = (64, 128, 224)
    """Widths and heights of the images in pixels."""
    images: int = 32
    """Images of each live grid in a turn."""
    turns: int = 5
    """Turns of each."""
    published: bool = False
    """Whether Cycles renders with its published quality too: a minute for each image of 224x224."""
    batches: int = 5
    """Batches of 64 pairs, of each stream."""


@dataclass
class Tally:
    """What one way of rendering did at one size.

    Attributes:
        ms: CPU time per image in each turn.
        psnr: dB of each image that there is a reference of.
    """

    ms: list[float] = field(default_factory=list)
    psnr: list[float] = field(default_factory=list)


def references(size: int) -> tuple[Latents, list[npt.NDArray[np.uint8]]]:
    """Return the latents and images that renderings of a size are compared with; none at some sizes."""
    if size == 224:
        folder = TESTS / "render" / "data" / "reference"
        return np.load(folder / "raw_latents.npy"), [_pixels(path) for path in sorted(folder.glob("???.png"))]
    if size == 64:
        paths = sorted((TESTS / "ident3d" / "live" / "data").glob("oracle-?.png"))
        return ident3d.sample_latents(len(paths), seed=2026), [_pixels(path) for path in paths]
    return np.empty((0, 10), dtype=np.float32), []


def _pixels(path: Path) -> npt.NDArray[np.uint8]:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def live(size: int, grid: int) -> Callable[[Latents], list[npt.NDArray[np.uint8]]]:
    """Return what renders live."""
    renderer = ident3d.live.LiveRenderer(size, "cpu", grid=grid)
    return lambda latents: list(renderer.render(latents).permute(0, 2, 3, 1).numpy())


def cycles(size: int, quality: str, folder: Path) -> Callable[[Latents], list[npt.NDArray[np.uint8]]]:
    """Return what renders with Cycles."""
    blender = Blender(Settings(QUALITIES[quality], size, Device.CPU), folder)
    world, path = World(), folder / "read.png"

    def render(latents: Latents) -> list[npt.NDArray[np.uint8]]:
        images = []
        for row in latents:
            with _silence():
                path.write_bytes(blender.render(world.scene(row), seed=0))
            images.append(_pixels(path))
        return images

    return render


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what Blender writes of its progress from standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def tallies(bench: Bench, size: int, folder: Path) -> dict[str, Tally]:
    """Let all ways of rendering take turns at one size."""
    # Cycles has one scene in a process, so that its qualities do not take turns with each other.
    known, expected = references(size)
    latents = ident3d.sample_latents(bench.images, seed=7)
    result: dict[str, Tally] = defaultdict(Tally)
    ways = {f"live, grid {grid}": live(size, grid) for grid in GRIDS}
    for quality in ("draft", "standard", *(["published"] if bench.published else [])):
        turns = 1 if quality == "published" else bench.turns
        reference = cycles(size, quality, folder)
        _compare(result[f"Cycles {quality}"], reference, known, expected)
        for _ in range(turns):
            _time(result[f"Cycles {quality}"], reference, latents[:2])
            for name, way in ways.items():
                _time(result[name], way, latents)
    for name, way in ways.items():
        _compare(result[name], way, known, expected)
    return result


def _compare(
    tally: Tally,
    way: Callable[[Latents], list[npt.NDArray[np.uint8]]],
    known: Latents,
    expected: list[npt.NDArray[np.uint8]],
) -> None:
    for image, reference in zip(way(known), expected, strict=True):
        error = np.mean((image.astype(float) - reference) ** 2)
        tally.psnr.append(float(10 * np.log10(255**2 / error)))


def _time(tally: Tally, way: Callable[[Latents], list[npt.NDArray[np.uint8]]], latents: Latents) -> None:
    start = time.process_time()
    way(latents)
    tally.ms.append(1000 * (time.process_time() - start) / len(latents))


def table(size: int, result: dict[str, Tally]) -> Iterator[str]:
    """Lay out one size, a way of rendering a line."""
    yield f"{f'{size}x{size}':<18} {'CPU ms':>9} {'images/s':>9} {'times':>7} {'PSNR mean':>10} {'min':>6}"
    standard = min(result["Cycles standard"].ms)
    for name, tally in result.items():
        ms = min(tally.ms)
        psnr = f"{np.mean(tally.psnr):>10.1f} {min(tally.psnr):>6.1f}" if tally.psnr else ""
        yield f"{name:<18} {ms:>9.2f} {1000 / ms:>9.1f} {standard / ms:>7.1f} {psnr}"


def pairs_per_second(stream: PairStream, batches: int) -> float:
    """Return the pairs that a stream makes in a second of CPU time, after a first batch."""
    iterator = iter(stream)
    next(iterator)
    start = time.process_time()
    made = sum(len(batch) for batch in islice(iterator, batches))
    return made / (time.process_time() - start)


def spread(stream: ident3d.LivePairs) -> tuple[float, float]:
    """Return the standard deviation of positives around anchors over the conditional's own: least and largest."""
    z, z_pos = stream.latents(0)
    realised = (z_pos - z).std(dim=0).numpy() / np.array(stream.conditional.displacement_std(stream.space))
    return float(realised.min()), float(realised.max())


def main(bench: Bench) -> None:
    """Print a table for each size, then the pairs."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        for size in bench.sizes:
            for line in table(size, tallies(bench, size, Path(folder))):
                print(line, flush=True)
    conditional = ident3d.Normal(0.1)
    fresh = ident3d.LivePairs(conditional, 64, resolution=64, device="cpu")
    stored = ident3d.PositivePairs(ident3d.LivePool(1000, resolution=64, device="cpu"), conditional, 64)
    print(f"LivePairs: {pairs_per_second(fresh, bench.batches):.0f} pairs/s at 64x64")
    print(f"PositivePairs from 1,000 images in memory: {pairs_per_second(stored, bench.batches):.0f} pairs/s")
    low, high = spread(ident3d.LivePairs(conditional, 20_000, resolution=64, device="cpu"))
    print(f"standard deviation of 20,000 live pairs, over the nominal one, by factor: {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main(tyro.cli(Bench))
