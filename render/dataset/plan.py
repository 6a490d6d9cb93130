"""Which images a dataset consists of, shard by shard, and what each of them shows.

An image depends on the plan and its :class:`ImageId` alone: it is the same by itself, in any range, in any part, and
with any number of workers. The plan's manifest holds all of it: the shards (:func:`planned_shards`), and what the
images are rendered from (:meth:`ImageSpec.of`).
"""

from collections.abc import Container, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ident3d.arguments import NOT_AN_ARRAY, check_count
from ident3d.errors import DatasetError
from ident3d.factors import Factors
from ident3d.files import open_regular
from ident3d.latents import check_latents, latents_sha256, sample_latents
from ident3d.randomness import integer_seed
from ident3d.scene.world import World
from ident3d.storage.manifest import LatentSubset, Manifest
from render.blender.pool import PoolSpec
from render.blender.protocol import SMALLEST, Job
from render.blender.quality import Quality
from render.dataset.spec import DatasetSpec, find_quality, find_world
from render.engines import ENGINES, Engine, LiveQuality, Workers

if TYPE_CHECKING:  # it loads torch, which only exact positives need
    from ident3d.conditionals import Conditional

__all__ = ["ImageId", "ImageSpec", "Plan", "Shard", "ShardLatents", "image_bytes", "plan_dataset", "planned_shards"]

_PUBLISHED = {"train": 250_000, "test": 25_000}
_MOST_BYTES_PER_SHARD = 80_000_000
_MOST_ROWS_PER_SHARD = 1000
_FEWEST_ROWS_PER_SHARD = 8
_SHARDS_PER_SPLIT = 16  # or more, so that a small dataset still divides into parts


class ImageId(NamedTuple):
    """Identifies an image of a dataset.

    Attributes:
        split: name of the split.
        row: index within the split.
        positive: whether it is the exact positive of that row.
    """

    split: str
    row: int
    positive: bool = False

    def __repr__(self) -> str:
        """Return its name for messages."""
        return f"{self.split} {self.row}{' (positive)' if self.positive else ''}"


@dataclass(frozen=True)
class Shard:
    """A planned shard.

    Attributes:
        name: file name under ``data/``.
        split: the split that it belongs to.
        rows: the indices of its rows within the split.
        has_pairs: whether every row also has an exact positive.
    """

    name: str
    split: str
    rows: range
    has_pairs: bool

    @property
    def images(self) -> list[ImageId]:
        """Its images, every positive after its anchor."""
        kinds = (False, True) if self.has_pairs else (False,)
        return [ImageId(self.split, row, positive) for row in self.rows for positive in kinds]


def planned_shards(manifest: Manifest) -> list[Shard]:
    """Return every shard that a manifest plans, split by split."""
    has_pairs = manifest.pairs is not None
    return [Shard(name, split, rows, has_pairs) for split in manifest.splits for name, rows in manifest.planned(split)]


@dataclass(frozen=True, eq=False)
class ShardLatents:
    """The latents of a shard.

    Attributes:
        rows: (n, d) float32 raw latents of its rows.
        positives: (n, d) float32 raw latents of their exact positives; None without exact positives.
    """

    rows: npt.NDArray[np.float32]
    positives: npt.NDArray[np.float32] | None


