"""Rendering a dataset into a folder: checks, workers, images, and the report of the run."""

import errno
import logging
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ident3d.errors import DatasetError
from ident3d.files import check_disk_space
from ident3d.progress import ProgressBar
from ident3d.storage.images import decode, encode_png
from ident3d.storage.manifest import Manifest
from render.blender.pool import PoolSpec
from render.blender.protocol import Job, Renderer
from render.dataset.journal import Journal, JournalBusyError, JournalKey
from render.dataset.plan import ImageId, Plan, Shard, ShardLatents, image_bytes, plan_dataset
from render.dataset.spec import DatasetSpec, Part
from render.dataset.writer import DatasetWriter, begun_dataset, check_writable
from render.engines import About

__all__ = ["RenderReport", "ShardProgress", "render_dataset", "render_plan", "render_shards"]

_LOG = logging.getLogger("ident3d.render")
_FULL = {errno.ENOSPC, errno.EDQUOT}
_SPACE_MARGIN = 1.1


@dataclass(frozen=True)
class RenderReport:
    """What a run did.

    Attributes:
        manifest: the manifest at the end of the run.
        rendered: number of images that were rendered.
        kept: number of images of unfinished shards that were kept from an earlier run.
        elsewhere: names of the shards that another process is rendering.
        seconds: duration of the rendering, without the start of the workers.
    """

    manifest: Manifest
    rendered: int = 0
    kept: int = 0
    elsewhere: tuple[str, ...] = ()
    seconds: float = 0.0


def render_dataset(root: Path | str, spec: DatasetSpec | None = None, pool: PoolSpec | None = None) -> RenderReport:
    """Render a dataset into a folder, or resume a run that was stopped.

    Everything is checked before the first worker is started. However a run ends, finished images are kept, and the same
    call resumes it. Several processes, on one machine or on many, may render into one folder.

    Example:
        >>> from render import DatasetSpec, PoolSpec, render_dataset
        >>> spec = DatasetSpec(train=6000, test=1000, resolution=64, pairs="normal(sigma=0.1)")
        >>> report = render_dataset("data/small", spec, PoolSpec(workers=2))  # doctest: +SKIP
        >>> report.manifest.is_complete  # doctest: +SKIP
        True

    Args:
        root: the folder; created if it does not exist.
        spec: the dataset; where None, as many images as the published one.
        pool: the workers; where None, on a GPU if one is available, or else on all cores.

    Returns:
        What was done, and the manifest.

    Raises:
        ValueError: if a setting is invalid, or the folder holds something else, or a dataset with other settings.
        FileNotFoundError: if the file of the world, of the latents or of Blender does not exist.
        OSError: if the folder cannot be written or its disk is too small.
        DatasetError: if the manifest in the folder is damaged, or the disk fills up.
        RenderError: if the machine cannot render, or an image cannot be rendered.
    """
    root, spec = Path(root), spec or DatasetSpec()
    begun = begun_dataset(root)
    plan = plan_dataset(spec, begun)
    return render_plan(root, plan, spec.part, pool or PoolSpec(), begun)


def render_plan(root: Path, plan: Plan, part: Part, pool: PoolSpec, begun: Manifest | None) -> RenderReport:
    """Render a part of a planned dataset; see :func:`render_dataset`.

    Args:
        root: the folder.
        plan: the dataset, for a series of Blender that is not known yet.
        part: which of its shards.
        pool: the workers.
        begun: the manifest of the dataset that the folder already holds; None for a new dataset.
    """
    if begun is not None:
        plan = _agreed(plan, begun, root)
    shards = part.take(plan.shards)
    if not shards:
        _LOG.info("part %s holds no shard: the dataset has %d (--rows-per-shard)", part, len(plan.shards))
        return RenderReport(begun or plan.manifest)
    unfinished = shards if begun is None else DatasetWriter(root, plan.manifest).unfinished(shards)
    if not unfinished:
        return RenderReport(DatasetWriter(root, plan.manifest).write_manifest())
    check_writable(root)
    images, resolution = _count(unfinished), plan.images.resolution
    advice = "free some, choose another folder, or render fewer or smaller images"
    check_disk_space(root, images * image_bytes(resolution) * _SPACE_MARGIN, f"rendering {images:,} images", advice)
    with plan.images.workers(pool) as workers:
        plan = _for_series(plan, workers.about)
        writer = DatasetWriter(root, plan.manifest)
        if begun is None:  # a folder that lost its manifest may still hold shards
            unfinished = writer.unfinished(shards)
        writer.write_manifest()  # the settings are written before the first image
        _announce(root, plan, part, unfinished, workers.about)
        start = time.perf_counter()
        report = _render(writer, plan, unfinished, workers, workers.about)
    return replace(report, seconds=time.perf_counter() - start)


class ShardProgress(Protocol):
    """Counts images, as a progress bar does."""

    def update(self, n: int) -> object:
        """Count ``n`` images that were rendered."""

    def skip(self, n: int) -> object:
        """Count ``n`` images that are kept from an earlier run, without effect on the rate."""


def render_shards(
    writer: DatasetWriter,
    plan: Plan,
    shards: Sequence[Shard],
    renderer: Renderer,
    *,
    made_by: Mapping[str, str],
    progress: ShardProgress,
) -> RenderReport:
    """Render shards completely.

    Every image is written to the journal of its shard as soon as it is rendered, so that nothing is lost however this
    ends. The next shard is begun while the last images of the one before are still being rendered.

    Args:
        writer: writes the shards.
        plan: what the images show.
        shards: the unfinished shards to render.
        renderer: renders the images.
        made_by: versions and device of the renderer, for the records of the shards.
        progress: counts the images.

    Raises:
        RenderError: if an image cannot be rendered.
        OSError: if an image cannot be written.
    """
    run = _Run(writer, plan, made_by, progress)
    try:
        for image, png in renderer.render(run.jobs(shards)):
            run.keep(image, png)
    finally:
        run.close()
    return RenderReport(writer.write_manifest(), run.rendered, run.kept, tuple(run.elsewhere))


