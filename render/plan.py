"""Which pictures a dataset consists of, shard by shard, and what each of them shows.

Everything about a picture follows from the manifest and its :class:`PictureId`: it is the same alone, in any range, in
any part and with any number of workers.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ident3d.exact_positives import exact_positives
from ident3d.latents import sample_latents
from ident3d.randomness import integer_seed
from ident3d.storage.manifest import Manifest
from render.journal import Entry
from render.pool import Job
from render.recipe import Recipe

if TYPE_CHECKING:  # it loads torch, which a dataset without exact positives is rendered without
    from ident3d.conditionals import Conditional

__all__ = ["PictureId", "Plan", "Shard", "rows_per_shard"]

_SHARD_BYTES = 80_000_000
_SHARD_ROWS = 1000
_SHARDS_OF_A_SPLIT = 16
_FEWEST_ROWS = 8


class PictureId(NamedTuple):
    """Which picture of a dataset.

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
    """The pictures of a dataset.

    Attributes:
        manifest: the settings.
        recipe: how pictures are made; it stands in the manifest too.
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

    def jobs(self, shard: Shard, done: Container[Entry] = ()) -> Iterator[Job[PictureId]]:
        """Yield the pictures of a shard that are not done yet.

        Args:
            shard: one of :attr:`shards`.
            done: the pictures that are there.
        """
        latents, latents_pos = self.latents(shard), self.latents_pos(shard)
        for entry in self.entries(shard):
            if entry not in done:
                table = latents_pos if entry.positive and latents_pos is not None else latents
                yield self.job(PictureId(shard.split, *entry), table[entry.row - shard.rows.start])

    def job(self, picture: PictureId, latents: npt.NDArray[np.float32]) -> Job[PictureId]:
        """Return what a picture shows, and the seed of its sampling noise.

        Args:
            picture: which picture.
            latents: (d,) float32, its raw latents.
        """
        purpose = "render-positive" if picture.positive else "render"
        seed = integer_seed(self._seed, f"{purpose}/{picture.split}", picture.row)
        return Job(picture, self.recipe.world.scene(latents), seed)

    def pictures(self, shards: Iterable[Shard]) -> int:
        """Return how many pictures some shards hold, exact positives included."""
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
        bytes_per_row: estimated size of a row's pictures.
    """
    few = max(_FEWEST_ROWS, -(-largest_split // _SHARDS_OF_A_SPLIT))
    return max(1, min(_SHARD_ROWS, few, int(_SHARD_BYTES / bytes_per_row)))
