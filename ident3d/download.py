"""Fetching the published 3DIdent archives."""

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ident3d.errors import DatasetError
from ident3d.storage.layouts import SAMPLE, splits_of
from ident3d.storage.published import RAW_LATENTS, PublishedSplit, published_splits
from ident3d.storage.transfer import ResumingDownloader, remote_size
from ident3d.storage.unpacking import unpack

__all__ = ["ARCHIVES", "SOURCE", "Archive", "download_published"]

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

    What is there already is not fetched again, an interrupted download goes on where it stopped, and a split appears
    in ``root`` only when it is whole. Several processes may ask for the same folder at once: one works, the others
    wait for it.

    Args:
        root: the folder; it is made if it is not there.
        splits: the splits to fetch.
        source: the address of the folder that holds the archives.
        archives: the archive of each split; the published ones where None.
        keep_archives: leave the archives in ``root`` after unpacking them.

    Raises:
        ValueError: if a split is not one of the published ones, or the source is no address.
        DatasetError: if an archive cannot be fetched, has another checksum, is damaged, or would write outside of
            ``root``; also if a split is there and damaged.
        TypeError: if ``splits`` is a text and no list.
        NotADirectoryError: if ``root`` is a file.
        OSError: if the disk is too small or cannot be written to.

    Reference:
        Zimmermann et al., 3DIdent, Zenodo, 2021, doi:10.5281/zenodo.4502485.
    """
    from filelock import FileLock

    if isinstance(splits, str):
        raise TypeError(f"splits are a list of names, such as [{splits!r}], not the text {splits!r}")
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
    lock.touch()  # FileLock would try for ever where no file can be made
    with FileLock(lock):
        wanted = _missing(folder, splits)  # again: another process may have fetched them meanwhile
        _require_space(folder, [known[split] for split in wanted], source, keep_archives=keep_archives)
        for split in wanted:
            archive = _fetch(folder, known[split], source)
            _install(folder, split, archive)
            if not keep_archives:
                archive.unlink()


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
            f"{url} is not the file that was published ({error}); it is removed: run it again to fetch it anew"
        ) from error
    part.unlink(missing_ok=True)
    return Path(path)


def _install(root: Path, split: str, archive: Path) -> None:
    """Unpack an archive so that its split appears in ``root`` whole, under the split's own name."""
    staging = root / f".{split}.unpacking"
    shutil.rmtree(staging, ignore_errors=True)  # from a run that was interrupted
    free, needed = shutil.disk_usage(root).free, archive.stat().st_size
    if free < needed:
        raise OSError(f"unpacking {archive} takes {needed:,} bytes, but {free:,} are free on the disk of {root}")
    try:
        unpack(archive, staging / "archive")
        found = sorted((staging / "archive").glob(f"**/{RAW_LATENTS}"))
        if len(found) != 1:
            raise DatasetError(f"{archive} holds {len(found)} files {RAW_LATENTS}; expected one")
        whole = staging / "whole"
        whole.mkdir()
        found[0].parent.rename(whole / split)
        PublishedSplit(whole, split)  # raises where pictures and latents do not go together
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
    free = shutil.disk_usage(root).free
    if free < needed:
        raise OSError(
            f"fetching and unpacking {', '.join(archive.name for archive in archives)} takes {needed:,} bytes, but "
            f"{free:,} are free on the disk of {root}"
        )
