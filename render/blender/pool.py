"""A pool of worker processes that turns jobs into images."""

import contextlib
import logging
import math
import os
import queue
import threading
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from ident3d.scene.scene import Scene
from render.blender.process import Program, WorkerProcess
from render.blender.protocol import Device, Job, RenderError, Settings, WorkerDiedError, WorkerInfo
from render.blender.quality import Quality

__all__ = ["Pool", "PoolSpec", "Supervisor", "WorkerLimits"]

_LOG = logging.getLogger("ident3d.render")
_WORKERS_ON_A_GPU = 2  # one prepares its scene while the other's is rendered
_WARM_AFTER = 10  # images after which a worker holds all that it needs
_START_S = 300.0  # to load Blender, from a slow disk on a busy machine
_COMPILING_S = 1800.0  # a GPU's driver may compile its kernels before the first image
_SPARE_S = 120.0
_FEWEST_PATHS = 20_000  # per second; one core traces about 600,000
_DENOISING_PATHS = 8  # what denoising a pixel is worth, at most
_STEP_S = 1.0


@dataclass(frozen=True)
class WorkerLimits:
    """When a worker is replaced, and when an image is given up.

    Attributes:
        tries: workers that one image may end before it is given up.
        images: images after which a worker is replaced by a fresh one.
        growth_bytes: growth of a worker's memory, from its tenth image on, after which it is replaced.
        silence_s: seconds without an answer, after which a worker counts as hung and is ended. Where None, five
            minutes for the start and, for an image, 30 times what one core needs at that resolution and quality, and
            two minutes; the first on a GPU takes half an hour more, since the driver may compile its kernels.
    """

    tries: int = 3
    images: int = 20_000
    growth_bytes: int = 2**30
    silence_s: float | None = None

    def __post_init__(self) -> None:
        if min(self.tries, self.images, self.growth_bytes) < 1:
            raise ValueError(f"expected tries, images and growth_bytes of 1 or more, not {self}")
        if self.silence_s is not None and not self.silence_s > 0:
            raise ValueError(f"expected a silence of more than 0 seconds, not {self.silence_s}")

    def start_s(self) -> float:
        """Return after how many seconds a worker that is not ready counts as hung."""
        return _START_S if self.silence_s is None else self.silence_s

    def image_s(self, settings: Settings, *, first: bool) -> float:
        """Return after how many seconds without an image a worker counts as hung.

        Args:
            settings: resolution, quality and device of the image.
            first: whether it is the worker's first image.
        """
        if self.silence_s is not None:
            return self.silence_s
        paths = settings.resolution**2 * (settings.quality.samples + _DENOISING_PATHS)
        compiling = _COMPILING_S if first and settings.device != Device.CPU else 0.0
        return _SPARE_S + paths / _FEWEST_PATHS + compiling


