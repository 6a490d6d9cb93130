"""From planned shards to finished ones: jobs to the workers, pictures to the journals, journals to shards."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ident3d.storage.picture import decode, encode_png
from render.assembly import Assembly
from render.journal import Entry, Journal, JournalBusyError
from render.plan import PictureId, Shard
from render.pool import Job

__all__ = ["Outcome", "Renderer", "render_shards"]

_LOG = logging.getLogger("ident3d.render")


class Renderer(Protocol):
    """Whatever turns jobs into pictures: a pool of workers."""

    def render(self, jobs: Iterable[Job[PictureId]]) -> Iterator[tuple[PictureId, bytes]]:
        """Yield (id, PNG) for every job, in any order."""


class Progress(Protocol):
    """Whatever counts pictures: a progress bar."""

    def update(self, n: int) -> object:
        """Count ``n`` pictures that were rendered."""

    def skip(self, n: int) -> object:
        """Count ``n`` pictures that were there already, which say nothing about the pace."""


@dataclass
class Outcome:
    """What came of a run.

    Attributes:
        rendered: number of pictures that were rendered.
        kept: number of pictures that an earlier run had left in journals.
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

    Every picture goes to its shard's journal as it comes, so that nothing is lost however this ends. The next shard is
    begun while the last pictures of the one before are being rendered.

    Args:
        assembly: the folder.
        shards: the unfinished shards to render.
        renderer: makes the pictures.
        made_by: what renders, for the shards' records.
        progress: counts the pictures.

    Raises:
        RenderError: if a picture cannot be rendered.
        OSError: if a picture cannot be written.
    """
    run = _Run(assembly, made_by, progress)
    try:
        for picture, png in renderer.render(run.jobs(shards)):
            run.keep(picture, png)
    finally:
        run.close()
    return run.outcome


@dataclass(eq=False)
class _Begun:
    """A shard that is being rendered, and how many of its pictures are still to come."""

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
    awaited: dict[PictureId, _Begun] = field(default_factory=dict)

    def jobs(self, shards: Sequence[Shard]) -> Iterator[Job[PictureId]]:
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

    def keep(self, picture: PictureId, png: bytes) -> None:
        """Put a picture into its journal, in our own encoding, and finish the shard that it completes."""
        begun = self.awaited.pop(picture)
        encoded = encode_png(decode(png, f"the new picture of {picture}"))
        begun.journal.append(Entry(picture.row, picture.positive), encoded)
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
