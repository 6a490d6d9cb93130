"""Positive pairs a second, the cost of a match, and the memory of workers, beside the published way of serving pairs.

Run as ``make bench-pairs``, or ``python -m benchmarks.bench_pairs --root ROOT`` for the train split of a dataset of
your own. The published way is re-implemented here: every item draws one anchor and one positive, asks an exact FAISS
index for each of them alone, and decodes and normalises two PNG files. It is held against ours twice: as ours serves
by default, bytes, which is less work, and with the same normalised floats, which is equal work. Rates are medians over
rounds in which all ways take turns, so that all of them meet the same machine. On one that others use too, CPU time
tells more than the clock.
"""

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import torch
import tyro
from PIL import Image
from scipy.spatial import cKDTree
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from tqdm import tqdm

from ident3d import BatchTransform, ThreeDIdent, normalize, sample_latents
from ident3d.conditionals import Normal
from ident3d.matching import PairIndex
from ident3d.pairs.matched import PositivePairs
from ident3d.randomness import generator, torch_generator
from ident3d.spaces import Box
from ident3d.storage.conversion import convert
from ident3d.storage.images import encode_png

MEAN, STD = (0.43, 0.27, 0.28), (0.12, 0.15, 0.11)
PUBLISHED = "published way, PNG files, normalised floats"
SIGMA = 0.1
BATCH = 512
LARGEST_GRAPH = 250_000  # latents that a graph is built of here: with more it takes minutes
WALL_BATCHES = 4  # of the published way in a round; the others take as many as last about as long
Floats = npt.NDArray[np.float32]


class PublishedWay(Dataset[tuple[Any, Any]]):
    """The published dataset of pairs: one item, one pair, two searches of one query each, two PNG files."""

    def __init__(self, folder: Path) -> None:
        self.latents: Floats = np.load(folder / "raw_latents.npy").astype(np.float32)
        self.paths = sorted((folder / "images").iterdir())
        self.index = faiss.IndexFlatL2(self.latents.shape[1])
        self.index.add(self.latents)
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, item: int) -> tuple[Any, Any]:
        # The space is a box of positions times a box of angles and hues, each sampled by itself.
        z = torch.cat([torch.rand(1, 3) * 2 - 1, torch.rand(1, 7) * 2 - 1], dim=1)
        z_pos = torch.cat([_truncated_normal(z[:, :3]), _truncated_normal(z[:, 3:])], dim=1)
        _, nearest = self.index.search(z.numpy(), 1)
        _, nearest_pos = self.index.search(z_pos.numpy(), 2)
        anchor = nearest[0, 0]
        positive = nearest_pos[0, 0] if nearest_pos[0, 0] != anchor else nearest_pos[0, 1]
        return (self.latents[anchor], self.latents[positive]), (self._image(anchor), self._image(positive))

    def _image(self, row: int) -> Tensor:
        with self.paths[row].open("rb") as file:
            image: Tensor = self.transform(Image.open(file).convert("RGB"))
            return image


def _truncated_normal(mean: Tensor) -> Tensor:
    """Draw by rejection, keeping the coordinates that fall into the box, until all have."""
    drawn = torch.full_like(mean, torch.nan)
    while (left := drawn.isnan()).any():
        proposed = torch.randn_like(mean) * SIGMA + mean
        accepted = left & (proposed >= -1) & (proposed <= 1)
        drawn[accepted] = proposed[accepted]
    return drawn