@dataclass(eq=False)
class _OpenShard:
    """A shard that is being rendered, and how many of its images are still to come."""

    shard: Shard
    latents: ShardLatents
    journal: Journal
    missing: int


@dataclass(eq=False)
class _Run:
    writer: DatasetWriter
    plan: Plan
    made_by: Mapping[str, str]
    progress: ShardProgress
    rendered: int = 0
    kept: int = 0
    elsewhere: list[str] = field(default_factory=list)
    open: list[_OpenShard] = field(default_factory=list)
    awaited: dict[ImageId, _OpenShard] = field(default_factory=dict)

    def jobs(self, shards: Sequence[Shard]) -> Iterator[Job[ImageId]]:
        for shard in shards:
            opened = self.begin(shard)
            if opened is None:
                continue
            done = frozenset(ImageId(shard.split, *key) for key in opened.journal.present)
            for job in self.plan.jobs(shard, opened.latents, done):
                self.awaited[job.key] = opened
                yield job

    def begin(self, shard: Shard) -> _OpenShard | None:
        """Open a shard's journal; return None if nothing is left to render in it."""
        try:
            journal = self.writer.journal(shard)
        except JournalBusyError:
            self.elsewhere.append(shard.name)
            return None
        images = shard.images
        if self.writer.record(shard) is not None:  # another process finished it since the folder was checked
            journal.delete()
            self.progress.skip(len(images))
            return None
        kept = sum(JournalKey(image.row, image.positive) in journal.present for image in images)
        self.kept += kept
        self.progress.skip(kept)
        opened = _OpenShard(shard, self.plan.latents(shard), journal, len(images) - kept)
        self.open.append(opened)
        if opened.missing == 0:
            self.finish(opened)
            return None
        return opened

    def keep(self, image: ImageId, png: bytes) -> None:
        """Write an image to its journal, in our own encoding, and finish its shard if it was the last one."""
        opened = self.awaited.pop(image)
        encoded = encode_png(decode(png, f"the new image of {image}"))
        opened.journal.append(JournalKey(image.row, image.positive), encoded)
        opened.missing -= 1
        self.rendered += 1
        self.progress.update(1)
        if opened.missing == 0:
            self.finish(opened)

    def finish(self, opened: _OpenShard) -> None:
        self.writer.finish(opened.shard, opened.latents, opened.journal, self.made_by)
        self.open.remove(opened)

    def close(self) -> None:
        for opened in self.open:
            opened.journal.close()


def _count(shards: Sequence[Shard]) -> int:
    return sum(len(shard.images) for shard in shards)


def _agreed(plan: Plan, begun: Manifest, root: Path) -> Plan:
    """Return the plan for the series of Blender that the dataset was begun with, if all other settings agree."""
    if plan.images.engine.has_series and "blender" in begun.render:
        plan = plan.with_blender(str(begun.render["blender"]))
    differences = begun.differences(plan.manifest)
    if differences:
        lines = "".join(f"\n  {line}" for line in differences)
        if begun.pairs is not None and plan.conditional is None:
            lines += f"\nGive the conditional of its exact positives again: --pairs {shlex.quote(begun.pairs)}"
        raise ValueError(
            f"{root} holds a dataset with other settings, which is left unchanged: render into another folder, or with "
            f"its settings. Its settings, and those that were asked for:{lines}"
        )
    return plan


def _for_series(plan: Plan, about: About) -> Plan:
    if not plan.images.engine.has_series:
        return plan
    if plan.images.blender not in {None, about.series}:
        raise ValueError(
            f"the dataset was begun with Blender {plan.images.blender}, but these workers run {about.version}, whose "
            f"images differ. --blender PATH names another Blender, or a Python with bpy {plan.images.blender}"
        )
    return plan.with_blender(about.series)


def _announce(root: Path, plan: Plan, part: Part, unfinished: Sequence[Shard], about: About) -> None:
    images = plan.images
    counts = " and ".join(f"{count:,} {split}" for split, count in plan.splits.items())
    pairs = "" if plan.conditional is None else f", each with an exact positive from {plan.conditional}"
    size = f"{images.resolution}x{images.resolution}"
    _LOG.info("%s: %s images at %s, seed %s%s", root, counts, size, images.seed, pairs)
    device = f"{about.device} ({about.device_name}), {about.version}"
    _LOG.info("quality %s, hue map %s; %s", images.quality.name, images.world.hue_map, device)
    of_part = "" if part.count == 1 else f" of part {part}"
    shards = f"{len(unfinished)} of {len(part.take(plan.shards))} shards{of_part}"
    _LOG.info("%s to render, %s images", shards, f"{_count(unfinished):,}")


def _render(
    writer: DatasetWriter, plan: Plan, shards: Sequence[Shard], renderer: Renderer, about: About
) -> RenderReport:
    """Render with a progress bar, and say what is kept when the run is stopped."""
    made_by = plan.images.engine.made_by(about, plan.images.quality)
    try:
        with ProgressBar(_count(shards), unit="images") as bar:
            return render_shards(writer, plan, shards, renderer, made_by=made_by, progress=bar)
    except KeyboardInterrupt:
        _LOG.warning("stopped; finished images are kept, and the same command resumes the run")
        raise
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DatasetError(
            f"the disk of {writer.root} is full; finished images are kept: free some space, and run the same command "
            "again"
        ) from error
