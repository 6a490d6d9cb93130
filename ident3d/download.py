"""Fetching the published 3DIdent archives."""

import contextlib
import logging
import re
import shutil
import socket
import stat
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import requests
import requests.adapters
import urllib3
import urllib3.connection
from tqdm import tqdm

from ident3d.codec import loads
from ident3d.errors import DatasetError
from ident3d.files import check_disk_space
from ident3d.storage.layouts import SAMPLE, splits_of
from ident3d.storage.published import RAW_LATENTS, PublishedSplit, published_splits

__all__ = [
    "ARCHIVES",
    "SOURCE",
    "Archive",
    "ResumingDownloader",
    "download_kitti_masks",
    "download_published",
    "remote_size",
    "unpack",
]

_LOG = logging.getLogger(__name__)

SOURCE = "https://zenodo.org/records/4502485/files"
"""Where the published archives are."""


@dataclass(frozen=True)
class Archive:
    """A published archive of one split.

    Attributes:
        name: its file name.
        md5: hexadecimal MD5 checksum, as its publisher gives it.
    """

    name: str
    md5: str


ARCHIVES: Mapping[str, Archive] = {
    "train": Archive("3dident_train.tar", "df132b4dacf04fa28e1c8ca9d2168634"),
    "test": Archive("3dident_test.tar", "35020bca16c9faa80cf0c926d265d678"),
}
"""The published archives, by split."""


def download_published(
    root: str | Path,
    splits: Sequence[str] = ("train", "test"),
    *,
    source: str = SOURCE,
    archives: Mapping[str, Archive] | None = None,
    keep_archives: bool = False,
) -> None:
    """Fetch the published dataset into a folder, in the published layout.

    What is there already is not fetched again, an interrupted download is resumed, and a split appears
    in ``root`` only when it is whole. Several processes may ask for the same folder at once: one works, the others
    wait for it.

    Args:
        root: the folder; it is made if it is not there.
        splits: the splits to fetch.
        source: the address of the folder that holds the archives.
        archives: the archive of each split; the published ones where None.
        keep_archives: leave the archives in ``root`` after unpacking them.

    Raises:
        ValueError: if a split is not one of the published ones, or the source is not an address.
        DatasetError: if an archive cannot be fetched, has another checksum, is damaged, or would write outside of
            ``root``; also if a split is there and damaged.
        TypeError: if ``splits`` is a string, not a list.
        NotADirectoryError: if ``root`` is a file.
        OSError: if the disk is too small or cannot be written to.

    Reference:
        Zimmermann et al., 3DIdent, Zenodo, 2021, doi:10.5281/zenodo.4502485.
    """
    from filelock import FileLock

    if isinstance(splits, str):
        raise TypeError(f"splits are a list of names, such as [{splits!r}], not the string {splits!r}")
    known = ARCHIVES if archives is None else archives
    unknown = [split for split in splits if split not in known]
    if unknown:
        raise ValueError(f"the published dataset has the splits {', '.join(known)}, not {', '.join(unknown)}")
    if not isinstance(source, str) or not source.startswith(("http://", "https://")):
        raise ValueError(f"the source is an address that begins with http:// or https://, not {source!r}")
    if str(root) == "":
        raise ValueError("the folder to fetch the dataset into has no name; give '.' for this one")
    folder = Path(root).expanduser()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; give a folder to fetch the dataset into")
    if str(root) == SAMPLE or not _missing(folder, splits):
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".download.lock"
    lock.touch()  # FileLock would retry forever where no file can be made
    with FileLock(lock):
        wanted = _missing(folder, splits)  # again: another process may have fetched them meanwhile
        _remove_abandoned(folder)
        _require_space(folder, [known[split] for split in wanted], source, keep_archives=keep_archives)
        for split in wanted:
            archive = _fetch(folder, known[split], source)
            _install(folder, split, archive)
            if not keep_archives:
                archive.unlink()


_KITTI_RECORD = "3931823"
_MOST_RECORD_BYTES = 1 << 22


def download_kitti_masks(root: str | Path, *, host: str = "https://zenodo.org") -> Path:
    """Fetch the archive of KITTI Masks into a folder, and return its path.

    Its checksum is asked of the record that holds it. What is there already is not fetched again, an interrupted
    download is resumed, and of several processes one works while the others wait for it.

    Args:
        root: the folder; it is made if it is not there.
        host: the address of the host of the record.

    Raises:
        DatasetError: if the record or the archive cannot be fetched, or the archive has another checksum.
        OSError: if the disk is too small or cannot be written to.

    Reference:
        Klindt et al., Natural Sprites and KITTI Masks, Zenodo, 2020, record 3931823.
    """
    from filelock import FileLock

    from ident3d.kitti.masks import ARCHIVE_NAME

    folder = Path(root).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".download.lock"
    lock.touch()
    with FileLock(lock):
        if not (folder / ARCHIVE_NAME).exists():
            _remove_abandoned(folder)
            archive = Archive(
                ARCHIVE_NAME, _recorded_md5(f"{host.rstrip('/')}/api/records/{_KITTI_RECORD}", ARCHIVE_NAME)
            )
            source = f"{host.rstrip('/')}/records/{_KITTI_RECORD}/files"
            _require_space(folder, [archive], source, keep_archives=True)
            _fetch(folder, archive, source)
    return folder / ARCHIVE_NAME


