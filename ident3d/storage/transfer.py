"""Fetching a large file over HTTP in as many attempts as it takes, each going on where the last one stopped."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
from tqdm import tqdm

from ident3d.errors import DatasetError

__all__ = ["ResumingDownloader", "remote_size"]

_LOG = logging.getLogger(__name__)

_CHUNK = 1 << 16  # what arrived of a chunk is lost when the connection breaks in the middle of it
_TIMEOUT_S = 60
_MOST_STALLS = 5
_LONGEST_PAUSE_S = 60
_HEADERS = {"Accept-Encoding": "identity"}  # sizes and ranges count the bytes of the file itself
_BUSY = {408, 425, 429, 500, 502, 503, 504}


def remote_size(url: str) -> int | None:
    """Return the size of a file in bytes as the server tells it, or None where it does not tell.

    Raises:
        DatasetError: if the server has no such file.
    """
    try:
        with requests.head(url, headers=_HEADERS, timeout=_TIMEOUT_S, allow_redirects=True) as answer:
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
                stalls = 0 if size > furthest else stalls + 1
                furthest = max(furthest, size)
                if stalls == _MOST_STALLS:
                    raise DatasetError(
                        f"the download of {url} stopped at {size:,} bytes ({error}); they are kept in {self.part}: "
                        "run it again to go on"
                    ) from error
                _LOG.warning("the connection broke at %s bytes (%s); trying again", f"{size:,}", error)
                time.sleep(min(2**stalls - 1, _LONGEST_PAUSE_S))
            else:
                return

    def _attempt(self, url: str) -> None:
        start = self._size()
        headers = _HEADERS | ({"Range": f"bytes={start}-"} if start else {})
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT_S) as answer:
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
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
        if total is not None and self._size() != total:
            raise requests.ConnectionError(f"got {self._size():,} of {total:,} bytes")

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0


def _refused(url: str, answer: requests.Response) -> DatasetError:
    return DatasetError(f"the server answered {answer.status_code} {answer.reason} for {url}; is the address right?")


def _number(headers: Mapping[str, str], name: str) -> int | None:
    value = headers.get(name, "")
    return int(value) if value.isdecimal() else None