class Supervisor:
    """Keeps one worker process running. Used by one thread at a time, but for :meth:`interrupt` and :attr:`pid`.

    Args:
        program: what the worker runs.
        settings: what is the same for all images.
        limits: when a worker is replaced, and when an image is given up.
    """

    def __init__(self, program: Program, settings: Settings, limits: WorkerLimits) -> None:
        self._program = program
        self._settings = settings
        self._limits = limits
        self._lock = threading.Lock()  # guards _worker and _interrupted
        self._worker: WorkerProcess | None = None
        self._interrupted = False
        self._rendered = 0
        self._warm_memory = 0

    @property
    def pid(self) -> int | None:
        """Number of the worker process; None while there is none."""
        worker = self._worker
        return None if worker is None else worker.pid

    def start(self) -> WorkerInfo:
        """Start a worker, with a new one for one that dies; return what it says of itself.

        Raises:
            BlenderMissingError: if it cannot load Blender.
            DeviceMissingError: if the device that was asked for is not there.
            WorkerDiedError: if as many ended before they were ready as an image may end, or the supervisor was
                interrupted.
        """
        ended = 0
        while True:
            try:
                return self._start_once()
            except WorkerDiedError as error:
                ended += 1
                self._clear()
                if self._interrupted or ended == self._limits.tries:
                    raise
                _LOG.warning("a worker is started again: %s", error)

    def render(self, scene: Scene, seed: int, name: str) -> bytes:
        """Render one image, with a new worker for one that dies.

        Args:
            scene: what it shows.
            seed: seed of its sampling noise.
            name: what the image is called in messages.

        Returns:
            The image as PNG.

        Raises:
            RenderError: if Blender refused the image.
            WorkerDiedError: if it ended as many workers as it may, or the supervisor was interrupted.
        """
        ended = 0
        while True:
            try:
                return self._render_once(scene, seed)
            except WorkerDiedError as error:
                ended += 1
                self._clear()
                if self._interrupted:
                    raise
                if ended == self._limits.tries:
                    raise WorkerDiedError(f"image {name} ended {ended} workers; the last time, {error}") from error
                _LOG.warning("image %s is rendered again: %s", name, error)

    def close(self) -> None:
        """Let the worker, which is idle, end by itself."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def interrupt(self) -> None:
        """End the worker at once and start no other. Safe from any thread; :meth:`close` still has to follow."""
        with self._lock:
            self._interrupted = True
            if self._worker is not None:
                self._worker.interrupt()

    def _start_once(self) -> WorkerInfo:
        with self._lock:
            if self._interrupted:
                raise WorkerDiedError("the worker was interrupted")
            worker = self._worker = WorkerProcess(self._program, self._settings)
        self._rendered = 0
        with self._watched(worker, self._limits.start_s()):
            return worker.greet()

    def _render_once(self, scene: Scene, seed: int) -> bytes:
        if self._worker is None:
            self._start_once()
        worker = self._worker
        if worker is None:
            raise WorkerDiedError("the worker was interrupted")
        patience_s = self._limits.image_s(self._settings, first=self._rendered == 0)
        with self._watched(worker, patience_s):
            image = worker.render(scene, seed)
        self._rendered += 1
        if self._rendered <= _WARM_AFTER:
            self._warm_memory = image.memory
        grown = image.memory - self._warm_memory
        if self._rendered >= self._limits.images or grown > self._limits.growth_bytes:
            _LOG.info("a worker is renewed after %d images, grown by %d MB", self._rendered, grown >> 20)
            self.close()
        return image.png

    @contextlib.contextmanager
    def _watched(self, worker: WorkerProcess, patience_s: float) -> Iterator[None]:
        """End the worker if it is silent for too long, which raises a WorkerDiedError in the thread that waits."""
        answered = threading.Event()

        def watch() -> None:
            # In short steps: the time for which this process itself is stopped does not count.
            steps = max(1, math.ceil(patience_s / _STEP_S))
            if not any(answered.wait(patience_s / steps) for _ in range(steps)):
                _LOG.warning("a worker has not answered for %g seconds: it is ended", patience_s)
                worker.interrupt()

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            answered.set()

    def _clear(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()


K = TypeVar("K", bound=Hashable)
_LIMITS = WorkerLimits()


class Pool:
    """Worker processes, started when the context is entered and gone when it is left.

    A worker that dies is replaced and its image is rendered again; workers that grew or rendered many images are
    renewed. The images do not depend on any of that, nor on the number of workers.

    Args:
        settings: what is the same for all images.
        workers: number of processes, 1 or more.
        blender: another Python that has bpy, or a Blender executable; this Python where None.
        limits: when a worker is replaced, and when an image is given up.

    Attributes:
        about: what the workers say of themselves; there once the context is entered.

    Raises:
        ValueError: if workers is not positive.
        FileNotFoundError: if there is no file ``blender``.
        BlenderMissingError: if ``blender`` is not a program that can render.
    """

    about: WorkerInfo

    def __init__(
        self,
        settings: Settings,
        workers: int = 1,
        *,
        blender: str | os.PathLike[str] | None = None,
        limits: WorkerLimits = _LIMITS,
    ) -> None:
        if workers < 1:
            raise ValueError(f"expected 1 or more workers, not {workers}")
        program = Program.find(blender)
        self._supervisors = [Supervisor(program, settings, limits) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._serve, args=(supervisor,), daemon=True) for supervisor in self._supervisors
        ]
        self._open = False
        self._jobs: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, bytes] | Exception] = queue.SimpleQueue()

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes that are there now."""
        return [pid for supervisor in self._supervisors if (pid := supervisor.pid) is not None]

    def __enter__(self) -> Self:
        """Start the first worker, which shows whether this machine can render; the others start with their first job.

        Raises:
            BlenderMissingError: if the workers cannot load Blender.
            DeviceMissingError: if the device that was asked for is not there.
            WorkerDiedError: if the first worker ends before it is ready.
        """
        first = self._supervisors[0]
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
        """End the workers: idle ones by themselves; all at once when an error, or Ctrl-C, ends the context."""
        if kind is not None:
            self._interrupt()
        self._open = False
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def render(self, jobs: Iterable[Job[K]]) -> Iterator[tuple[K, bytes]]:
        """Render jobs and yield (key, PNG) as they are done, in any order.

        Jobs are taken from the iterable as workers become free, in the caller's thread. When an image fails, those
        that are being rendered are still yielded, no others are begun, and then the error is raised. A caller that
        stops before the end ends the workers: no other jobs can be rendered then.

        Raises:
            RenderError: if Blender refused an image, or the pool has no workers.
            WorkerDiedError: if an image ended as many workers as it may; the message holds the last one's last words.
        """
        if not self._open:
            raise RenderError("this pool has no workers: it was not entered, or stopped in the middle of its work")
        waiting = iter(jobs)
        failure: Exception | None = None
        pending = 0
        try:
            for job in islice(waiting, 2 * len(self._threads)):  # each worker finds its next job waiting
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

    def _serve(self, supervisor: Supervisor) -> None:
        """Render jobs until None comes: the work of one thread."""
        while (job := self._jobs.get()) is not None:
            try:
                self._done.put((job.key, supervisor.render(job.scene, job.seed, repr(job.key))))
            except Exception as error:  # noqa: BLE001 - it is raised again in the caller's thread
                self._done.put(error)
        supervisor.close()

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
        for supervisor in self._supervisors:
            supervisor.interrupt()


@dataclass(frozen=True, kw_only=True)
class PoolSpec:
    """What renders."""

    device: Literal["auto", "cpu", "cuda", "optix", "hip", "metal", "oneapi"] = "auto"
    """What Blender renders on. "auto" takes the best GPU that is there, else the CPU; any other one has to be there."""
    workers: int | None = None
    """Worker processes, one thread each. By default one a core on the CPU, and two on a GPU that is named here."""
    blender: Path | None = None
    """Another Python that has bpy, or a Blender executable, to run the workers; by default this Python."""

    def pool(self, quality: Quality, resolution: int) -> Pool:
        """Return the workers, not started yet.

        Args:
            quality: settings of the sampler and the denoiser.
            resolution: width and height of the images in pixels.

        Raises:
            ValueError: if a number is not positive.
            FileNotFoundError: if ``blender`` is not there.
            BlenderMissingError: if it is not a program that can render.
        """
        workers = self.workers
        if workers is None:
            workers = _cores() if self.device in {"auto", "cpu"} else _WORKERS_ON_A_GPU
        return Pool(Settings(quality, resolution, Device(self.device)), workers, blender=self.blender)


def _cores() -> int:
    """Return how many cores this process may use, which on a shared machine are fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
