"""FAISS, imported where it is used and kept to a bounded number of threads."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from ident3d.errors import MissingDependencyError

__all__ = ["bounded_threads", "check_gpu", "faiss_library"]


def faiss_library() -> Any:
    """Return the module ``faiss``.

    Raises:
        MissingDependencyError: if it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError(
            "faiss", "match pairs with this backend (backend='torch' does without)", None
        ) from error
    return faiss


def check_gpu(device: torch.device) -> None:
    """Raise ValueError if FAISS cannot search on ``device``."""
    faiss = faiss_library()
    gpus = faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else 0
    if device.type != "cuda" or (device.index or 0) >= gpus:
        other = "backend='torch', or device='cpu'" if torch.cuda.is_available() else "device='cpu'"
        raise ValueError(f"FAISS sees no GPU {device}, but {gpus} in all; use {other}")


@contextlib.contextmanager
def bounded_threads(threads: int | None) -> Iterator[None]:
    """Let FAISS use at most ``threads`` threads inside the block, and never more than torch may use here.

    torch is at one thread in a DataLoader's worker process, so FAISS is too: many workers do not start all threads
    each, and a forked worker never waits for the threads of the process that it was forked from.
    """
    faiss = faiss_library()
    before = faiss.omp_get_max_threads()
    allowed = torch.get_num_threads()
    faiss.omp_set_num_threads(allowed if threads is None else min(threads, allowed))
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
