"""Cores, memory, files and disk: how much there is, and how much of it a process may use."""

import multiprocessing
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ident3d.files import nearest_folder

__all__ = ["Disk", "Memory", "ProcessLimits", "Processor", "disks", "limits", "memory", "processor"]

_CGROUPS = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
_UNLIMITED = 1 << 60  # how older kernels write that memory is not limited: a number close to 2^63


@dataclass(frozen=True)
class Processor:
    """The processor.

    Attributes:
        name: what it calls itself.
        cores: cores of the machine.
        usable: cores that this process may run on.
        quota: cores' worth of time that its control group grants; None where it grants all.
        load: processes that wanted to run, a mean over the last minute; None where nobody counts.
    """

    name: str
    cores: int
    usable: int
    quota: float | None
    load: float | None


@dataclass(frozen=True)
class Memory:
    """Memory in bytes; None where the system does not say.

    Attributes:
        total: that of the machine.
        available: what can be had without swapping.
        limit: what the control group of this process allows; None where it sets no limit.
        shared: free shared memory, through which the workers of a DataLoader send batches.
    """

    total: int | None
    available: int | None
    limit: int | None
    shared: int | None


@dataclass(frozen=True)
class Disk:
    """Free space in a folder.

    Attributes:
        what: what the folder is for.
        path: the folder.
        free: free bytes; None where it cannot be asked.
        writable: whether this user may write there, into the folder or the next one above that exists.
    """

    what: str
    path: str
    free: int | None
    writable: bool


@dataclass(frozen=True)
class ProcessLimits:
    """Limits of processes.

    Attributes:
        open_files: files that a process may hold open; None where there is no limit, or none that can be asked.
        most_open_files: how far that can be raised.
        start_method: how Python starts worker processes: fork, spawn or forkserver.
    """

    open_files: int | None
    most_open_files: int | None
    start_method: str


def processor() -> Processor:
    """Return what there is to know about the processor."""
    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    return Processor(_processor_name(), cores, usable, _quota(), _load())


def memory() -> Memory:
    """Return what there is to know about the memory."""
    table = {}
    for line in _lines(_PROC / "meminfo"):
        words = line.replace(":", "").split()
        if len(words) > 1 and words[1].isdecimal():
            table[words[0]] = int(words[1]) << 10
    total = table.get("MemTotal")
    if total is None and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    allowed = [int(word) for word in _of_control_groups("memory.max", "memory.limit_in_bytes") if word.isdecimal()]
    limit = min((number for number in allowed if number < _UNLIMITED), default=None)
    shared = _free(Path("/dev/shm")) if Path("/dev/shm").is_dir() else None  # noqa: S108 - it is only looked at
    return Memory(total, table.get("MemAvailable"), limit, shared)


def disks() -> tuple[Disk, ...]:
    """Return the free space in the folders that ident3d, and what it uses, write into."""
    try:
        temporary = tempfile.gettempdir()
    except OSError:
        temporary = os.environ.get("TMPDIR", os.sep + "tmp")
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(os.path.join("~", ".cache"))  # noqa: PTH111, PTH118
    hub = os.environ.get("HF_HOME") or os.path.join(caches, "huggingface")  # noqa: PTH118 - a home may be lacking
    try:
        here = os.getcwd()  # noqa: PTH109 - likewise the folder itself
    except OSError:
        here = os.curdir
    return tuple(_disk(what, Path(path)) for what, path in {"here": here, "temporary": temporary, "hub": hub}.items())


def limits() -> ProcessLimits:
    """Return the limits of processes."""
    start = multiprocessing.get_start_method(allow_none=True)  # asked for in another way, it would be fixed for good
    method = start or multiprocessing.get_all_start_methods()[0]
    try:
        import resource
    except ImportError:  # Windows
        return ProcessLimits(None, None, method)
    soft, hard = (
        None if number == resource.RLIM_INFINITY else number for number in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return ProcessLimits(soft, hard, method)


def _processor_name() -> str:
    for line in _lines(_PROC / "cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


def _quota() -> float | None:
    granted = []
    for text in _of_control_groups("cpu.max", "cpu.cfs_quota_us"):
        quota, _, period = text.partition(" ")
        if quota.isdecimal():  # "max", or -1, grants all
            granted.append(int(quota) / (int(period) if period.isdecimal() else 100_000))
    return min(granted, default=None)


def _of_control_groups(name: str, older: str) -> Iterator[str]:
    """Yield what the files of a name hold in this process's control group and those around it."""
    for line in _lines(_PROC / "self" / "cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            top, file = _CGROUPS, name
        elif older.split(".", maxsplit=1)[0] in controllers.split(","):
            top, file = _CGROUPS / older.split(".", maxsplit=1)[0], older
        else:
            continue
        folder = top / path.lstrip("/")
        for place in (folder, *folder.parents):
            yield from (text.strip() for text in _lines(place / file))
            if place == top:
                break


def _disk(what: str, path: Path) -> Disk:
    there = nearest_folder(path)
    return Disk(what, str(path), _free(there), os.access(there, os.W_OK))


def _free(path: Path) -> int | None:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
