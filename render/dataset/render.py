"""One run of the render command: checks, workers, images, and what came of it."""

import errno
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from ident3d.errors import DatasetError
from ident3d.files import check_disk_space
from ident3d.storage.images import decode, encode_png
from ident3d.storage.manifest import Manifest
from render.blender.pool import Job, Pool
from render.blender.quality import About
from render.dataset.folder import Assembly, check_writable, image_bytes, started
from render.dataset.journal import Entry, Journal, JournalBusyError
from render.dataset.plan import ImageId, Part, Plan, Shard, series_of

__all__ = ["Outcome", "Production", "Renderer", "produce", "render_shards"]

_LOG = logging.getLogger("ident3d.render")


class Renderer(Protocol):
    """Whatever turns jobs into images: a pool of workers."""

    def render(self, jobs: Iterable[Job[ImageId]]) -> Iterator[tuple[ImageId, bytes]]:
        """Yield (id, PNG) for every job, in any order."""


class Progress(Protocol):
    """Whatever counts images: a progress bar."""

    def update(self, n: int) -> object:
        """Count ``n`` images that were rendered."""

    def skip(self, n: int) -> object:
        """Count ``n`` images that were there already, which say nothing about the pace."""


@dataclass
class Outcome:
    """What came of a run.

    Attributes:
        rendered: number of images that were rendered.
        kept: number of images that an earlier run had left in journals.
        elsewhere: shards that another process is rendering.
    """

    rendered: int = 0
    kept: int = 0
    elsewhere: list[Shard] = field(default_factory=list)


def render_shards(
    assembly: Assembly,
    shards: Sequence[Shard],
    renderer: Renderer,
    made_by: Mapping[str, str],
    progress: Progress,
) -> Outcome:
    """Render shards to their end.

    Every image goes to its shard's journal as it comes, so that nothing is lost however this ends. The next shard is
    begun while the last images of the one before are being rendered.

    Args:
        assembly: the folder.
        shards: the unfinished shards to render.
        renderer: makes the images.
        made_by: what renders, for the shards' records.
        progress: counts the images.

    Raises:
        RenderError: if an image cannot be rendered.
        OSError: if an image cannot be written.
    """
    run = _Run(assembly, made_by, progress)
    try:
        for image, png in renderer.render(run.jobs(shards)):
            run.keep(image, png)
    finally:
        run.close()
    return run.outcome


@dataclass(eq=False)
class _Begun:
    """A shard that is being rendered, and how many of its images are still to come."""

    shard: Shard
    journal: Journal
    missing: int


@dataclass(eq=False)
class _Run:
    assembly: Assembly
    made_by: Mapping[str, str]
    progress: Progress
    outcome: Outcome = field(default_factory=Outcome)
    begun: list[_Begun] = field(default_factory=list)
    awaited: dict[ImageId, _Begun] = field(default_factory=dict)

    def jobs(self, shards: Sequence[Shard]) -> Iterator[Job[ImageId]]:
        for shard in shards:
            begun = self.begin(shard)
            if begun is None:
                continue
            for job in self.assembly.plan.jobs(shard, frozenset(begun.journal.entries)):
                self.awaited[job.key] = begun
                yield job

    def begin(self, shard: Shard) -> _Begun | None:
        """Open a shard's journal; None where nothing is left to render in it."""
        try:
            journal = self.assembly.journal(shard)
        except JournalBusyError:
            self.outcome.elsewhere.append(shard)
            return None
        entries = self.assembly.plan.entries(shard)
        if self.assembly.record(shard) is not None:  # another process finished it since the folder was looked at
            journal.delete()
            self.progress.skip(len(entries))
            return None
        kept = sum(entry in journal.entries for entry in entries)
        self.outcome.kept += kept
        self.progress.skip(kept)
        begun = _Begun(shard, journal, len(entries) - kept)
        self.begun.append(begun)
        if begun.missing == 0:
            self.finish(begun)
            return None
        return begun

    def keep(self, image: ImageId, png: bytes) -> None:
        """Put an image into its journal, in our own encoding, and finish the shard that it completes."""
        begun = self.awaited.pop(image)
        encoded = encode_png(decode(png, f"the new image of {image}"))
        begun.journal.append(Entry(image.row, image.positive), encoded)
        begun.missing -= 1
        self.outcome.rendered += 1
        self.progress.update(1)
        if begun.missing == 0:
            self.finish(begun)

    def finish(self, begun: _Begun) -> None:
        self.assembly.finish(begun.shard, begun.journal, self.made_by)
        self.begun.remove(begun)

    def close(self) -> None:
        for begun in self.begun:
            begun.journal.close()


_FULL = {errno.ENOSPC, errno.EDQUOT}
_SPACE_MARGIN = 1.1


class _Bar(tqdm):  # type: ignore[type-arg]  # it is generic in its stubs alone
    """A progress bar whose pace is that of the images that were rendered."""

    def skip(self, n: int) -> None:
        """Count images that were there already."""
        if not self.disable:
            self.initial += n
            self.n += n
            self.last_print_n += n


