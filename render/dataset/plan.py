"""Which images a dataset consists of, shard by shard, and what each of them shows.

Everything about an image follows from the manifest and its :class:`ImageId`: it is the same alone, in any range, in
any part and with any number of workers.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.latents import sample_latents
from ident3d.pairs.rendered import exact_positives
from ident3d.randomness import integer_seed
from ident3d.scene.world import World
from ident3d.storage.manifest import Manifest
from render.blender.pool import Job
from render.blender.quality import Quality
from render.dataset.journal import Entry

__all__ = ["ImageId", "Part", "Plan", "Recipe", "Shard", "rows_per_shard", "series_of"]

T = TypeVar("T")

_ID, _COUNT, _MIN, _MAX = (f"SLURM_ARRAY_TASK_{name}" for name in ("ID", "COUNT", "MIN", "MAX"))


@dataclass(frozen=True)
class Part:
    """Part ``number`` of ``count``, counted from 0.

    Attributes:
        number: 0 to count - 1.
        count: number of parts, 1 or more.
    """

    number: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.number < self.count:
            last = f"0/{self.count} to {self.count - 1}/{self.count}" if self.count > 0 else "0/1"
            raise ValueError(
                f"parts count from 0: expected K/N with K below N, {last} here, not {self.number}/{self.count}"
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> "Part":
        """Return the part that ``text`` names, as K/N.

        Raises:
            ValueError: if the text is not of that form, or K is not in 0 to N - 1.
        """
        match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
        if match is None:
            raise ValueError(f"expected a part as K/N, 0/4 say for the first of four; got {text!r}")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def from_slurm(cls, environment: Mapping[str, str]) -> "Part | None":
        """Return the part of this task of a SLURM array, or None outside an array.

        The ids of the array may start anywhere and have any even step: the first is part 0.

        Raises:
            ValueError: if the ids are unevenly spaced (``--array=1,3,7``), so that the id does not tell which of the
                tasks this is, or the variables are not integers.
        """
        if _ID not in environment:
            return None
        task, count, low, high = (_integer(environment, name) for name in (_ID, _COUNT, _MIN, _MAX))
        step, rest = divmod(high - low, count - 1) if count > 1 else (1, high - low)
        if rest or step < 1 or (task - low) % step:
            raise ValueError(
                f"the {count} tasks of this SLURM array have the ids {low} to {high} unevenly spaced, so that task "
                f"{task} cannot tell which part it is: use --array=0-{max(count - 1, 0)}, or give --shard K/N"
            )
        return cls((task - low) // step, count)

    def take(self, items: Sequence[T]) -> list[T]:
        """Return every ``count``-th item, from ``number`` on: the parts are disjoint, and of one length within one."""
        return list(items[self.number :: self.count])


def _integer(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        raise ValueError(
            f"{_ID} is set, but {name} is {environment.get(name)!r}, not an integer: give --shard K/N"
        ) from None


@dataclass(frozen=True)
class Recipe:
    """What an image follows from, beside its latents, its sampling seed and the resolution.

    Attributes:
        world: the law that makes a scene out of latents, with the hue map.
        quality: settings of the sampler and the denoiser.
        blender: series of Blender, "4.5" say; None until a worker has told it.
    """

    world: World
    quality: Quality
    blender: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as plain data, for ``Manifest.render``. The factors stand in the manifest itself."""
        world = self.world.to_json()
        del world["factors"]
        return {
            "hue_map": world.pop("hue_map"),
            "quality": self.quality.to_json(),
            "blender": self.blender,
            "world": world,
        }

    @classmethod
    def of(cls, manifest: Manifest) -> "Recipe":
        """Return the recipe of a rendered dataset.

        Raises:
            DatasetError: if its manifest does not say how its images were made, or not in a way that is understood.
        """
        try:
            data = dict(manifest.render)
            world = {"factors": manifest.factors.to_json(), "hue_map": data["hue_map"], **data["world"]}
            return cls(World.from_json(world), Quality.from_json(data["quality"]), data["blender"])
        except KeyError as error:
            raise DatasetError(
                f"the manifest does not say how the images were made: render.{error.args[0]} is missing; only "
                "datasets that python -m render made can be rendered again"
            ) from error
        except (TypeError, ValueError) as error:
            raise DatasetError(f"the manifest describes its images in a way that is not understood: {error}") from error


