"""Which layout a folder has: detected, not asked for."""

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from ident3d.errors import DatasetError
from ident3d.storage.decoded import DecodedSplit, decoded_splits
from ident3d.storage.manifest import native_splits
from ident3d.storage.native import NativeSplit
from ident3d.storage.published import PublishedSplit, is_published_split, published_splits
from ident3d.storage.split import StoredSplit

__all__ = ["LAYOUTS", "SAMPLE", "no_dataset", "open_split", "resolve_root", "splits_of"]

SAMPLE = "sample"
"""The root that means the small dataset inside the package."""

LAYOUTS: Mapping[str, tuple[Callable[[Path], list[str]], Callable[[Path, str], StoredSplit]]] = {
    "decoded": (decoded_splits, DecodedSplit),  # first: where a cache is beside the shards, it is the fast one
    "native": (native_splits, NativeSplit),
    "published": (published_splits, PublishedSplit),
}
"""How to find the splits of each layout in a folder, and to open one; in the order in which they are preferred."""


def resolve_root(root: str | Path) -> Path:
    """Return the folder that ``root`` means, as an absolute path; "sample" is the dataset inside the package.

    Absolute, so that the folder is still found when the process, or a worker of it, changes its working directory.

    Raises:
        FileNotFoundError: if there is no such folder, or it is a file; the message says how to get data.
        TypeError: if it is not a path.
        ValueError: if it is empty.
    """
    if not isinstance(root, str | PathLike):
        raise TypeError(f"the root of a dataset is the path of a folder, or '{SAMPLE}', not {root!r}")
    if root == "":
        raise ValueError(f"the root of a dataset is empty; give '.' for this folder, or '{SAMPLE}'")
    if str(root) == SAMPLE:
        return Path(__file__).parent.parent / "data" / SAMPLE
    path = Path(root).expanduser()
    if path.exists() and not path.is_dir():
        raise FileNotFoundError(f"{path} is a file, and a dataset is a folder; give the folder that it is in")
    if not path.is_dir():
        raise FileNotFoundError(
            f"there is no folder {path}. Render one (python -m render {path}), download the published one "
            f"(ident3d download {path}), or use root='{SAMPLE}' for the small one that comes with ident3d"
        )
    return path.absolute()


def splits_of(root: Path) -> list[str]:
    """Return the splits of a folder, whatever its layout; empty where it holds no dataset."""
    return list(dict.fromkeys(split for splits, _ in LAYOUTS.values() for split in splits(root)))


def open_split(root: str | Path, split: str) -> StoredSplit:
    """Open a split of a dataset.

    Args:
        root: a folder in the native or the published layout, one with a decoded cache, or "sample"; or the folder of
            one split in the published layout.
        split: "train" or "test".

    Raises:
        FileNotFoundError: if the folder is not there.
        DatasetError: if it holds no dataset, or a damaged one.
        ValueError: if it has no such split; the message says which it has.
    """
    folder = resolve_root(root)
    there = splits_of(folder)
    if not there and is_published_split(folder):
        if folder.name != split:
            raise ValueError(
                f"{folder} is the folder of the split {folder.name!r}: ask for that one, or give the folder that it is "
                f"in for the split {split!r}"
            )
        folder, there = folder.parent, splits_of(folder.parent)
    for splits, layout in LAYOUTS.values():
        if split in splits(folder):
            return layout(folder, split)
    if not there:
        raise no_dataset(folder)
    raise ValueError(f"{folder} has no split {split!r}; it has {', '.join(there)}")


def no_dataset(folder: Path) -> DatasetError:
    """Return the error of a folder that is there and holds no dataset; it may be one split of the published layout."""
    if is_published_split(folder):
        return DatasetError(
            f"{folder} holds no dataset but one split of it: give the folder that it is in, {folder.parent}"
        )
    return DatasetError(
        f"{folder} holds no dataset: expected data/*.parquet, or raw_latents.npy and images/ in a folder for each "
        "split (train/, test/)"
    )