@dataclass(frozen=True)
class Production:
    """What a run did.

    Attributes:
        manifest: the manifest as it is now.
        outcome: the images of this run.
        seconds: how long the rendering took, without the workers' start.
    """

    manifest: Manifest
    outcome: Outcome
    seconds: float


def produce(root: Path, plan: Plan, part: Part, pool: Pool) -> Production:
    """Render a part of a dataset into a folder, going on with what is there.

    Args:
        root: the folder; made if it is not there.
        plan: the dataset, for a series of Blender that is not known yet.
        part: which of its shards.
        pool: the workers, not started yet.

    Raises:
        ValueError: if the folder holds something else, or a dataset with other settings.
        OSError: if the folder cannot be written or its disk is too small.
        DatasetError: if the disk fills up.
        RenderError: if the machine cannot render, or an image cannot be rendered.
    """
    before = started(root)
    check_writable(root)
    shards = part.take(plan.shards)
    unfinished = shards
    if before is not None:
        plan = _agreed(plan, before, root)
        assembly = Assembly(root, plan)
        unfinished = assembly.unfinished(shards)
        if not unfinished:
            return Production(assembly.compose(), Outcome(), 0.0)
    needed = plan.images(unfinished) * image_bytes(plan.manifest.resolution) * _SPACE_MARGIN
    advice = "free some, choose another folder, or render fewer or smaller images"
    check_disk_space(root, needed, f"rendering {plan.images(unfinished):,} images", advice)
    with pool:
        plan = _for_blender(plan, pool.about)
        assembly = Assembly(root, plan)
        if before is None:  # a folder that lost its manifest may hold shards all the same
            unfinished = assembly.unfinished(shards)
        assembly.compose()  # the settings stand before the first image
        _announce(root, plan, part, unfinished, pool.about)
        start = time.perf_counter()
        outcome = _render(assembly, unfinished, pool)
    return Production(assembly.compose(), outcome, time.perf_counter() - start)


def _agreed(plan: Plan, before: Manifest, root: Path) -> Plan:
    """Return the plan for the series of Blender that a folder was begun with, if all other settings agree."""
    plan = plan.with_blender(str(before.render.get("blender")))
    differences = before.differences(plan.manifest)
    if differences:
        lines = "".join(f"\n  {line}" for line in differences)
        raise ValueError(
            f"{root} holds a dataset with other settings, which stays as it is: render into another folder, or with "
            f"its settings. Its settings against those that were asked for:{lines}"
        )
    return plan


def _for_blender(plan: Plan, about: About) -> Plan:
    series = series_of(about.blender)
    if plan.recipe.blender not in {None, series}:
        raise ValueError(
            f"the dataset was begun with Blender {plan.recipe.blender}, and these workers run {about.blender}: its "
            f"images would differ. --blender PATH names another Blender, or a Python with bpy {plan.recipe.blender}"
        )
    return plan.with_blender(series)


def _announce(root: Path, plan: Plan, part: Part, unfinished: Sequence[Shard], about: About) -> None:
    manifest, recipe = plan.manifest, plan.recipe
    counts = " and ".join(f"{count:,} {split}" for split, count in manifest.splits.items())
    pairs = "" if manifest.pairs is None else f", each with an exact positive from {manifest.pairs}"
    size = f"{manifest.resolution}x{manifest.resolution}"
    _LOG.info("%s: %s images at %s, seed %s%s", root, counts, size, manifest.seed, pairs)
    device = f"{about.device} ({about.device_name}), Blender {about.blender}"
    _LOG.info("quality %s, hue map %s; %s", recipe.quality.name, recipe.world.hue_map, device)
    of_part = "" if part.count == 1 else f" of part {part}"
    shards = f"{len(unfinished)} of {len(part.take(plan.shards))} shards{of_part}"
    _LOG.info("%s to render, %s images", shards, f"{plan.images(unfinished):,}")


def _render(assembly: Assembly, shards: Sequence[Shard], pool: Pool) -> Outcome:
    """Render with a progress bar, and say what is kept when the run is cut short."""
    about, denoiser = pool.about, assembly.plan.recipe.quality.denoiser
    made_by = {
        "blender": about.blender,
        "device": str(about.device),
        "device_name": about.device_name,
        "denoiser": "none" if denoiser is None else "OpenImageDenoise",
    }
    total = assembly.plan.images(shards)
    try:
        with logging_redirect_tqdm(), _Bar(total=total, unit="image", smoothing=0.05, disable=None) as bar:
            return render_shards(assembly, shards, pool, made_by, bar)
    except KeyboardInterrupt:
        _LOG.warning("stopped; the images that are done are kept: the same command goes on from there")
        raise
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DatasetError(
            f"the disk of {assembly.root} is full; the images that are done are kept: free some space, and run the "
            "same command again"
        ) from error
