"""Keeps one worker process alive: starts it, replaces it when it dies, renews it before it grows old."""

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from ident3d.scene.scene import Scene
from render.errors import WorkerDiedError
from render.process import WorkerProcess
from render.program import Program
from render.settings import About, Settings

__all__ = ["Keeper", "Patience"]

_LOG = logging.getLogger("ident3d.render")
_WARM_AFTER = 10  # pictures after which a worker holds all that it needs


@dataclass(frozen=True)
class Patience:
    """How much is put up with from workers.

    Attributes:
        tries: workers that one picture may end before it is given up.
        pictures: pictures after which a worker is replaced by a fresh one.
        growth_bytes: growth of a worker's memory, from its tenth picture on, after which it is replaced.
        silence_s: seconds without an answer, after which a worker counts as hung and is ended. The slowest pictures
            take minutes, and a driver may compile its kernels before the first.
    """

    tries: int = 3
    pictures: int = 20_000
    growth_bytes: int = 2**30
    silence_s: float = 3600.0

    def __post_init__(self) -> None:
        if min(self.tries, self.pictures, self.growth_bytes) < 1:
            raise ValueError(f"expected tries, pictures and growth_bytes of 1 or more, not {self}")
        if not self.silence_s > 0:
            raise ValueError(f"expected a silence of more than 0 seconds, not {self.silence_s}")


class Keeper:
    """One place for a worker process. Used by one thread at a time, but for :meth:`interrupt` and :attr:`pid`.

    Args:
        program: what the worker runs.
        settings: what is the same for all pictures.
        patience: when a worker is replaced, and when a picture is given up.
    """

    def __init__(self, program: Program, settings: Settings, patience: Patience) -> None:
        self._program = program
        self._settings = settings
        self._patience = patience
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

    def start(self) -> About:
        """Start a worker; return what it says of itself.

        Raises:
            BlenderMissingError: if it cannot load Blender.
            DeviceMissingError: if the device that was asked for is not there.
            WorkerDiedError: if it ended before it was ready, or the keeper was interrupted.
        """
        with self._lock:
            if self._interrupted:
                raise WorkerDiedError("the worker was interrupted")
            worker = self._worker = WorkerProcess(self._program, self._settings)
        self._rendered = 0
        with self._watched(worker):
            return worker.greet()

    def render(self, scene: Scene, seed: int, name: str) -> bytes:
        """Render one picture, with as many workers as it takes.

        Args:
            scene: what it shows.
            seed: seed of its sampling noise.
            name: what the picture is called in messages.

        Returns:
            The picture as PNG.

        Raises:
            RenderError: if Blender refused the picture.
            WorkerDiedError: if it ended as many workers as it may, or the keeper was interrupted.
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
                if ended == self._patience.tries:
                    raise WorkerDiedError(f"picture {name} ended {ended} workers; the last time, {error}") from error
                _LOG.warning("picture %s is rendered again: %s", name, error)

    def close(self) -> None:
        """End the worker in peace; it is idle."""
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

    def _render_once(self, scene: Scene, seed: int) -> bytes:
        if self._worker is None:
            self.start()
        worker = self._worker
        if worker is None:
            raise WorkerDiedError("the worker was interrupted")
        with self._watched(worker):
            picture = worker.render(scene, seed)
        self._rendered += 1
        if self._rendered <= _WARM_AFTER:
            self._warm_memory = picture.memory
        grown = picture.memory - self._warm_memory
        if self._rendered >= self._patience.pictures or grown > self._patience.growth_bytes:
            _LOG.info("a worker is renewed after %d pictures, grown by %d MB", self._rendered, grown >> 20)
            self.close()
        return picture.png

    @contextlib.contextmanager
    def _watched(self, worker: WorkerProcess) -> Iterator[None]:
        """End the worker if it is silent for too long, which raises a WorkerDiedError in the thread that waits."""

        def end() -> None:
            _LOG.warning("a worker has not answered for %g seconds: it is ended", self._patience.silence_s)
            worker.interrupt()

        watch = threading.Timer(self._patience.silence_s, end)
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    def _clear(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
