"""The options of a dataset: what to render, and which part of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy.typing as npt

from ident3d.scene.templates import HueMap
from ident3d.scene.world import World
from render.blender.quality import DEFAULT_QUALITY, Quality
from render.engines import ENGINES, LiveQuality

if TYPE_CHECKING:  # it loads torch, which only exact positives need
    from ident3d.conditionals import Conditional

__all__ = ["DatasetSpec", "Part", "find_quality", "find_world"]

T = TypeVar("T")

_ID, _COUNT, _MIN, _MAX = (f"SLURM_ARRAY_TASK_{name}" for name in ("ID", "COUNT", "MIN", "MAX"))


@dataclass(frozen=True)
class Part:
    """Part ``number`` of ``count`` parts of a dataset, counted from 0.

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
            raise ValueError(f"expected a part as K/N, for example 0/4 for the first of four; got {text!r}")
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
        """Return every ``count``-th item from ``number`` on: parts are disjoint and differ by at most one in length."""
        return list(items[self.number :: self.count])


def _integer(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        raise ValueError(
            f"{_ID} is set, but {name} is {environment.get(name)!r}, not an integer: give --shard K/N"
        ) from None


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetSpec:
    """A dataset to render. Numbers and files are checked when it is planned.

    Attributes:
        train: images of the split "train"; 250,000 where None, or as many as ``latents`` has rows.
        test: images of the split "test"; 25,000 where None, or none where latents are given.
        resolution: width and height in pixels, 4 or larger.
        seed: seed of the latents and of the sampling noise, 0 or larger.
        engine: what renders: "cycles", Blender's renderer, or "live", :mod:`ident3d.live`, whose images differ a little
            from those of Cycles.
        quality: settings of the engine, or the name of a preset, one of ``render.blender.quality.QUALITIES`` or
            ``ident3d.live.QUALITIES``.
        world: maps latents to scenes; a world, or its JSON file. Where None, the world of the dataset that the folder
            already holds, and that of 3DIdent in a new folder.
        hue_map: maps hue angles to colours, in place of the world's own map; None for that.
        latents: (N, number of factors) raw latents of the split "train" in [-1, 1], or a .npy file of them; where
            None, they are drawn with the seed.
        latent_space: where the factors named live: "box" or "sphere", the unit sphere.
        factors: names of the factors that are the space's coordinates; empty: all.
        others: values at which other factors are held, by name; those in neither are uniform in [-1, 1].
        pairs: the conditional, or its text, from which an exact positive is drawn for every image, in the space of the
            latents; None for none.
        rows_per_shard: rows of a Parquet shard; where None, those of the dataset that the folder already holds, and in
            a new folder up to 1,000, fewer for a small dataset.
        part: which of the shards to render.
    """

    train: int | None = None
    test: int | None = None
    resolution: int = 224
    seed: int = 0
    engine: str = "cycles"
    quality: Quality | LiveQuality | str = DEFAULT_QUALITY
    world: World | Path | None = None
    hue_map: HueMap | str | None = None
    latents: npt.ArrayLike | Path | None = None
    latent_space: Literal["box", "sphere"] = "box"
    factors: Sequence[str] = ()
    others: Mapping[str, float] = field(default_factory=dict)
    pairs: "Conditional | str | None" = None
    rows_per_shard: int | None = None
    part: Part = Part()


def find_quality(quality: Quality | LiveQuality | str, engine: str = "cycles") -> Quality | LiveQuality:
    """Return a quality, or an engine's preset of that name.

    Raises:
        ValueError: if the name or the engine is unknown, or the quality is one of another engine.
    """
    found = ENGINES.find(engine).find_quality(quality) if isinstance(quality, str) else quality
    if found.engine != engine:
        raise ValueError(f"{found.name} is a quality of the engine {found.engine}, not of {engine}")
    return found


def find_world(world: World | Path | None, hue_map: HueMap | str | None) -> World:
    """Return a world, that of a file, or that of 3DIdent; with another hue map if one is given.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if it does not describe a world, with a line for each fault, or the hue map is unknown.
    """
    found = World.read(world) if isinstance(world, Path) else world or World()
    return found if hue_map is None else found.with_hue_map(hue_map)
