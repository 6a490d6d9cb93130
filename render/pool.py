"""A pool of worker processes that turns jobs into pictures."""

import os
import queue
import threading
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from ident3d.scene.scene import Scene
from render.errors import RenderError
from render.keeper import Keeper, Patience
from render.program import Program
from render.settings import About, Settings

__all__ = ["Job", "Pool"]

K = TypeVar("K", bound=Hashable)
_PATIENCE = Patience()


class Job(NamedTuple, Generic[K]):
    """A picture to be rendered.

    Attributes:
        key: whatever tells the caller which picture it is.
        scene: what the picture shows.
        seed: seed of its sampling noise, 0 or larger and below 2**31.
    """

    key: K
    scene: Scene
    seed: int


class Pool:
    """Worker processes, started on entering the context and all gone on leaving it.

    A worker that dies is replaced and its picture is rendered again; workers that grew or rendered many pictures are
    renewed. The pictures do not depend on any of that, nor on the number of workers.

    Args:
        settings: what is the same for all pictures.
        workers: number of processes, 1 or more.
        blender: another Python that has bpy, or a Blender executable; this Python where None.
        patience: when a worker is replaced, and when a picture is given up.

    Attributes:
        about: what the workers say of themselves; there once the context is entered.

    Raises:
        ValueError: if workers is not positive.
        FileNotFoundError: if there is no file ``blender``.
        BlenderMissingError: if ``blender`` is no program that can render.
    """

    about: About

    def __init__(
        self,
        settings: Settings,
        workers: int = 1,
        *,
        blender: str | os.PathLike[str] | None = None,
        patience: Patience = _PATIENCE,
    ) -> None:
        if workers < 1:
            raise ValueError(f"expected 1 or more workers, not {workers}")
        program = Program.find(blender)
        self._keepers = [Keeper(program, settings, patience) for _ in range(workers)]
        self._threads = [threading.Thread(target=self._serve, args=(keeper,), daemon=True) for keeper in self._keepers]
        self._open = False
        self._jobs: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, bytes] | Exception] = queue.SimpleQueue()

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes that are there now."""
        return [pid for keeper in self._keepers if (pid := keeper.pid) is not None]

    def __enter__(self) -> Self:
        """Start the first worker, which shows whether this machine can render; the others start with their first job.

        Raises:
            BlenderMissingError: if the workers cannot load Blender.
            DeviceMissingError: if the device that was asked for is not there.
            WorkerDiedError: if the first worker ends before it is ready.
        """
        first = self._keepers[0]
        try:
            self.about = first.start()
        except BaseException:
            first.interrupt()
            first.close()
            raise
        for thread in self._threads:
            thread.start()
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the workers: idle ones in peace; all at once when an error, or Ctrl-C, ends the context."""
        if kind is not None:
            self._interrupt()
        self._open = False
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def render(self, jobs: Iterable[Job[K]]) -> Iterator[tuple[K, bytes]]:
        """Render jobs and yield (key, PNG) as they are done, in any order.

        Jobs are taken from the iterable as workers become free, in the caller's thread. When a picture fails, those
        that are being rendered are still yielded, no others are begun, and then the error is raised. A caller that
        stops before the end ends the workers: no other jobs can be rendered then.

        Raises:
            RenderError: if Blender refused a picture, or the pool has no workers.
            WorkerDiedError: if a picture ended as many workers as it may; the message holds the last one's last words.
        """
        if not self._open:
            raise RenderError("this pool has no workers: it was not entered, or stopped in the middle of its work")
        waiting = iter(jobs)
        failure: Exception | None = None
        pending = 0
        try:
            for job in islice(waiting, 2 * len(self._threads)):  # each worker finds its next job at hand
                self._jobs.put(job)
                pending += 1
            while pending:
                outcome = self._done.get()
                pending -= 1
                if isinstance(outcome, Exception):
                    failure = failure or outcome
                    pending -= self._withdraw()
                    continue
                for job in islice(waiting, 0 if failure else 1):
                    self._jobs.put(job)
                    pending += 1
                yield outcome
        finally:
            if pending:
                self._interrupt()
        if failure is not None:
            raise failure

    def _serve(self, keeper: Keeper) -> None:
        """Render jobs until None comes: the work of one thread."""
        while (job := self._jobs.get()) is not None:
            try:
                self._done.put((job.key, keeper.render(job.scene, job.seed, repr(job.key))))
            except Exception as error:  # noqa: BLE001 - it is raised again in the caller's thread
                self._done.put(error)
        keeper.close()

    def _withdraw(self) -> int:
        """Take back the jobs that no worker has begun; return how many."""
        withdrawn = 0
        try:
            while True:
                self._jobs.get_nowait()
                withdrawn += 1
        except queue.Empty:
            return withdrawn

    def _interrupt(self) -> None:
        self._open = False
        self._withdraw()
        for keeper in self._keepers:
            keeper.interrupt()