def _recorded_md5(url: str, name: str) -> str:
    """Return the MD5 checksum of a file of a record, from the record's own description."""
    try:
        with _session() as session, session.get(url, timeout=_TIMEOUT_S, stream=True) as answer:
            if not answer.ok:
                raise _refused(url, answer)
            content = b""
            for chunk in _chunks(answer):
                content += chunk
                if len(content) > _MOST_RECORD_BYTES:
                    raise DatasetError(f"{url} does not end within {_MOST_RECORD_BYTES:,} bytes: it is no record")
    except requests.RequestException as error:
        raise DatasetError(f"{url} cannot be fetched ({error}); run it again") from error
    try:
        record = loads(content, url, _MOST_RECORD_BYTES)
    except ValueError as error:
        raise DatasetError(f"{error}; expected the record of a dataset") from error
    files = record.get("files") if isinstance(record, dict) else None
    for file in files if isinstance(files, list) else []:
        if isinstance(file, dict) and file.get("key") == name:
            kind, _, checksum = str(file.get("checksum")).partition(":")
            if kind == "md5" and re.fullmatch("[0-9a-f]{32}", checksum):
                return checksum
    raise DatasetError(f"{url} gives no MD5 checksum of {name}; fetch the file by hand into the folder")


def _remove_abandoned(root: Path) -> None:
    """Remove the empty files that pooch leaves in ``root`` when it is killed; whoever has the lock fetches alone."""
    for path in root.iterdir():
        if _POOCH.fullmatch(path.name) and stat.S_ISREG(path.lstat().st_mode) and path.lstat().st_size == 0:
            path.unlink(missing_ok=True)


def _missing(root: Path, splits: Sequence[str]) -> list[str]:
    there = splits_of(root)
    for split in splits:
        if split in published_splits(root):
            PublishedSplit(root, split)  # raises where it is damaged, since ours never are
    return [split for split in splits if split not in there]


def _fetch(root: Path, archive: Archive, source: str) -> Path:
    import pooch  # type: ignore[import-untyped]  # it ships none

    part = root / f"{archive.name}.part"
    url = f"{source.rstrip('/')}/{archive.name}"
    try:
        path = pooch.retrieve(
            url, known_hash=f"md5:{archive.md5}", fname=archive.name, path=root, downloader=ResumingDownloader(part)
        )
    except ValueError as error:
        part.unlink(missing_ok=True)
        raise DatasetError(
            f"{url} is not the file that was published ({error}); it is removed: run it again to fetch it once more"
        ) from error
    part.unlink(missing_ok=True)
    return Path(path)


def _install(root: Path, split: str, archive: Path) -> None:
    """Unpack an archive so that its split appears in ``root`` whole, under the split's own name."""
    staging = root / f".{split}.unpacking"
    shutil.rmtree(staging, ignore_errors=True)  # from a run that was interrupted
    check_disk_space(root, archive.stat().st_size, f"unpacking {archive}")
    try:
        unpack(archive, staging / "archive")
        found = sorted((staging / "archive").glob(f"**/{RAW_LATENTS}"))
        if len(found) != 1:
            raise DatasetError(f"{archive} holds {len(found)} files {RAW_LATENTS}; expected one")
        whole = staging / "whole"
        whole.mkdir()
        found[0].parent.rename(whole / split)
        PublishedSplit(whole, split)  # raises where images and latents do not go together
        (whole / split).rename(root / split)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    _LOG.info("%s: unpacked to %s", split, root / split)


def _require_space(root: Path, archives: Sequence[Archive], source: str, *, keep_archives: bool) -> None:
    """Raise OSError where the disk cannot take each archive beside what is unpacked from it."""
    needed = settled = 0
    for archive in archives:
        size = remote_size(f"{source.rstrip('/')}/{archive.name}") or 0
        files = (root / archive.name, root / f"{archive.name}.part")
        there = sum(file.stat().st_size for file in files if file.exists())
        needed = max(needed, settled + 2 * size - there)
        settled += (2 if keep_archives else 1) * size - there
    names = ", ".join(archive.name for archive in archives)
    check_disk_space(root, needed, f"fetching and unpacking {names}")


