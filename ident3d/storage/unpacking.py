"""Unpacking an archive that comes from elsewhere."""

import tarfile
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from ident3d.errors import DatasetError

__all__ = ["unpack"]

_MOST_MEMBERS = 2_000_000
_MOST_GROWTH = 4  # pictures do not compress: an archive that grows more is not what it says


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files and folders of a tar archive.

    Args:
        archive: the archive.
        folder: where its members go; made if it is not there.

    Raises:
        DatasetError: if the archive is damaged, or a member is a link or a device, would land outside ``folder``, or
            is larger than an archive of pictures explains. What was unpacked until then stays.
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
                        f"{unpacked - member.size:,} bytes; it is not an archive of pictures"
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