def series_of(blender: str) -> str:
    """Return the series that a version of Blender belongs to: "4.5" for "4.5.15 LTS"."""
    return ".".join(blender.split(".")[:2])


if TYPE_CHECKING:  # it loads torch, which a dataset without exact positives is rendered without
    from ident3d.conditionals import Conditional


_SHARD_BYTES = 80_000_000
_SHARD_ROWS = 1000
_SHARDS_OF_A_SPLIT = 16
_FEWEST_ROWS = 8


class ImageId(NamedTuple):
    """Which image of a dataset.

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
    """

    name: str
    split: str
    rows: range


@dataclass(frozen=True, eq=False)
class Plan:
    """The images of a dataset.

    Attributes:
        manifest: the settings.
        recipe: how images are made; it stands in the manifest too.
        given: (N, d) float32, raw latents of the split "train" that were given; None where they follow from the seed.
        conditional: what exact positives are drawn from; None where there are none.
    """

    manifest: Manifest
    recipe: Recipe
    given: npt.NDArray[np.float32] | None = None
    conditional: "Conditional | None" = None

    @property
    def shards(self) -> list[Shard]:
        """Every planned shard, split by split."""
        manifest = self.manifest
        return [Shard(name, split, rows) for split in manifest.splits for name, rows in manifest.planned(split)]

    def latents(self, shard: Shard) -> npt.NDArray[np.float32]:
        """Return the (n, d) float32 raw latents of a shard's rows."""
        rows = shard.rows
        if self.given is not None and shard.split == "train":
            return self.given[rows.start : rows.stop]
        return sample_latents(len(rows), self._seed, rows.start, split=shard.split, factors=self.manifest.factors)

    def latents_pos(self, shard: Shard) -> npt.NDArray[np.float32] | None:
        """Return the (n, d) float32 raw latents of a shard's exact positives; None where there are none."""
        if self.conditional is None:
            return None
        return exact_positives(
            self.latents(shard), self.conditional, self._seed, split=shard.split, start=shard.rows.start
        )

    def entries(self, shard: Shard) -> list[Entry]:
        """Return what the journal of a shard holds when it is complete, in the order of the jobs."""
        kinds = (False,) if self.conditional is None else (False, True)
        return [Entry(row, positive) for row in shard.rows for positive in kinds]

    def jobs(self, shard: Shard, done: Container[Entry] = ()) -> Iterator[Job[ImageId]]:
        """Yield the images of a shard that are not done yet.

        Args:
            shard: one of :attr:`shards`.
            done: the images that are there.
        """
        latents, latents_pos = self.latents(shard), self.latents_pos(shard)
        for entry in self.entries(shard):
            if entry not in done:
                table = latents_pos if entry.positive and latents_pos is not None else latents
                yield self.job(ImageId(shard.split, *entry), table[entry.row - shard.rows.start])

    def job(self, image: ImageId, latents: npt.NDArray[np.float32]) -> Job[ImageId]:
        """Return what an image shows, and the seed of its sampling noise.

        Args:
            image: which image.
            latents: (d,) float32, its raw latents.
        """
        purpose = "render-positive" if image.positive else "render"
        seed = integer_seed(self._seed, f"{purpose}/{image.split}", image.row)
        return Job(image, self.recipe.world.scene(latents), seed)

    def images(self, shards: Iterable[Shard]) -> int:
        """Return how many images some shards hold, exact positives included."""
        return sum(len(shard.rows) for shard in shards) * (1 if self.conditional is None else 2)

    def with_blender(self, series: str) -> "Plan":
        """Return this plan for a series of Blender, "4.5" say."""
        recipe = replace(self.recipe, blender=series)
        return replace(self, recipe=recipe, manifest=replace(self.manifest, render=recipe.to_json()))

    @property
    def _seed(self) -> int:
        seed = self.manifest.seed
        if seed is None:
            raise ValueError("a dataset without a seed cannot be rendered")
        return seed


def rows_per_shard(largest_split: int, bytes_per_row: float) -> int:
    """Return how many rows a shard holds unless somebody says otherwise.

    At most 1,000 and about 80 MB; fewer for a small dataset, so that it still divides into parts.

    Args:
        largest_split: rows of the largest split.
        bytes_per_row: estimated size of a row's images.
    """
    few = max(_FEWEST_ROWS, -(-largest_split // _SHARDS_OF_A_SPLIT))
    return max(1, min(_SHARD_ROWS, few, int(_SHARD_BYTES / bytes_per_row)))