_CHUNK = 1 << 16  # what arrived of a chunk is lost when the connection breaks in the middle of it
_TIMEOUT_S = 60
_MOST_STALLS = 5
_LONGEST_PAUSE_S = 60
_HEADERS = {"Accept-Encoding": "identity"}  # sizes and ranges count the bytes of the file itself
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_MOST_BYTES = 2**38  # of one file: a server that tells no length might never end
_POOCH = re.compile(r"tmp[a-z0-9_]{8}")  # what tempfile names its files
_PACE_S = 120.0
_LEAST_BYTES = 1 << 17  # that arrive in that time, or the connection counts as broken
_ANSWER_S = 120.0  # in which an answer's headers come; the timeout above is of each byte of them


def remote_size(url: str) -> int | None:
    """Return the size of a file in bytes as the server reports it, or None where it does not.

    Raises:
        DatasetError: if the server has no such file.
    """
    try:
        with (
            _session() as session,
            session.head(url, headers=_HEADERS, timeout=_TIMEOUT_S, allow_redirects=True) as answer,
        ):
            if answer.status_code in {404, 410}:
                raise _refused(url, answer)
            return _number(answer.headers, "Content-Length") if answer.ok else None
    except requests.RequestException:
        return None  # the download itself will be tried more than once, and will say what is wrong


class ResumingDownloader:
    """A downloader for pooch, which has none that resumes.

    The bytes are gathered in ``part``, which outlives an interruption; pooch then gets the whole file to check. When
    the connection breaks, the rest is asked for, and all of it where the server knows no ranges. It gives up after
    five attempts in a row that brought nothing new.

    Args:
        part: where the bytes gather.
    """

    def __init__(self, part: Path) -> None:
        self.part = part

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Fetch ``url`` to the path ``output_file``; pooch calls this.

        Raises:
            DatasetError: if the server refuses, or the connection keeps breaking.
        """
        del pooch
        self._gather(url)
        target = Path(output_file)
        target.unlink(missing_ok=True)
        try:
            target.hardlink_to(self.part)  # the bytes stay in `part` until they are known to be right
        except OSError:
            self.part.replace(target)  # a file system without hard links

    def _gather(self, url: str) -> None:
        furthest = stalls = 0
        while True:
            try:
                self._attempt(url)
            except requests.RequestException as error:
                size = self._size()
                stalls = 0 if size > furthest and not isinstance(error, _TooSlowError) else stalls + 1
                furthest = max(furthest, size)
                if stalls == _MOST_STALLS:
                    raise DatasetError(
                        f"the download of {url} stopped at {size:,} bytes ({error}); they are kept in {self.part}: "
                        "run it again to resume"
                    ) from error
                _LOG.warning("the connection broke at %s bytes (%s); trying again", f"{size:,}", error)
                time.sleep(min(2**stalls - 1, _LONGEST_PAUSE_S))
            else:
                return

    def _attempt(self, url: str) -> None:
        start = self._size()
        headers = _HEADERS | ({"Range": f"bytes={start}-"} if start else {})
        with _session() as session, session.get(url, headers=headers, stream=True, timeout=_TIMEOUT_S) as answer:
            if answer.status_code == requests.codes.requested_range_not_satisfiable:
                if answer.headers.get("Content-Range") == f"bytes */{start}":
                    return  # all of it was there already
                self.part.unlink()
                raise requests.ConnectionError(f"{self.part} does not belong to what the server holds; it is removed")
            if answer.status_code in _BUSY:
                raise requests.HTTPError(f"the server is busy: {answer.status_code} {answer.reason}")
            if not answer.ok:
                raise _refused(url, answer)
            if not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                start = 0  # the server sends the whole file, whatever was asked for
            length = _number(answer.headers, "Content-Length")
            if length is not None and start + length > _MOST_BYTES:
                raise DatasetError(f"{url} is said to hold {start + length:,} bytes, more than any archive of images")
            self._write(answer, start, None if length is None else start + length)

    def _write(self, answer: requests.Response, start: int, total: int | None) -> None:
        bar = tqdm(
            initial=start,
            total=total,
            unit="B",
            unit_scale=True,
            desc=self.part.name.removesuffix(".part"),
            disable=None,
        )
        with self.part.open("ab" if start else "wb") as file, bar:
            for chunk in _chunks(answer):
                if file.tell() + len(chunk) > _MOST_BYTES:
                    raise DatasetError(f"{answer.url} does not end within {_MOST_BYTES:,} bytes: it is no archive")
                file.write(chunk)
                bar.update(len(chunk))
        if total is not None and self._size() != total:
            raise requests.ConnectionError(f"got {self._size():,} of {total:,} bytes")

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0


class _TooSlowError(requests.Timeout):
    """The server sends so little that the download would never end."""


@contextlib.contextmanager
def _within(connection: socket.socket, seconds: float) -> Iterator[None]:
    """Break a connection off at the end of this time, so that what waits for it ends.

    Raises:
        TimeoutError: if it was broken off.
    """
    expired = threading.Event()

    def break_off() -> None:
        expired.set()
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)  # TLS would wait for the other side

    timer = threading.Timer(seconds, break_off)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if expired.is_set():  # and what was read until then only looks whole
            raise TimeoutError(f"no answer was complete within {seconds:g} seconds")


class _Watched:
    """A connection whose answer's headers come within a time, however they come."""

    sock: socket.socket
    watched: socket.socket

    def getresponse(self) -> Any:
        self.watched = self.sock
        with _within(self.watched, _ANSWER_S):
            return super().getresponse()  # type: ignore[misc]  # of the connection that this is mixed into


