"""Isolation: an encoder that somebody handed in is run in a process of its own, within limits.

A graph without control flow, which is all that is accepted (:data:`ident3d.embedding.FEED_FORWARD`), can still ask for
more time and memory than there is. So it is loaded and run by another process, which is ended when it takes too long,
cannot have more memory than it is granted, and gives back embeddings of limited width, as plain bytes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ident3d.embedding import OnnxEncoder
from ident3d.errors import EncoderError
from ident3d.files import sha256_of

__all__ = ["EncoderLimits", "IsolatedEncoder"]

_EMBEDDINGS, _FAULT = b"\0", b"\1"  # what an answer begins with
_LONGEST_FAULT = 1000  # characters
_THREAD_BYTES = 256 << 20  # address space that a thread reserves, used or not


@dataclass(frozen=True)
class EncoderLimits:
    """What an encoder may use.

    Attributes:
        seconds: time for loading it, and again for each batch of images.
        memory_gib: memory beyond what the process needs to run any encoder; held on Linux alone.
        width: number of embedding dimensions.
    """

    seconds: float = 120
    memory_gib: float = 4
    width: int = 4096

    def __post_init__(self) -> None:
        if min(self.seconds, self.memory_gib, self.width) <= 0:
            raise ValueError(
                f"limits are above 0, got {self.seconds} seconds, {self.memory_gib} GiB and {self.width} dimensions"
            )


class IsolatedEncoder:
    """An encoder in an ONNX file from elsewhere, run on the CPU by a process of its own.

    Use it in a ``with`` statement, which ends the process.

    Args:
        path: the file.
        threads: number of threads; 0 for one per core.
        limits: what it may use.

    Attributes:
        sha256: checksum of the file.

    Raises:
        EncoderError: if it cannot be loaded, uses operators that are not accepted, or exceeds its limits.
        FileNotFoundError: if there is no such file.
    """

    def __init__(self, path: Path, threads: int = 0, limits: EncoderLimits | None = None) -> None:
        self.sha256 = sha256_of(path)
        self._path, self._limits = path, limits or EncoderLimits()
        context = multiprocessing.get_context("spawn")  # threads of ours do not survive a fork
        self._connection, other = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(other, path, threads, self._limits), name="encoder", daemon=True
        )
        self._process.start()
        other.close()
        try:
            self._receive("starting", _STARTING_SECONDS)
            self._receive("loading", self._limits.seconds)
        except BaseException:
            self.close()
            raise

    def __call__(self, images: Tensor) -> Tensor:
        """Embed (B, 3, H, W) float32 images in [0, 1].

        Raises:
            EncoderError: if the encoder cannot take them, gives something else than (B, d) finite numbers, or exceeds
                its limits.
        """
        what = f"embedding {len(images)} images"
        with self._watched(what, self._limits.seconds):
            self._connection.send(images.cpu().contiguous().numpy())
        found = self._receive(what, self._limits.seconds, len(images) * self._limits.width * 4)
        embeddings = np.frombuffer(found, np.float32).reshape(len(images), -1).copy()
        return torch.from_numpy(embeddings)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _receive(self, what: str, seconds: float, max_bytes: int = 0) -> bytes:
        """Return what the process answers after the first byte, or raise the fault that it names."""
        with self._watched(what, seconds):
            answer = self._connection.recv_bytes(1 + max(max_bytes, 4 * _LONGEST_FAULT))
        if answer[:1] != _EMBEDDINGS:
            said = "".join(c if c.isprintable() else " " for c in answer[1:].decode(errors="replace"))
            raise EncoderError(" ".join(said.split()))
        return answer[1:]

    @contextmanager
    def _watched(self, what: str, seconds: float) -> Iterator[None]:
        """Kill the process after so many seconds, and say why it ended where it did."""
        expired = threading.Event()

        def kill() -> None:
            expired.set()
            self._process.kill()

        timer = threading.Timer(seconds, kill)
        timer.start()
        try:
            yield
        except (EOFError, OSError) as error:
            self._process.kill()
            self._process.join()
            why = (
                f"takes more than {seconds:g} seconds"
                if expired.is_set()
                else f"ends its process ({_exit_of(self._process.exitcode)}), which more memory than the "
                f"{self._limits.memory_gib:g} GiB that are granted is the likeliest cause of"
            )
            raise EncoderError(f"the encoder {self._path} {why} for {what}") from error
        finally:
            timer.cancel()


_STARTING_SECONDS = 300.0  # of a busy machine, for importing the libraries


def _exit_of(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"


def _serve(connection: Connection[Any, Any], path: Path, threads: int, limits: EncoderLimits) -> None:
    """Load an encoder and embed what comes through the connection, as the process's work."""
    import onnx  # noqa: F401 - both are loaded before memory is limited
    import onnxruntime  # noqa: F401

    _end_with_parent()
    _silence()
    _limit_memory(limits, threads)
    connection.send_bytes(_EMBEDDINGS)
    try:
        encoder = OnnxEncoder(path, threads, trusted=False)
        _check_width(encoder.width, limits)
        connection.send_bytes(_EMBEDDINGS)
        while True:
            images: npt.NDArray[np.float32] = connection.recv()
            found = encoder(torch.from_numpy(images)).numpy()
            _check_width(found.shape[1], limits)
            connection.send_bytes(_EMBEDDINGS + found.tobytes())
    except EOFError:
        return
    except MemoryError:
        fault = f"the encoder needs more memory than the {limits.memory_gib:g} GiB that are granted"
        connection.send_bytes(_FAULT + fault.encode())
    except Exception as error:  # noqa: BLE001 - whatever it is, the other side names it in one line
        connection.send_bytes(_FAULT + str(error)[:_LONGEST_FAULT].encode(errors="replace"))


def _check_width(width: int | None, limits: EncoderLimits) -> None:
    if width is not None and width > limits.width:
        raise EncoderError(f"the encoder gives {width:,} numbers for an image; at most {limits.width:,} are accepted")


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, whatever a graph is busy with."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _silence() -> None:
    """Drop what the libraries print, also when they abort."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)


def _limit_memory(limits: EncoderLimits, threads: int) -> None:
    """Grant so much address space beyond what is in use, and no core files."""
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    granted = int(limits.memory_gib * 2**30) + (threads or os.cpu_count() or 1) * _THREAD_BYTES
    most = pages * resource.getpagesize() + granted
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
