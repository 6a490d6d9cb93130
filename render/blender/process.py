"""One worker process as its parent sees it: the program that it is, how it is started, asked, and ended."""

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ident3d.codec import from_json, to_json
from ident3d.doctor.libraries import RELEASES
from ident3d.files import LEFT_BEHIND_S, try_lock
from ident3d.scene.scene import Scene
from render.blender.protocol import (
    GREETING,
    BlenderMissingError,
    DeviceMissingError,
    RenderError,
    Settings,
    WorkerDiedError,
    WorkerInfo,
)

__all__ = ["Program", "RenderedImage", "WorkerProcess"]

_ROOT = Path(__file__).resolve().parents[2]
_ANSWER_S = 60


@dataclass(frozen=True)
class Program:
    """A command line that starts a worker.

    Attributes:
        command: the program and its arguments.
    """

    command: tuple[str, ...]

    @classmethod
    def find(cls, blender: str | os.PathLike[str] | None = None) -> "Program":
        """Return the program for the workers.

        Args:
            blender: path of a Python that has bpy, or of a Blender executable; this Python where None.

        Raises:
            FileNotFoundError: if there is no such file.
            BlenderMissingError: if the file is neither, or a Python that no bpy exists for.
        """
        if blender is None:
            return cls._python(sys.executable, sys.version_info[:2])
        path = Path(blender)
        if not path.is_file():
            raise FileNotFoundError(f"no such program: {path}; expected a Python that has bpy, or a Blender executable")
        # The path is not resolved: a virtual environment's Python is a link that has to be called by its own name.
        banner = _banner(path.absolute())
        python = re.search(r"^Python (\d+)\.(\d+)", banner, re.MULTILINE)
        if python:
            return cls._python(str(path.absolute()), (int(python[1]), int(python[2])))
        if re.search(r"^Blender \d", banner, re.MULTILINE):
            script = str(_ROOT / "render" / "blender" / "worker.py")
            background = ("--background", "--factory-startup", "--python-exit-code", "1", "--python", script)
            return cls((str(path.absolute()), *background))
        raise BlenderMissingError(
            f"{path} is neither a Python nor a Blender executable: --version says {banner.strip()[:200]!r}"
        )

    @classmethod
    def _python(cls, executable: str, version: tuple[int, int]) -> "Program":
        if version < min(RELEASES):
            raise BlenderMissingError(
                f"{executable} is Python {version[0]}.{version[1]}; the workers need Python "
                + " or ".join(f"{major}.{minor}" for major, minor in RELEASES)
            )
        # -P: the folder that the command is run in may hold files named like modules that Blender loads.
        return cls((executable, "-P", "-m", "render.blender.worker"))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a worker: this process's, with the project importable."""
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": path}


