"""``python -m render ROOT``: renders a dataset, or resumes one."""

import logging
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from ident3d.factors import held_factors
from render.blender.pool import PoolSpec
from render.blender.quality import DEFAULT_QUALITY
from render.commands.options import AnyQualityName, EngineName, HueMapName, LatentSpaceName
from render.dataset.merge import merge_parts
from render.dataset.render import RenderReport, render_dataset
from render.dataset.spec import DatasetSpec, Part

__all__ = ["Dataset"]

_LOG = logging.getLogger("ident3d.render")


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Render 3DIdent, or a variant of it, into a folder, or resume a run that was stopped.

    Examples:
        python -m render data/3dident                 # the published numbers, 224x224
        python -m render data/small --train 6000 --test 1000 --resolution 64
        python -m render data/pairs --train 10000 --test 0 --pairs 'normal(sigma=0.1)'
        python -m render data/variant --world examples/saturation.json
        python -m render data/live --engine live --train 20000 --test 2000 --resolution 64
        python -m render data/sphere --latent-space sphere --factors position_x position_y object_hue ground_hue
        python -m render data/3dident --shard 0/4     # one of four machines that share the folder
        python -m render data/3dident --merge         # once all four are done
    """

    root: tyro.conf.Positional[Path]
    """Folder of the dataset, created if it does not exist; a run that was stopped is resumed."""
    train: int | None = DatasetSpec.train
    """Images of the split "train"; 250,000 by default, or as many as --latents has rows."""
    test: int | None = DatasetSpec.test
    """Images of the split "test"; 25,000 by default, or none with --latents."""
    resolution: int = DatasetSpec.resolution
    """Width and height in pixels."""
    seed: int = DatasetSpec.seed
    """Seed of the latents and of the sampling noise."""
    engine: EngineName = "cycles"
    """"cycles" is Blender's renderer; "live" computes nearly the same images by its formulas, without Blender."""
    quality: AnyQualityName = DEFAULT_QUALITY
    """"published" is what the authors of 3DIdent set, "standard" is close to it and far faster, "draft" is for a quick
    look; the live engine has "draft", "standard" and "fine"."""
    world: Path | None = None
    """A world as JSON: other factors, ranges, objects, lights, colours. By default that of the dataset in ROOT, or in a
    new folder that of 3DIdent, which "python -m render world" writes as a start."""
    hue_map: HueMapName | None = None
    """How hue angles map to colours: "wrapped" is injective, "published" is that of the downloadable images. By default
    the world decides: "wrapped" in that of 3DIdent."""
    shard: str | None = None
    """Render only part K/N, K from 0 to N - 1: every N-th Parquet shard. By default a task of a SLURM array renders its
    part, and any other process all."""
    latents: Path | None = None
    """A .npy file with raw latents of the split "train", one column per factor, in [-1, 1]; those of "test" are drawn
    with the seed."""
    latent_space: LatentSpaceName = "box"
    """Where the factors named live: the box [-1, 1]^d, or the unit sphere."""
    factors: tuple[str, ...] = ()
    """Factors that are the coordinates of that space; by default all."""
    others: tuple[str, ...] = ()
    """Values in [-1, 1] at which other factors are held, each as NAME=VALUE; those in neither are uniform."""
    pairs: str | None = None
    """Render an exact positive of every image, drawn from a conditional: "normal(sigma=0.1)"."""
    rows_per_shard: int | None = DatasetSpec.rows_per_shard
    """Rows of a Parquet shard; by default up to 1,000, and fewer in a small dataset."""
    merge: bool = False
    """Render nothing: list the parts in ROOT as one dataset, and check that nothing is missing or duplicated."""
    config: Path | None = None
    """TOML file with options by their names; options given here come before it."""
    json: bool = False
    """Print what was done as JSON."""

    pool: PoolSpec = field(default_factory=PoolSpec)

    def run(self) -> int:
        """Render; return the exit status."""
        if self.merge:
            return self._merge()
        report = render_dataset(self.root, self._spec(), self.pool)
        if self.json:
            write_json(_plain(report))
        else:
            sys.stdout.write(_summary(self.root, report))
        return EXIT_OK

    def _spec(self) -> DatasetSpec:
        return DatasetSpec(
            train=self.train,
            test=self.test,
            resolution=self.resolution,
            seed=self.seed,
            engine=self.engine,
            quality=self.quality,
            latent_space=self.latent_space,
            factors=self.factors,
            others=held_factors(self.others),
            world=self.world,
            hue_map=self.hue_map,
            latents=self.latents,
            pairs=self.pairs,
            rows_per_shard=self.rows_per_shard,
            part=_part(self.shard),
        )

    def _merge(self) -> int:
        report = merge_parts(self.root, pairs=self.pairs)
        shards, planned, faults = len(report.manifest.shards), report.planned_shards, report.faults
        if self.json:
            write_json({"shards": shards, "planned_shards": planned, "faults": list(faults)})
        else:
            sys.stdout.writelines(f"{fault}\n" for fault in faults)
            end = "" if faults else ", none missing, none duplicated"
            sys.stdout.write(f"{self.root}: {shards} of {planned} shards{end}\n")
        return EXIT_FAILED if faults else EXIT_OK


def _part(shard: str | None) -> Part:
    """Return the part that the option names, or else that of a task of a SLURM array, or else the whole."""
    if shard is not None:
        return Part.parse(shard)
    part = Part.from_slurm(os.environ)
    if part is None:
        return Part()
    _LOG.info("part %s, from SLURM_ARRAY_TASK_ID=%s", part, os.environ["SLURM_ARRAY_TASK_ID"])
    return part


def _plain(report: RenderReport) -> dict[str, int | float | bool]:
    return {
        "rows": sum(record.rows for record in report.manifest.shards),
        "planned_rows": sum(report.manifest.splits.values()),
        "shards": len(report.manifest.shards),
        "complete": report.manifest.is_complete,
        "rendered": report.rendered,
        "kept": report.kept,
        "shards_elsewhere": len(report.elsewhere),
        "seconds": report.seconds,
    }


def _summary(root: Path, report: RenderReport) -> str:
    manifest = report.manifest
    rows = f"{sum(r.rows for r in manifest.shards):,} of {sum(manifest.splits.values()):,} rows"
    lines = [f"{root}: {rows}, in {len(manifest.shards)} shards"]
    if report.rendered:
        rate = f"{report.rendered / report.seconds:.3g} per second"
        kept = f"; {report.kept:,} kept from an earlier run" if report.kept else ""
        lines.insert(0, f"{report.rendered:,} images rendered, {rate}{kept}")
    if report.elsewhere:
        lines.append(f"{len(report.elsewhere)} shards are being rendered by another process")
    if manifest.is_complete:
        lines.append(f"complete; next: ident3d verify {root}")
    else:
        lines.append(f"not complete; once the other parts are done: python -m render {root} --merge")
    return "".join(f"{line}\n" for line in lines)
