"""Speed, fidelity and memory of the renderer's qualities.

Run as ``make bench-render``, or ``python -m benchmarks.bench_render --reference FOLDER`` with other reference images:
a folder with raw_latents.npy and 000.png, 001.png, ... of the hue map ``wrapped``, and the same in its folder
"published" for the hue map ``published``.

The qualities take turns, so that all meet the same machine. Images per second are wall-clock; core seconds are the
workers' CPU time per image, which other programs disturb less. After each stands how many times better it is than that
of the published quality. PSNR is in dB over 8-bit sRGB values, mean and minimum over images and seeds.
"""

import io
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tyro
from PIL import Image
from tqdm import tqdm

from ident3d.scene.scene import Scene
from ident3d.scene.templates import HueMap
from ident3d.scene.world import World
from render.blender.pool import Pool
from render.blender.process import Program, WorkerProcess
from render.blender.protocol import Device, Job, Settings
from render.blender.quality import QUALITIES

REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "render" / "data" / "reference"
SIZES = (224, 64)
TURN = (12, 48)  # images of a fast quality in one turn, at each size; of the published one there is one a worker
Pixels = npt.NDArray[np.float64]
REPEATS = (2, 8)  # turns of a fast quality through the images, before and again after the published one, at each size


@dataclass(frozen=True)
class Bench:
    """Speed, fidelity and memory of the renderer's qualities."""

    reference: Path = REFERENCE
    """Folder of the reference images, 224x224."""
    workers: int = 2
    """Worker processes with one thread each."""
    turns: int = 6
    """Turns of each quality; two workers render each of the twelve images once with the published quality in six."""
    renders: int = 2000
    """Small images after which a worker's memory is read; 0 leaves this part out."""
    blender: Path | None = None
    """Another Python that has bpy, or a Blender executable."""


@dataclass
class Tally:
    """What a quality did at one size."""

    images: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    psnr: dict[HueMap, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def rate(self) -> float:
        """Images per second."""
        return self.images / self.wall_s

    @property
    def core_s(self) -> float:
        """Seconds of one core per image."""
        return self.cpu_s / self.images


@dataclass(frozen=True)
class Reference:
    """An image and the scene that it shows."""

    hue_map: HueMap
    scene: Scene
    pixels: Pixels


def references(folder: Path) -> list[Reference]:
    """Read the reference images of both hue maps."""
    found = []
    for hue_map, place in ((HueMap.WRAPPED, folder), (HueMap.PUBLISHED, folder / "published")):
        world = World(hue_map=hue_map)
        for i, row in enumerate(np.load(place / "raw_latents.npy")):
            found.append(Reference(hue_map, world.scene(row), pixels((place / f"{i:03d}.png").read_bytes())))
    return found


def pixels(png: bytes) -> Pixels:
    """Return an image as float64 in [0, 255], (height, width, 3)."""
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"), dtype=np.float64)


def cpu_seconds(pids: list[int]) -> float:
    """Return the CPU time of processes so far; NaN where the system does not tell."""
    try:
        stats = [Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split() for pid in pids]
    except OSError:
        return float("nan")
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def render(pool: Pool, tally: Tally, known: list[Reference], numbers: range) -> None:
    """Render the images ``numbers`` of an endless list of scenes and seeds, and add to the tally."""
    start, cpu = time.perf_counter(), cpu_seconds(pool.pids)
    images = list(pool.render(Job(i, known[i % len(known)].scene, i) for i in numbers))
    tally.wall_s += time.perf_counter() - start
    tally.cpu_s += cpu_seconds(pool.pids) - cpu
    tally.images += len(images)
    for i, png in images:
        image, reference = pixels(png), known[i % len(known)]
        if image.shape == reference.pixels.shape:
            error = np.mean((image - reference.pixels) ** 2)
            tally.psnr[reference.hue_map].append(float(10 * np.log10(255**2 / error)))


def tallies(bench: Bench, known: list[Reference]) -> dict[tuple[str, int], Tally]:
    """Let all qualities take turns, at all sizes."""
    result: dict[tuple[str, int], Tally] = defaultdict(Tally)
    for size, turn in zip(SIZES, TURN, strict=True):
        counts = {name: bench.workers if name == "published" else turn for name in QUALITIES}
        with ExitStack() as stack:
            pools = {}
            for name in QUALITIES:
                pool = Pool(Settings(QUALITIES[name], size, Device.CPU), bench.workers, blender=bench.blender)
                pools[name] = stack.enter_context(pool)
            for name in counts.keys() - {"published"}:  # what a worker does once would count
                list(pools[name].render(Job(i, known[0].scene, i) for i in range(2 * bench.workers)))
            for i in tqdm(range(bench.turns), f"{size}x{size}", unit="turn", leave=False, disable=None):
                for name, count in counts.items():
                    render(pools[name], result[name, size], known, range(i * count, (i + 1) * count))
    return result


def table(result: dict[tuple[str, int], Tally]) -> Iterator[str]:
    """Lay out the rates and fidelities, a line per quality."""
    yield f"{'':<10}" + "".join(f"{f'{size}x{size}':^38}" for size in SIZES) + f"{'PSNR of the hue map':^28}"
    size_heads = f"{'images/s':>11} {'times':>7} {'core s':>9} {'times':>7} "
    yield f"{'quality':<10}" + size_heads * len(SIZES) + f"  {'wrapped':^13} {'published':^13}"
    for name in QUALITIES:
        cells = [f"{name:<10}"]
        for size in SIZES:
            tally, slow = result[name, size], result["published", size]
            cells.append(f"{tally.rate:11.3f} {tally.rate / slow.rate:7.1f} ")
            cells.append(f"{tally.core_s:9.3f} {slow.core_s / tally.core_s:7.1f} ")
        for hue_map in (HueMap.WRAPPED, HueMap.PUBLISHED):
            psnr = result[name, SIZES[0]].psnr[hue_map]
            cells.append(f"  {np.mean(psnr):5.2f} {np.min(psnr):5.2f}" if psnr else f"{'':13}")
        yield "".join(cells)


def memory(bench: Bench, known: list[Reference]) -> Iterator[str]:
    """Render many small images with one worker, and tell its memory and pace on the way."""
    worker = WorkerProcess(Program.find(bench.blender), Settings(QUALITIES["standard"], 32, Device.CPU))
    try:
        worker.greet()
        marks = [max(1, bench.renders * tenths // 10) for tenths in (1, 5, 10)]
        cpu = cpu_seconds([worker.pid])
        since = 0
        for i in tqdm(range(1, bench.renders + 1), "memory", unit="image", leave=False, disable=None):
            image = worker.render(known[i % len(known)].scene, i)
            if i in marks:
                now = cpu_seconds([worker.pid])
                pace = 1000 * (now - cpu) / (i - since)
                size = image.memory / 2**20
                yield f"after {i:>5} images of 32x32: {size:7.1f} MiB, {pace:5.1f} ms of a core each"
                cpu, since = now, i
        worker.close()
    finally:
        worker.kill()


def main(bench: Bench) -> None:
    """Print one table of all qualities, then the memory of one worker."""
    known = references(bench.reference)
    result = tallies(bench, known)
    print(f"{bench.workers} workers of one thread; load average {os.getloadavg()[0]:.1f}")
    for line in table(result):
        print(line)
    if bench.renders:
        print("memory of one worker, quality standard")
        for line in memory(bench, known):
            print(line)


if __name__ == "__main__":
    main(tyro.cli(Bench))