@dataclass(frozen=True)
class ImageSpec:
    """What the images of a dataset are rendered from, apart from their latents.

    Attributes:
        world: maps latents to scenes, with the hue map.
        quality: settings of Cycles, or of the live renderer.
        resolution: width and height in pixels.
        seed: seed of the sampling noise.
        blender: series of Blender, for example "4.5"; None until a worker has reported it, and for live images.
    """

    world: World
    quality: Quality | LiveQuality
    resolution: int
    seed: int
    blender: str | None = None

    def job(self, image: ImageId, latents: npt.NDArray[np.float32]) -> Job[ImageId]:
        """Return the job that renders an image.

        Args:
            image: which image.
            latents: (d,) float32 raw latents of the image.
        """
        purpose = "render-positive" if image.positive else "render"
        seed = integer_seed(self.seed, f"{purpose}/{image.split}", image.row)
        return Job(image, self.world.scene(latents), seed, latents)

    @property
    def engine(self) -> Engine:
        """What renders the images."""
        return ENGINES[self.quality.engine]

    def workers(self, pool: PoolSpec) -> AbstractContextManager[Workers]:
        """Return the workers that render the images, not started yet."""
        return self.engine.workers(self.world, self.quality, self.resolution, pool)

    def to_json(self) -> dict[str, Any]:
        """Return the content of ``Manifest.render``; factors, resolution and seed are in the manifest itself."""
        world = self.world.to_json()
        del world["factors"]
        hue_map, quality = world.pop("hue_map"), self.quality.to_json()
        if self.engine.has_series:  # manifests of Cycles are as they were before there was another engine
            return {"hue_map": hue_map, "quality": quality, "blender": self.blender, "world": world}
        return {"engine": self.quality.engine, "hue_map": hue_map, "quality": quality, "world": world}

    @classmethod
    def of(cls, manifest: Manifest) -> "ImageSpec":
        """Return what the images of a rendered dataset were rendered from.

        Raises:
            DatasetError: if its manifest does not say it, or not in a way that is understood.
        """
        if manifest.seed is None:
            raise DatasetError("the manifest does not say how the images were made: it has no seed")
        try:
            data = dict(manifest.render)
            world = {"factors": manifest.factors.to_json(), "hue_map": data["hue_map"], **data["world"]}
            engine = ENGINES.find(data.get("engine", "cycles"), may_import=False)
            quality = engine.read_quality(data["quality"])
            blender = data["blender"] if engine.has_series else None
            return cls(World.from_json(world), quality, manifest.resolution, manifest.seed, blender)
        except KeyError as error:
            raise DatasetError(
                f"the manifest does not say how the images were made: render.{error.args[0]} is missing; only "
                "datasets that python -m render made can be rendered again"
            ) from error
        except (TypeError, ValueError) as error:
            raise DatasetError(f"the manifest describes its images in a way that is not understood: {error}") from error