def _banner(path: Path) -> str:
    try:
        done = subprocess.run(
            [str(path), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BlenderMissingError(f"{path} cannot be run: {error}") from error
    return done.stdout + done.stderr


_LOG = logging.getLogger("ident3d.render")
_LAST_WORDS = 20  # lines of a worker's standard error that are kept
_ENDING_S = 10.0
_ERRORS = {error.__name__: error for error in (BlenderMissingError, DeviceMissingError, RenderError)}


@dataclass(frozen=True)
class RenderedImage:
    """A worker's answer.

    Attributes:
        png: the image.
        memory: resident memory of the worker in bytes; 0 where the system does not tell.
    """

    png: bytes
    memory: int


class WorkerProcess:
    """A process that renders scenes, one after another. It is greeted once, before the first.

    Args:
        program: what to start.
        settings: what is the same for all images.
    """

    def __init__(self, program: Program, settings: Settings) -> None:
        self._folder = _Folder()
        self._words: deque[str] = deque(maxlen=_LAST_WORDS)  # lines of its standard error that nobody has seen yet
        self._said: set[str] = set()
        try:
            self._process = self._start(program)
        except BaseException:
            self._folder.remove()
            raise
        self._will = _Will(self._process, self._folder.name)
        self._stdin, self._stdout = _opened(self._process.stdin), _opened(self._process.stdout)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._settings = settings

    def _start(self, program: Program) -> subprocess.Popen[bytes]:
        # A session of its own, so that Ctrl-C in a terminal reaches the parent alone, which then ends its workers.
        return subprocess.Popen(
            program.command,
            # Blender's own folder for temporary files goes where ours is, and away with it.
            env={**program.environment, "TMPDIR": self._folder.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def greet(self) -> WorkerInfo:
        """Wait until the process is ready, and return what it says of itself.

        Raises:
            BlenderMissingError: if the program cannot load Blender.
            DeviceMissingError: if the device that was asked for is not there.
            WorkerDiedError: if the process ended before it was ready.
        """
        self._send({"settings": to_json(self._settings), "folder": self._folder.name})
        for line in self._stdout:  # what comes before the greeting is the program's own chatter
            _, found, header = line.partition(GREETING)
            if found:
                about = from_json(WorkerInfo, self._header(header)["about"])
                self._said.update(tuple(self._words))  # at the start it complains of sound cards and displays
                return about
        raise self._died()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def render(self, scene: Scene, seed: int) -> RenderedImage:
        """Render one image.

        Raises:
            RenderError: if Blender refused it.
            WorkerDiedError: if the process ended; the message holds its last words.
        """
        self._send({"scene": scene.to_json(), "seed": seed})
        header = self._header(self._stdout.readline())
        png = self._stdout.read(header["size"])
        if len(png) < header["size"]:
            raise self._died()
        self._pass_on()
        return RenderedImage(png, header["memory"])

    def close(self) -> None:
        """End the process, now that it has answered; kill it if it does not end by itself."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        self.kill()
        self._pass_on()

    def kill(self) -> None:
        """End the process at once; nothing of it is left when this returns."""
        self.interrupt()
        self._process.wait()
        self._listener.join(_ENDING_S)
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self._will.revoke()
        self._folder.remove()

    def interrupt(self) -> None:
        """Make the process end; a thread that waits for its answer gets a WorkerDiedError. Safe from any thread."""
        if self._process.poll() is not None:
            return  # its number may be another process's by now
        if hasattr(os, "killpg"):
            # The whole group, since the program may be a script that started Blender.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._stdin.write(json.dumps(message, allow_nan=False).encode() + b"\n")
            self._stdin.flush()
        except OSError:
            raise self._died() from None

    def _header(self, line: bytes) -> dict[str, Any]:
        if not line.endswith(b"\n"):
            raise self._died()
        header: dict[str, Any] = json.loads(line)
        if "error" in header:
            raise _ERRORS[header["error"]](header["message"])
        return header

    def _pass_on(self) -> None:
        """Log what Blender complained about while it went on, each line once."""
        while self._words:
            line = self._words.popleft()
            if line and line not in self._said:
                self._said.add(line)
                _LOG.warning("Blender: %s", line)

    def _died(self) -> WorkerDiedError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        self._listener.join(_ENDING_S)
        status = self._process.poll()
        if status is None:
            end = "closed its output"
        else:
            end = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
        words = "\n".join(self._words) or "(it wrote nothing to its standard error)"
        return WorkerDiedError(f"the worker {end}; its last words:\n{words}")

    def _listen(self) -> None:
        with _opened(self._process.stderr) as stream:
            for line in stream:
                self._words.append(line.decode(errors="replace").rstrip())


_PREFIX = "ident3d-"
_ALIVE = "alive"  # a file that is locked for as long as the process that made the folder lives


class _Folder:
    """A folder for a worker's files, in memory where the system has such folders; those left behind are removed.

    Attributes:
        name: its path.
    """

    def __init__(self) -> None:
        parent = Path(_memory_folder() or tempfile.gettempdir())
        _remove_abandoned(parent)
        self.name = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        self._alive = Path(self.name, _ALIVE).open("wb")  # noqa: SIM115 - open, and locked, for as long as it is used
        try_lock(self._alive)

    def remove(self) -> None:
        """Remove it and all that is in it; once is enough."""
        self._alive.close()
        shutil.rmtree(self.name, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes that were killed, and of none that live."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it may be gone, or somebody else's
            if not folder.is_symlink() and folder.is_dir() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        with (folder / _ALIVE).open("r+b") as file:
            locked = try_lock(file)
    except FileNotFoundError:  # it is being made, or its maker was killed in that moment
        locked = None
    return time.time() - folder.stat().st_mtime > LEFT_BEHIND_S if locked is None else locked


class _Will:
    """What is done to a worker when this process ends without having ended it, even by a kill, even if it is stopped.

    A shell waits for the end of its input, which only this process holds open.

    Args:
        worker: the worker; the leader of its process group.
        folder: its folder, which is removed.
    """

    _TEXT = 'read -r _ || { kill -s KILL -- "-$1"; rm -rf -- "$2"; }'

    def __init__(self, worker: subprocess.Popen[bytes], folder: str) -> None:
        self._executor = None
        if os.name == "posix":
            try:
                self._executor = subprocess.Popen(
                    ["/bin/sh", "-c", self._TEXT, "sh", str(worker.pid), folder],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # what ends this process by its group shall not end it
                )
            except BaseException:
                worker.kill()
                worker.wait()
                raise

    def revoke(self) -> None:
        """Let nothing happen, now that the worker has ended; once is enough."""
        if self._executor is not None:
            with contextlib.suppress(OSError, ValueError):  # it was ended, or has been told already
                self._executor.communicate(b"\n", _ENDING_S)


def _memory_folder() -> str | None:
    """Return a folder in memory, so that images on their way reach no disk; None where the system has none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - the folder made in it is private


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:  # Popen was asked for all three
        raise RuntimeError("the worker has no pipe")
    return pipe
