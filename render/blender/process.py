"""One worker process, seen from its parent: which program it runs, how it is started, asked for images, and ended."""

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

_LOG = logging.getLogger("ident3d.render")

_ROOT = Path(__file__).resolve().parents[2]
_VERSION_S = 60.0  # seconds that a program may take to print its version
_EXIT_S = 10.0  # seconds that a worker may take to exit by itself
_KEPT_LINES = 20  # of a worker's standard error
_PREFIX = "ident3d-"
_ALIVE = "alive"  # a file in a worker's folder that is locked while the process that created it lives
_ERRORS = {error.__name__: error for error in (BlenderMissingError, DeviceMissingError, RenderError)}


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
            FileNotFoundError: if the file does not exist.
            BlenderMissingError: if the file is neither, or a Python of a version that bpy does not support.
        """
        if blender is None:
            return cls._python(sys.executable, sys.version_info[:2])
        path = Path(blender)
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist; expected a Python that has bpy, or a Blender executable")
        # The path is not resolved: the Python of a virtual environment is a link that must be called by its own name.
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
        # -P: the working directory may hold files that are named like modules that Blender loads.
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
            timeout=_VERSION_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BlenderMissingError(f"{path} cannot be run: {error}") from error
    return done.stdout + done.stderr


@dataclass(frozen=True)
class RenderedImage:
    """A worker's answer.

    Attributes:
        png: the image.
        memory: resident memory of the worker in bytes; 0 where it is unknown.
    """

    png: bytes
    memory: int


class WorkerProcess:
    """A process that renders one scene after another. :meth:`greet` comes first, once.

    Args:
        program: the program to start.
        settings: the settings of all images.
    """

    def __init__(self, program: Program, settings: Settings) -> None:
        self._folder = _ScratchFolder()
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)  # of its standard error, not logged yet
        self._logged: set[str] = set()
        try:
            self._process = self._start(program)
        except BaseException:
            self._folder.remove()
            raise
        self._reaper = _Reaper(self._process, self._folder.name)
        self._stdin, self._stdout = _opened(self._process.stdin), _opened(self._process.stdout)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._settings = settings

    def _start(self, program: Program) -> subprocess.Popen[bytes]:
        # In a session of its own, so that Ctrl-C in a terminal reaches only the parent, which then ends its workers.
        return subprocess.Popen(
            program.command,
            # Blender's temporary files go into our temporary folder, and are removed with it.
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
        for line in self._stdout:  # the program may print lines of its own before the greeting
            _, found, header = line.partition(GREETING)
            if found:
                about = from_json(WorkerInfo, self._header(header)["about"])
                self._logged.update(tuple(self._lines))  # at the start it complains about sound cards and displays
                return about
        raise self._died()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def render(self, scene: Scene, seed: int) -> RenderedImage:
        """Render one image.

        Raises:
            RenderError: if Blender refused it.
            WorkerDiedError: if the process ended; the message holds its last lines.
        """
        self._send({"scene": scene.to_json(), "seed": seed})
        header = self._header(self._stdout.readline())
        png = self._stdout.read(header["size"])
        if len(png) < header["size"]:
            raise self._died()
        self._pass_on()
        return RenderedImage(png, header["memory"])

    def close(self) -> None:
        """Let the idle process exit; kill it if it does not."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_S)
        self.kill()
        self._pass_on()

    def kill(self) -> None:
        """End the process at once, and wait until it is gone."""
        self.interrupt()
        self._process.wait()
        self._listener.join(_EXIT_S)
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self._reaper.dismiss()
        self._folder.remove()

    def interrupt(self) -> None:
        """End the process; a thread that waits for its answer gets a WorkerDiedError. Safe from any thread."""
        if self._process.poll() is not None:
            return  # its id may belong to another process by now
        if hasattr(os, "killpg"):
            # The whole group, because the program may be a script that started Blender.
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
        """Log what Blender complained about without failing, each line once."""
        while self._lines:
            line = self._lines.popleft()
            if line and line not in self._logged:
                self._logged.add(line)
                _LOG.warning("Blender: %s", line)

    def _died(self) -> WorkerDiedError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_S)
        self._listener.join(_EXIT_S)
        status = self._process.poll()
        if status is None:
            end = "closed its output"
        else:
            end = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
        lines = "\n".join(self._lines) or "(nothing on its standard error)"
        return WorkerDiedError(f"the worker {end}; its last lines:\n{lines}")

    def _listen(self) -> None:
        with _opened(self._process.stderr) as stream:
            for line in stream:
                self._lines.append(line.decode(errors="replace").rstrip())


class _ScratchFolder:
    """A folder for the files of a worker, in memory where possible; abandoned ones are removed first.

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
        """Remove the folder and its files; may be called again."""
        self._alive.close()
        shutil.rmtree(self.name, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of processes that were killed."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it may be gone, or belong to another user
            if not folder.is_symlink() and folder.is_dir() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        with (folder / _ALIVE).open("r+b") as file:
            locked = try_lock(file)
    except FileNotFoundError:  # it is just being created, or its process was killed then
        locked = None
    return time.time() - folder.stat().st_mtime > LEFT_BEHIND_S if locked is None else locked


class _Reaper:
    """Kills a worker when this process ends without having ended it, even if it is killed or the worker is stopped.

    A shell waits for the end of its standard input, which only this process holds open.

    Args:
        worker: the worker; the leader of its process group.
        folder: its folder, which is removed.
    """

    _TEXT = 'read -r _ || { kill -s KILL -- "-$1"; rm -rf -- "$2"; }'

    def __init__(self, worker: subprocess.Popen[bytes], folder: str) -> None:
        self._shell = None
        if os.name == "posix":
            try:
                self._shell = subprocess.Popen(
                    ["/bin/sh", "-c", self._TEXT, "sh", str(worker.pid), folder],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # so that a signal to the group of this process does not end it
                )
            except BaseException:
                worker.kill()
                worker.wait()
                raise

    def dismiss(self) -> None:
        """End the shell, now that the worker has ended; may be called again."""
        if self._shell is not None:
            with contextlib.suppress(OSError, ValueError):  # it has ended already
                self._shell.communicate(b"\n", _EXIT_S)


def _memory_folder() -> str | None:
    """Return a folder in memory, so that temporary images are not written to a disk; None where there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - the folder made in it is private


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:  # Popen was asked for all three
        raise RuntimeError("the worker has no pipe")
    return pipe