@dataclass(frozen=True, eq=False)
class Plan:
    """The images of a dataset.

    Attributes:
        splits: number of images of each split.
        rows_per_shard: rows in a shard; the last of a split may hold fewer.
        images: what the images are rendered from, apart from their latents.
        given: (N, d) float32 given raw latents of the split "train"; None where they are drawn with the seed.
        conditional: what exact positives are drawn from; None without exact positives.
        subset: which latents the dataset has; None: all of the box.
    """

    splits: Mapping[str, int]
    rows_per_shard: int
    images: ImageSpec
    given: npt.NDArray[np.float32] | None = None
    conditional: "Conditional | None" = None
    subset: LatentSubset | None = None

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the dataset, before any shard is finished."""
        return Manifest(
            splits=self.splits,
            rows_per_shard=self.rows_per_shard,
            resolution=self.images.resolution,
            factors=self.images.world.factors,
            seed=self.images.seed,
            latents="uniform" if self.given is None else {split: self._source(split) for split in self.splits},
            pairs=None if self.conditional is None else str(self.conditional),
            subset=self.subset,
            render=self.images.to_json(),
        )

    @cached_property
    def shards(self) -> list[Shard]:
        """Every planned shard, split by split."""
        return planned_shards(self.manifest)

    def latents(self, shard: Shard) -> ShardLatents:
        """Return the latents of a shard."""
        rows = shard.rows
        seed, factors = self.images.seed, self.images.world.factors
        space = None if self.subset is None else self.manifest.factor_space()
        if self.given is not None and shard.split == "train":
            latents = self.given[rows.start : rows.stop]
        elif space is not None:
            latents = space.rows(len(rows), seed, rows.start, split=shard.split).numpy()
        else:
            latents = sample_latents(len(rows), seed, rows.start, split=shard.split, factors=factors)
        if self.conditional is None:
            return ShardLatents(latents, None)
        from ident3d.pairs.rendered import exact_positives  # it loads torch

        positives = exact_positives(latents, self.conditional, seed, split=shard.split, start=rows.start, space=space)
        return ShardLatents(latents, positives)

    def jobs(self, shard: Shard, latents: ShardLatents, done: Container[ImageId] = ()) -> Iterator[Job[ImageId]]:
        """Yield the jobs of a shard that are not done yet.

        Args:
            shard: one of :attr:`shards`.
            latents: its latents.
            done: the images that are done.
        """
        for image in shard.images:
            if image not in done:
                table = latents.positives if image.positive and latents.positives is not None else latents.rows
                yield self.images.job(image, table[image.row - shard.rows.start])

    def with_blender(self, series: str | None) -> "Plan":
        """Return this plan for a series of Blender, for example "4.5"."""
        return replace(self, images=replace(self.images, blender=series))

    def _source(self, split: str) -> str:
        """Return what the manifest says of the latents of a split."""
        return "uniform" if self.given is None or split != "train" else latents_sha256(self.given)


def plan_dataset(spec: DatasetSpec, begun: Manifest | None = None) -> Plan:
    """Return the plan of a dataset, for a series of Blender that is not known yet.

    Args:
        spec: the dataset.
        begun: the manifest of the dataset that the folder already holds; it decides what ``spec`` leaves open.

    Raises:
        ValueError: if a setting, the world, the latents or the conditional is invalid.
        FileNotFoundError: if the file of the world or of the latents does not exist.
        DatasetError: if the world has to come from ``begun``, which does not describe one.
    """
    check_count(spec.resolution, "resolution", SMALLEST)
    check_count(spec.seed, "seed", 0)
    world = ImageSpec.of(begun).world if begun is not None and spec.world is None else spec.world
    world = find_world(world, spec.hue_map)
    given = None if spec.latents is None else _given(spec.latents, world.factors)
    subset = _subset(spec, world.factors, given)
    conditional = None if spec.pairs is None else _conditional(spec.pairs, world.factors, subset)
    splits = _splits(spec, given)
    rows = _rows_per_shard(spec, begun, max(splits.values()))
    images = ImageSpec(world, find_quality(spec.quality, spec.engine), spec.resolution, spec.seed)
    return Plan(splits, rows, images, given, conditional, subset)


def image_bytes(resolution: int) -> float:
    """Return the approximate number of bytes of an image of resolution x resolution pixels as PNG.

    Fitted to images of the quality "draft", which are the largest: 35 kB at 224x224, 4.7 kB at 64x64.
    """
    return float(6.03 * resolution**1.6)


def _rows_per_shard(spec: DatasetSpec, begun: Manifest | None, largest_split: int) -> int:
    if spec.rows_per_shard is not None:
        return check_count(spec.rows_per_shard, "rows_per_shard", 1)
    if begun is not None:
        return begun.rows_per_shard
    return rows_per_shard(largest_split, image_bytes(spec.resolution) * (1 if spec.pairs is None else 2))


def rows_per_shard(largest_split: int, bytes_per_row: float) -> int:
    """Return the default number of rows of a shard.

    At most 1,000 and about 80 MB; fewer for a small dataset, so that it still divides into parts.

    Args:
        largest_split: rows of the largest split.
        bytes_per_row: estimated size of a row's images.
    """
    few = max(_FEWEST_ROWS_PER_SHARD, -(-largest_split // _SHARDS_PER_SPLIT))
    return max(1, min(_MOST_ROWS_PER_SHARD, few, int(_MOST_BYTES_PER_SHARD / bytes_per_row)))


def _splits(spec: DatasetSpec, given: npt.NDArray[np.float32] | None) -> dict[str, int]:
    defaults = _PUBLISHED if given is None else {"train": len(given), "test": 0}
    asked = {"train": spec.train, "test": spec.test}
    splits = {
        split: defaults[split] if count is None else check_count(count, split, 0) for split, count in asked.items()
    }
    if given is not None and splits["train"] != len(given):
        raise ValueError(f"train is {splits['train']}, but there are {len(given)} rows of latents: leave train out")
    splits = {split: count for split, count in splits.items() if count}
    if not splits:
        raise ValueError("there is nothing to render: train and test are both 0")
    return splits


def _given(latents: npt.ArrayLike | Path, factors: Factors) -> npt.NDArray[np.float32]:
    what, array = (str(latents), _load(latents)) if isinstance(latents, Path) else ("latents", latents)
    try:
        checked = check_latents(array, factors)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
    if not len(checked):
        raise ValueError(f"{what}: expected one or more rows of latents, not 0")
    return checked


def _load(path: Path) -> npt.NDArray[Any]:
    try:
        with open_regular(path):  # a pipe would be waited for
            pass
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except NOT_AN_ARRAY as error:
        raise ValueError(f"{path} is not a .npy file of numbers: {error}") from error
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{path} is an archive of arrays; expected one array, as numpy.save writes it")
    return array


def _subset(spec: DatasetSpec, factors: Factors, given: npt.NDArray[np.float32] | None) -> LatentSubset | None:
    """Return which latents a dataset has, after a check of them and of those that are given; None for all."""
    subset = LatentSubset(spec.latent_space, tuple(spec.factors), dict(spec.others))
    if subset == LatentSubset():
        return None
    import torch

    from ident3d.spaces import FactorSpace

    space = FactorSpace.of(subset, factors)
    if given is not None:
        space.check(torch.from_numpy(given), "the given latents")
    return subset


def _conditional(pairs: "Conditional | str", factors: Factors, subset: LatentSubset | None) -> "Conditional":
    from ident3d.conditionals import parse
    from ident3d.spaces import FactorSpace

    space = FactorSpace.of(subset or LatentSubset(), factors)
    conditional = parse(pairs, space.own) if isinstance(pairs, str) else pairs
    conditional.check(space.space)
    return conditional