class _PlainConnection(_Watched, urllib3.connection.HTTPConnection):
    pass


class _SecureConnection(_Watched, urllib3.connection.HTTPSConnection):
    pass


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _WatchedAdapter(requests.adapters.HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager


_POOLS = {"http": _PlainPool, "https": _SecurePool}


def _session() -> requests.Session:
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _WatchedAdapter())
    return session


def _chunks(answer: requests.Response) -> Iterator[bytes]:
    """Yield what arrives as it arrives; requests itself waits until a chunk is full, however long that takes."""
    arrived, since = 0, time.monotonic()
    connection = answer.raw.connection  # None where nothing is left to read
    while True:
        watched = _within(connection.watched, _PACE_S) if isinstance(connection, _Watched) else contextlib.nullcontext()
        try:
            with watched:
                chunk = answer.raw.read1(_CHUNK)
        except urllib3.exceptions.HTTPError as error:
            raise requests.ConnectionError(str(error)) from error
        except TimeoutError as error:
            raise _TooSlowError(str(error)) from error
        if not chunk:
            return
        yield chunk
        arrived += len(chunk)
        now = time.monotonic()
        if now - since > _PACE_S:
            if arrived < _LEAST_BYTES:
                raise _TooSlowError(f"{arrived:,} bytes arrived in {now - since:.0f} seconds")
            arrived, since = 0, now


def _refused(url: str, answer: requests.Response) -> DatasetError:
    return DatasetError(f"the server answered {answer.status_code} {answer.reason} for {url}; is the address right?")


def _number(headers: Mapping[str, str], name: str) -> int | None:
    value = headers.get(name, "")
    return int(value) if value.isdecimal() else None


_MOST_MEMBERS = 2_000_000
_MOST_GROWTH = 4  # images do not compress: an archive that grows more is not what it says


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files and folders of a tar archive.

    Args:
        archive: the archive.
        folder: where its members go; made if it is not there.

    Raises:
        DatasetError: if the archive is damaged, or a member is a link or a device, would land outside ``folder``, or
            is larger than an archive of images explains. What was unpacked until then stays.
    """
    if not hasattr(tarfile, "data_filter"):
        raise DatasetError("this Python cannot unpack archives safely; Python 3.11.4 and later can")
    size = archive.stat().st_size
    folder.mkdir(parents=True, exist_ok=True)
    members = unpacked = 0
    try:
        bar = tqdm(total=size, unit="B", unit_scale=True, desc=f"unpacking {archive.name}", disable=None)
        with tarfile.open(archive, "r:*") as tar, bar:
            while (member := tar.next()) is not None:
                # The list of all members would take memory, and nothing here looks back.
                tar.members = []  # type: ignore[attr-defined]  # there, though not in the stubs
                _check(member, archive)
                members += 1
                unpacked += member.size
                if members > _MOST_MEMBERS or unpacked > _MOST_GROWTH * size:
                    raise DatasetError(
                        f"{archive} ({size:,} bytes) unpacks to more than {members - 1:,} files and "
                        f"{unpacked - member.size:,} bytes; it is not an archive of images"
                    )
                tar.extract(member, folder, filter="data")
                bar.update(member.size)
    except (tarfile.TarError, EOFError) as error:
        raise DatasetError(f"{archive} cannot be unpacked: {error}") from error


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\\" in member.name:
        raise DatasetError(f"{archive} holds {member.name!r}, which would land outside of the dataset's folder")
    if not (member.isdir() or (member.isreg() and not member.issparse())):
        raise DatasetError(f"{archive} holds {member.name!r}, which is neither a plain file nor a folder")
