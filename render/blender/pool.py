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

K = TypeVar("K", bound=Hashable)

_LOG = logging.getLogger("ident3d.render")
_WORKERS_PER_GPU = 2  # one prepares its scene while the other renders
_WARM_AFTER = 10  # images after which the memory of a worker should not grow
_START_S = 300.0  # to load Blender, from a slow disk on a busy machine
_COMPILING_S = 1800.0  # a GPU's driver may compile its kernels before the first image
_SPARE_S = 120.0
_FEWEST_PATHS = 20_000  # per second; one core traces about 600,000
_DENOISING_PATHS = 8  # upper bound of the cost of denoising a pixel
_STEP_S = 1.0


@dataclass(frozen=True)
class WorkerLimits:
    """When a worker is replaced, and when an image is given up.

    Attributes:
        tries: workers that may die on one image before it is given up.
        images: images after which a worker is replaced.
        growth_bytes: growth of a worker's memory since its tenth image after which it is replaced.
        silence_s: seconds without an answer after which a worker counts as hung and is ended. Where None, five minutes
            for the start and, for an image, 30 times what one core needs at that resolution and quality, and two
            minutes; the first image on a GPU gets half an hour more, because the driver may compile its kernels.
    """

    tries: int = 3
    images: int = 20_000
    growth_bytes: int = 2**30
    silence_s: float | None = None

    def __post_init__(self) -> None:
        if min(self.tries, self.images, self.growth_bytes) < 1:
            raise ValueError(f"expected tries, images and growth_bytes of 1 or more, not {self}")
        if self.silence_s is not None and not self.silence_s > 0:
            raise ValueError(f"expected silence_s of more than 0 seconds, not {self.silence_s}")

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
    """Keeps one worker process running. For one thread at a time, except :meth:`interrupt` and :attr:`pid`.

    Args:
        program: the program that the worker runs.
        settings: the settings of all images.
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
        """Process id of the worker; None while there is none."""
        worker = self._worker
        return None if worker is None else worker.pid

    def start(self) -> WorkerInfo:
        """Start a worker, and replace one that dies; return what it reports about itself.

        Raises:
            BlenderMissingError: if it cannot load Blender.
            DeviceMissingError: if the requested device is not available.
            WorkerDiedError: if too many workers died before they were ready, or the supervisor was interrupted.
        """
        died = 0
        while True:
            try:
                return self._start_once()
            except WorkerDiedError as error:
                died += 1
                self._clear()
                if self._interrupted or died == self._limits.tries:
                    raise
                _LOG.warning("a worker is started again: %s", error)

    def render(self, scene: Scene, seed: int, name: str) -> bytes:
        """Render one image; a worker that dies is replaced.

        Args:
            scene: what it shows.
            seed: seed of its sampling noise.
            name: name of the image in messages.

        Returns:
            The image as PNG.

        Raises:
            RenderError: if Blender refused the image.
            WorkerDiedError: if too many workers died on it, or the supervisor was interrupted.
        """
        died = 0
        while True:
            try:
                return self._render_once(scene, seed)
            except WorkerDiedError as error:
                died += 1
                self._clear()
                if self._interrupted:
                    raise
                if died == self._limits.tries:
                    raise WorkerDiedError(f"{died} workers died on image {name}; the last time, {error}") from error
                _LOG.warning("image %s is rendered again: %s", name, error)

    def close(self) -> None:
        """Let the idle worker exit."""
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
            _LOG.info("a worker is replaced after %d images; it grew by %d MB", self._rendered, grown >> 20)
            self.close()
        return image.png

    @contextlib.contextmanager
    def _watched(self, worker: WorkerProcess, patience_s: float) -> Iterator[None]:
        """End the worker if it does not answer in time; the waiting thread then gets a WorkerDiedError."""
        answered = threading.Event()

        def watch() -> None:
            # In short steps, so that the time for which this process itself is stopped does not count.
            steps = max(1, math.ceil(patience_s / _STEP_S))
            if not any(answered.wait(patience_s / steps) for _ in range(steps)):
                _LOG.warning("a worker has not answered for %g seconds and is ended", patience_s)
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


class Pool:
    """Worker processes, started when the context is entered and ended when it is left.

    A worker that dies is replaced and its image is rendered again; a worker whose memory grew, or that rendered many
    images, is replaced too. The images depend neither on that nor on the number of workers.

    Args:
        settings: the settings of all images.
        workers: number of processes, 1 or more.
        blender: another Python that has bpy, or a Blender executable; this Python where None.
        limits: when a worker is replaced, and when an image is given up; the defaults where None.

    Attributes:
        about: the versions and the device of the workers; set once the context is entered.

    Raises:
        ValueError: if workers is not positive.
        FileNotFoundError: if ``blender`` does not exist.
        BlenderMissingError: if ``blender`` is not a program that can render.
    """

    about: WorkerInfo

    def __init__(
        self,
        settings: Settings,
        workers: int = 1,
        *,
        blender: str | os.PathLike[str] | None = None,
        limits: WorkerLimits | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"expected 1 or more workers, not {workers}")
        program = Program.find(blender)
        self._supervisors = [Supervisor(program, settings, limits or WorkerLimits()) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._serve, args=(supervisor,), daemon=True) for supervisor in self._supervisors
        ]
        self._open = False
        self._jobs: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, bytes] | Exception] = queue.SimpleQueue()

    @property
    def pids(self) -> list[int]:
        """Ids of the processes that are running."""
        return [pid for supervisor in self._supervisors if (pid := supervisor.pid) is not None]

    def __enter__(self) -> Self:
        """Start one worker, to see whether this machine can render; the others start with their first job.

        Raises:
            BlenderMissingError: if the workers cannot load Blender.
            DeviceMissingError: if the requested device is not available.
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
        """Let the workers exit; end them at once when an error or Ctrl-C ends the context."""
        if kind is not None:
            self._interrupt()
        self._open = False
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def render(self, jobs: Iterable[Job[K]]) -> Iterator[tuple[K, bytes]]:
        """Render jobs; yield (key, PNG) as they finish, in any order.

        Jobs are taken from the iterable in the caller's thread, as workers become free. When an image fails, no other
        is started, those that are being rendered are still yielded, and then the error is raised. A caller that stops
        early ends the workers, and the pool can render no other jobs.

        Raises:
            RenderError: if Blender refused an image, or the pool has no workers.
            WorkerDiedError: if too many workers died on an image; the message holds the last lines of the last one.
        """
        if not self._open:
            raise RenderError("this pool has no workers: it was not entered as a context, or a caller stopped early")
        waiting = iter(jobs)
        failure: Exception | None = None
        pending = 0
        try:
            for job in islice(waiting, 2 * len(self._threads)):  # so that each worker finds its next job waiting
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
        """Render jobs until None comes; what each thread runs."""
        while (job := self._jobs.get()) is not None:
            try:
                self._done.put((job.key, supervisor.render(job.scene, job.seed, repr(job.key))))
            except Exception as error:  # noqa: BLE001 - it is raised again in the caller's thread
                self._done.put(error)
        supervisor.close()

    def _withdraw(self) -> int:
        """Remove the jobs that no worker has started; return how many."""
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
    """Which workers render."""

    device: Literal["auto", "cpu", "cuda", "optix", "hip", "metal", "oneapi"] = "auto"
    """What Blender renders on. "auto" is the best available GPU, or else the CPU; any other has to be available."""
    workers: int | None = None
    """Worker processes, one thread each. By default one per core, and two on a GPU that --device names."""
    blender: Path | None = None
    """Another Python that has bpy, or a Blender executable, to run the workers; by default this Python."""

    def pool(self, quality: Quality, resolution: int) -> Pool:
        """Return the pool, not started yet.

        Args:
            quality: settings of the sampler and the denoiser.
            resolution: width and height of the images in pixels.

        Raises:
            ValueError: if a number is not positive.
            FileNotFoundError: if ``blender`` does not exist.
            BlenderMissingError: if it is not a program that can render.
        """
        workers = self.workers
        if workers is None:
            workers = _cores() if self.device in {"auto", "cpu"} else _WORKERS_PER_GPU
        return Pool(Settings(quality, resolution, Device(self.device)), workers, blender=self.blender)

    def live_workers(self, device: str) -> int:
        """Return the number of threads that render live on a device: "cpu" or "cuda".

        Raises:
            ValueError: if the number that was asked for is not positive.
        """
        if self.workers is None:
            return _cores() if device == "cpu" else 1
        if self.workers < 1:
            raise ValueError(f"expected 1 or more workers, not {self.workers}")
        return self.workers


def _cores() -> int:
    """Return the number of cores that this process may use; on a shared machine not all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