def synthetic_images(latents: Floats, size: int) -> npt.NDArray[np.uint8]:
    """Draw a shaded ball on a lit ground for each row: as smooth as rendered images, and as costly to decode."""
    z = latents[:, :, None, None]
    y, x = np.meshgrid(*[np.linspace(-1, 1, size, dtype=np.float32)] * 2, indexing="ij")
    u, v, radius = x - 0.6 * z[:, 0], y - 0.6 * z[:, 1], 0.35 + 0.1 * z[:, 2]
    height = np.sqrt(np.clip(1 - (u**2 + v**2) / radius**2, 0, None))
    normal_light = np.clip((u * z[:, 3] + v * z[:, 4]) / radius * 0.6 + height, 0, 1)
    glow = np.exp(-((x - z[:, 6]) ** 2 + (y - z[:, 5]) ** 2))
    colours = 0.5 + 0.5 * np.sin(np.pi * latents[:, 7:10, None] + np.array([0, 2, 4], dtype=np.float32))
    ball, lamp, ground = (colours[:, i, None, None, :] for i in range(3))
    image = np.where(height[..., None] > 0, ball * normal_light[..., None] + 0.2 * height[..., None] ** 8, 0)
    image = np.where(height[..., None] > 0, image, ground * (0.2 + 0.8 * lamp * glow[..., None]))
    grain = generator(0, "bench/grain").normal(0, 0.0012, image.shape)
    return np.asarray(np.clip(255 * (image + grain), 0, 255), dtype=np.uint8)


def write_published(root: Path, images: int, size: int) -> None:
    """Write synthetic images in the published layout."""
    latents = sample_latents(images)
    folder = root / "train" / "images"
    folder.mkdir(parents=True)
    np.save(root / "train" / "raw_latents.npy", latents)
    digits = len(str(images - 1))
    for start in tqdm(range(0, images, 250), desc="synthetic images", unit_scale=250, disable=None):
        for row, image in enumerate(synthetic_images(latents[start : start + 250], size), start):
            (folder / f"{row:0{digits}d}.png").write_bytes(encode_png(image))


@dataclass(frozen=True)
class Rate:
    """How fast batches came.

    Attributes:
        pairs: pairs a second.
        cpu: microseconds of CPU time a pair, of this process and its workers.
    """

    pairs: float
    cpu: float


def rate(batches: Iterator[Any], seconds: float) -> Rate:
    """Take batches for at least ``seconds``, and no fewer than a few."""
    start, cpu, done = time.perf_counter(), _cpu_seconds(), 0
    while done < WALL_BATCHES or time.perf_counter() - start < seconds:
        next(batches)
        done += 1
    pairs = BATCH * done
    return Rate(pairs / (time.perf_counter() - start), (_cpu_seconds() - cpu) / pairs * 1e6)


