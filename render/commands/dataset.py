"""``python -m render ROOT``: renders a dataset, or goes on with one."""

import hashlib
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import tyro

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from ident3d.factors import FACTORS
from ident3d.latents import check_latents
from ident3d.scene.world import World
from ident3d.storage.manifest import Manifest
from render.blender.quality import quality
from render.commands.hardware import Hardware, HueMapName, QualityName
from render.dataset.folder import image_bytes, started
from render.dataset.merge import merge
from render.dataset.plan import Part, Plan, Recipe, rows_per_shard
from render.dataset.render import Production, produce

if TYPE_CHECKING:  # it loads torch
    from ident3d.conditionals import Conditional

__all__ = ["Dataset"]

_LOG = logging.getLogger("ident3d.render")
_SMALLEST_RESOLUTION = 4  # Blender renders nothing smaller
_MOST_SHARDS = 99_999  # the names of shards have five digits
_PUBLISHED = {"train": 250_000, "test": 25_000}


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Render 3DIdent into a folder, or go on with what is there.

    Examples:
        python -m render data/3dident                 # the published numbers, 224x224
        python -m render data/small --train 6000 --test 1000 --resolution 64
        python -m render data/pairs --train 10000 --test 0 --pairs 'normal(sigma=0.1)'
        python -m render data/3dident --shard 0/4     # one of four machines that share the folder
        python -m render data/3dident --merge         # once all of them are done
    """

    root: tyro.conf.Positional[Path]
    """Folder of the dataset. It is made if it is not there; a run that was stopped goes on where it was."""
    train: int | None = None
    """Images of the split "train"; 250,000 by default, or as many as --latents has rows."""
    test: int | None = None
    """Images of the split "test"; 25,000 by default, or none with --latents."""
    resolution: int = 224
    """Width and height in pixels."""
    seed: int = 0
    """Seed of the latents and of the sampling noise."""
    quality: QualityName = "standard"
    """"published" is what the authors of 3DIdent set, "standard" is near it and far faster, "draft" is for a look."""
    hue_map: HueMapName = "wrapped"
    """How hue angles become colours: "wrapped" is injective, "published" is that of the downloadable images."""
    shard: str | None = None
    """Render part K/N only, K from 0 to N - 1: every N-th Parquet shard. The tasks of a SLURM array know their part."""
    latents: Path | None = None
    """A .npy file with raw latents of the split "train", (N, 10) in [-1, 1]; the seed draws those of "test"."""
    pairs: str | None = None
    """Render an exact positive beside every image, from a conditional: "normal(sigma=0.1)"."""
    rows_per_shard: int | None = None
    """Rows in a Parquet shard; by default up to 1,000, and fewer in a small dataset."""
    merge: bool = False
    """Render nothing: list the parts that lie in ROOT as one dataset, and check that nothing is missing or doubled."""
    json: bool = False
    """Print what was done as JSON."""

    hardware: Hardware = field(default_factory=Hardware)

    def run(self) -> int:
        """Render; return the exit status."""
        if self.merge:
            return self._merge()
        part = self._part(os.environ)
        plan = self.plan()
        if not part.take(plan.shards):
            _LOG.info("part %s holds no shard: the dataset has %d (--rows-per-shard)", part, len(plan.shards))
            return EXIT_OK
        production = produce(self.root, plan, part, self.hardware.pool(plan.recipe.quality, self.resolution))
        if self.json:
            write_json(self._outcome(production))
        else:
            sys.stdout.write(self._summary(production))
        return EXIT_OK

    def plan(self) -> Plan:
        """Return the dataset that the options describe.

        Raises:
            ValueError: if an option, or the array of latents, is not usable.
            FileNotFoundError: if there is no file of latents.
        """
        _check_at_least("resolution", self.resolution, _SMALLEST_RESOLUTION)
        _check_at_least("seed", self.seed, 0)
        given, conditional = self._given(), self._conditional()
        splits = self._splits(given)
        recipe = Recipe(World().with_hue_map(self.hue_map), quality(self.quality))
        manifest = Manifest(
            splits=splits,
            rows_per_shard=self._rows_per_shard(splits),
            resolution=self.resolution,
            factors=recipe.world.factors,
            seed=self.seed,
            latents="uniform" if given is None else {split: _source(split, given) for split in splits},
            pairs=None if conditional is None else str(conditional),
            render=recipe.to_json(),
        )
        most = max(map(manifest.shards_of, splits))
        if most > _MOST_SHARDS:
            raise ValueError(f"{most:,} shards are more than the {_MOST_SHARDS:,} that have names: --rows-per-shard")
        return Plan(manifest, recipe, given, conditional)

    def _part(self, environment: Mapping[str, str]) -> Part:
        if self.shard is not None:
            return Part.parse(self.shard)
        part = Part.from_slurm(environment)
        if part is None:
            return Part()
        _LOG.info("part %s, by SLURM_ARRAY_TASK_ID=%s", part, environment["SLURM_ARRAY_TASK_ID"])
        return part

    def _splits(self, given: npt.NDArray[np.float32] | None) -> dict[str, int]:
        defaults = _PUBLISHED if given is None else {"train": len(given), "test": 0}
        asked = {"train": self.train, "test": self.test}
        splits = {split: defaults[split] if count is None else count for split, count in asked.items()}
        for split, count in splits.items():
            _check_at_least(split, count, 0)
        if given is not None and splits["train"] != len(given):
            raise ValueError(f"--train {splits['train']} and {self.latents} with {len(given)} rows: leave --train out")
        splits = {split: count for split, count in splits.items() if count}
        if not splits:
            raise ValueError("there is nothing to render: --train and --test are both 0")
        return splits

    def _given(self) -> npt.NDArray[np.float32] | None:
        if self.latents is None:
            return None
        try:
            array = np.load(self.latents, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{self.latents} is no .npy file of numbers: {error}") from error
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{self.latents} is an archive of arrays; expected one array, as numpy.save writes it")
        try:
            latents = check_latents(array, FACTORS)
        except ValueError as error:
            raise ValueError(f"{self.latents}: {error}") from error
        if not len(latents):
            raise ValueError(f"{self.latents} holds no row of latents")
        return latents

    def _conditional(self) -> "Conditional | None":
        if self.pairs is None:
            return None
        from ident3d.conditionals import parse
        from ident3d.spaces import Box

        conditional = parse(self.pairs, FACTORS)
        conditional.check(Box(len(FACTORS)))
        return conditional

    def _rows_per_shard(self, splits: Mapping[str, int]) -> int:
        if self.rows_per_shard is not None:
            _check_at_least("rows-per-shard", self.rows_per_shard, 1)
            return self.rows_per_shard
        begun = started(self.root)
        if begun is not None:
            return begun.rows_per_shard
        size = image_bytes(self.resolution) * (1 if self.pairs is None else 2)
        return rows_per_shard(max(splits.values()), size)

    def _merge(self) -> int:
        manifest, faults = merge(self.root)
        planned = sum(map(manifest.shards_of, manifest.splits))
        if self.json:
            write_json({"shards": len(manifest.shards), "planned_shards": planned, "faults": list(faults)})
        else:
            sys.stdout.writelines(f"{fault}\n" for fault in faults)
            counts = f"{len(manifest.shards)} of {planned} shards"
            sys.stdout.write(f"{self.root}: {counts}{'' if faults else ', none missing, none doubled'}\n")
        return EXIT_FAILED if faults else EXIT_OK

    @staticmethod
    def _outcome(production: Production) -> dict[str, int | float | bool]:
        manifest, outcome = production.manifest, production.outcome
        return {
            "rows": sum(record.rows for record in manifest.shards),
            "planned_rows": sum(manifest.splits.values()),
            "shards": len(manifest.shards),
            "complete": manifest.is_complete,
            "rendered": outcome.rendered,
            "kept": outcome.kept,
            "shards_elsewhere": len(outcome.elsewhere),
            "seconds": production.seconds,
        }

    def _summary(self, production: Production) -> str:
        manifest, outcome = production.manifest, production.outcome
        rows = f"{sum(r.rows for r in manifest.shards):,} of {sum(manifest.splits.values()):,} rows"
        lines = [f"{self.root}: {rows}, in {len(manifest.shards)} shards"]
        if outcome.rendered:
            rate = f"{outcome.rendered / production.seconds:.3g} a second"
            kept = f"; {outcome.kept:,} were there from an earlier run" if outcome.kept else ""
            lines.insert(0, f"{outcome.rendered:,} images rendered, {rate}{kept}")
        if outcome.elsewhere:
            lines.append(f"{len(outcome.elsewhere)} shards are being rendered by another process")
        if manifest.is_complete:
            lines.append(f"complete; next: ident3d verify {self.root}")
        else:
            lines.append(f"not complete; once the other parts are there: python -m render {self.root} --merge")
        return "".join(f"{line}\n" for line in lines)


def _check_at_least(option: str, value: int, lowest: int) -> None:
    if value < lowest:
        raise ValueError(f"--{option} is {lowest} or larger, not {value}")


def _source(split: str, given: npt.NDArray[np.float32]) -> str:
    """Return what a manifest says of the latents of a split where those of "train" were given."""
    if split != "train":
        return "uniform"
    return hashlib.sha256(np.ascontiguousarray(given, dtype="<f4").tobytes()).hexdigest()
