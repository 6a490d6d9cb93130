"""The folder that a dataset is rendered into: whether it may be, and whether it can hold it."""

import shutil
import tempfile
from pathlib import Path

from ident3d.errors import DatasetError
from ident3d.storage.manifest import MANIFEST_NAME, Manifest

__all__ = ["WORKSHOP", "check_space", "check_writable", "picture_bytes", "started"]

WORKSHOP = ".render"
"""The folder inside a dataset's own that holds what is known of finished and unfinished shards."""


def started(root: Path) -> Manifest | None:
    """Return the manifest of a dataset that was begun in a folder; None where the folder is empty or not there.

    Files whose names start with a dot do not count: a cloned repository is empty too. A folder that lost its manifest
    alone counts as empty as well, since the records of its shards tell with which settings they were made.

    Raises:
        NotADirectoryError: if ``root`` is a file.
        ValueError: if the folder holds something else.
        DatasetError: if its manifest is damaged, or of another kind.
    """
    if not root.exists():
        return None
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is a file; expected a folder to render into")
    if (root / MANIFEST_NAME).exists():
        return _manifest(root)
    if (root / WORKSHOP).is_dir():
        return None
    others = sorted(path.name for path in root.iterdir() if not path.name.startswith("."))
    if others:
        raise ValueError(
            f"{root} holds something else ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''}) and no "
            f"{MANIFEST_NAME}: render into an empty or a new folder"
        )
    return None


def check_writable(root: Path) -> None:
    """Raise OSError unless files can be made in ``root``, or the folder itself can be made."""
    folder = _existing(root)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"ident3d")
    except OSError as error:
        raise OSError(error.errno, f"no files can be written there: {error.strerror}", str(folder)) from error


def check_space(root: Path, needed: int) -> None:
    """Raise OSError if the disk that ``root`` lies on has fewer than ``needed`` free bytes."""
    free = shutil.disk_usage(_existing(root)).free
    if free < needed:
        raise OSError(
            f"the disk of {root} has {free / 1e9:.3g} GB free, and about {needed / 1e9:.3g} GB are needed: free some, "
            "choose another folder, or render fewer or smaller pictures"
        )


def picture_bytes(resolution: int) -> float:
    """Return about how many bytes a picture of resolution x resolution pixels takes as PNG.

    Fitted to draft pictures, which are the largest: 35 kB at 224x224, 4.7 kB at 64x64.
    """
    return float(6.03 * resolution**1.6)


def _manifest(root: Path) -> Manifest:
    try:
        return Manifest.read(root)
    except DatasetError as error:
        is_garbled = isinstance(error.__cause__, ValueError)  # and not one of another version, which is whole
        if not is_garbled or not (root / WORKSHOP).is_dir():
            raise
        raise DatasetError(
            f"{error}. Delete that file and run the command with which the dataset was begun: the shards that are "
            "there are kept, and the manifest is written again"
        ) from error


def _existing(root: Path) -> Path:
    folder = root.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