def _cpu_seconds() -> float:
    """Return the CPU seconds that this process and its running workers have used (Linux)."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = time.process_time()
    for worker in multiprocessing.active_children():
        fields = Path(f"/proc/{worker.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def rates(ways: dict[str, Callable[[], Iterable[Any]]], rounds: int, warm_up: int, seconds: float) -> dict[str, Rate]:
    """Return the medians of pairs a second and CPU time a pair of each way, which is started anew in every round."""
    found: dict[str, list[Rate]] = {name: [] for name in ways}
    for _ in tqdm(range(rounds), desc="rounds", disable=None):
        for name, way in ways.items():
            batches = iter(way())
            for _ in range(warm_up):
                next(batches)
            found[name].append(rate(batches, seconds))
            del batches  # its workers end here
    return {
        name: Rate(statistics.median(r.pairs for r in values), statistics.median(r.cpu for r in values))
        for name, values in found.items()
    }


def serve(roots: dict[str, Path], workers: int, rounds: int) -> None:
    """Print pairs a second of every way, and of what bounds them."""
    data = {layout: ThreeDIdent(root) for layout, root in roots.items()}
    index = PairIndex(data["decoded"].latents)
    float_images, half_images = normalize(MEAN, STD), normalize(MEAN, STD, torch.bfloat16)

    def ours(layout: str, transform: BatchTransform | None = None) -> Callable[[], Iterable[Any]]:
        pairs = PositivePairs(data[layout], Normal(SIGMA), BATCH, index=index, transform=transform)
        return lambda: pairs.loader(workers, pin_memory=False)

    published = PublishedWay(roots["published"] / "train")
    layouts = {"PNG files": "published", "PNG in Parquet": "native", "decoded cache": "decoded"}
    ways: dict[str, Callable[[], Iterable[Any]]] = {
        PUBLISHED: lambda: DataLoader(published, BATCH, num_workers=workers, worker_init_fn=_one_thread),
        **{f"ident3d, {name}, bytes": ours(layout) for name, layout in layouts.items()},
        **{f"ident3d, {name}, normalised floats": ours(layout, float_images) for name, layout in layouts.items()},
        "ident3d, decoded cache, normalised bfloat16": ours("decoded", half_images),
        "bound: decode two PNG files": lambda: DataLoader(_Pixels(data["published"]), None, num_workers=workers),
        "bound: copy two images": lambda: DataLoader(_Pixels(data["decoded"]), None, num_workers=workers),
    }
    found = rates(ways, rounds, warm_up=2 * workers + 2, seconds=2.0)
    base = found[PUBLISHED]
    print(f"\n{len(index):,} images, batches of {BATCH}, {workers} workers")
    print("equal work: the published way against normalised floats; bytes leave the normalisation to the device")
    print(f"{'':46}{'pairs/s':>10}{'ratio':>8}{'CPU us a pair':>15}{'ratio':>8}")
    for name, way in found.items():
        print(f"{name:46}{way.pairs:>10,.0f}{way.pairs / base.pairs:>8.1f}{way.cpu:>15.1f}{base.cpu / way.cpu:>8.1f}")


def _one_thread(_: int) -> None:
    """Keep FAISS to one thread in a worker: the published way asks for 16 in each, which only slows it down."""
    faiss.omp_set_num_threads(1)


class _Pixels(torch.utils.data.IterableDataset[Tensor]):
    """Random images, two for each pair, and nothing else."""

    def __init__(self, data: ThreeDIdent) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Tensor]:
        rng = np.random.default_rng(0)
        while True:
            yield self.data.pixels(rng.integers(0, len(self.data), 2 * BATCH))


def cpu_microseconds(search: Callable[[Tensor, Tensor], Any], targets: Tensor, anchors: Tensor) -> float:
    """Return CPU microseconds of one core for each query, in batches."""
    start = time.process_time()
    for first in range(0, len(targets), BATCH):
        search(targets[first : first + BATCH], anchors[first : first + BATCH])
    return (time.process_time() - start) / len(targets) * 1e6


def match(sizes: tuple[int, ...], rounds: int) -> None:
    """Print the cost of a match on one core, for growing datasets."""
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    print(f"\nCPU us a match on one core, normal sigma {SIGMA}, uniform latents, batches of {BATCH}")
    columns = ("build, s", "exact", "k-d tree", "flat", "ivf", "recall", "hnsw", "recall", "build, s", "same ids")
    print(f"{'latents':>10}" + "".join(f"{name:>10}" for name in columns))
    costs = [match_in(size, rounds) for size in sizes]
    print(f"{sizes[-1] / sizes[0]:.0f} times the latents cost {costs[-1] / costs[0]:.1f} times as much a match")


def match_in(size: int, rounds: int) -> float:
    """Print one line of the table; return the cost of an exact match in ``size`` latents."""
    latents = torch.from_numpy(sample_latents(size))
    anchors = torch.randint(size, (4 * BATCH,), generator=torch_generator(0, "bench/anchors"))
    targets = Normal(SIGMA).sample(latents[anchors], Box(10), torch_generator(0, "bench/targets"))
    start = time.process_time()
    exact = PairIndex(latents)
    build = time.process_time() - start
    tree, flat, ivf = cKDTree(latents.numpy(), leafsize=32), faiss.IndexFlatL2(10), PairIndex(latents, "ivf")
    flat.add(latents.numpy())
    start = time.process_time()
    hnsw = PairIndex(latents, "hnsw") if size <= LARGEST_GRAPH else None
    build_hnsw = time.process_time() - start

    def two_of_tree(z: Tensor, _: Tensor) -> npt.NDArray[np.int64]:
        return np.asarray(tree.query(z.numpy(), k=2)[1])

    searches: dict[str, tuple[Callable[[Tensor, Tensor], Any], int]] = {
        "exact": (exact.match, len(targets)),
        "tree": (two_of_tree, len(targets)),
        "flat": (lambda z, _: flat.search(z.numpy(), 2), BATCH if size <= 250_000 else 64),
        "ivf": (ivf.match, len(targets)),
    }
    if hnsw is not None:
        searches["hnsw"] = (hnsw.match, len(targets))
    times: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(rounds):
        for name, (search, n) in searches.items():
            times[name].append(cpu_microseconds(search, targets[:n], anchors[:n]))
    best = {name: min(values) for name, values in times.items()}
    two = two_of_tree(targets, anchors)
    by_tree = np.where(two[:, 0] == anchors.numpy(), two[:, 1], two[:, 0])
    same = bool((exact.match(targets, anchors)[0].numpy() == by_tree).all())
    graph = f"{'':30}"
    if hnsw is not None:
        graph = f"{best['hnsw']:>10.1f}{hnsw.recall:>10.4f}{build_hnsw:>10.1f}"
    print(
        f"{size:>10,}{build:>10.2f}{best['exact']:>10.1f}{best['tree']:>10.1f}{best['flat']:>10.0f}"
        f"{best['ivf']:>10.1f}{ivf.recall:>10.4f}{graph}{same!s:>10}"
    )
    return best["exact"]


def memory(root: Path, counts: tuple[int, ...]) -> None:
    """Print the memory of worker processes beside that of the dataset."""
    data = ThreeDIdent(root)
    image = data.pixels([0]).nbytes
    print(f"\n{len(data):,} images are {len(data) * image / 2**20:,.0f} MiB in the decoded cache")
    print(f"{'start':>7} {'workers':>8} {'own memory of each, MiB':>24}")
    for method in ("fork", "spawn"):
        for workers in counts:
            pairs = PositivePairs(data, Normal(SIGMA), BATCH)
            batches = iter(pairs.loader(workers, multiprocessing_context=method, pin_memory=False))
            for _ in range(3 * workers):
                next(batches)
            own = [_own_memory(process.pid) for process in multiprocessing.active_children() if process.pid]
            print(f"{method:>7} {workers:>8} {statistics.mean(own) / 2**20:>24.0f}")
            del batches


def _own_memory(pid: int) -> int:
    """Return the bytes that only this process holds and that are not a file's (Linux)."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    sizes = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":", 1) for line in rollup)}
    return sizes["Private_Dirty"]


@dataclass(frozen=True)
class Options:
    """Positive pairs a second, the cost of a match, and the memory of workers."""

    root: Path | None = None
    """A dataset whose train split is served; synthetic images where none is given."""
    workers: int = 2
    """Processes that serve pairs, in every way."""
    rounds: int = 5
    """Rounds in which all ways take turns."""
    images: int = 25_000
    """Number of synthetic images."""
    size: int = 64
    """Their height and width."""
    latents: tuple[int, ...] = (25_000, 250_000, 1_000_000, 4_000_000)
    """Sizes of the datasets that are matched in."""

    def run(self) -> None:
        """Print the three tables."""
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        with tempfile.TemporaryDirectory() as temporary:
            roots = {layout: Path(temporary) / layout for layout in ("published", "native", "decoded")}
            if self.root is None:
                write_published(roots["published"], self.images, self.size)
            else:
                convert(self.root, roots["published"], "published")
            convert(roots["published"], roots["native"], "native")
            convert(roots["published"], roots["decoded"], "decoded")
            serve(roots, self.workers, self.rounds)
            memory(roots["decoded"], (1, 2, 4))
        match(self.latents, self.rounds)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a table that is piped shows as it grows
    tyro.cli(Options).run()
