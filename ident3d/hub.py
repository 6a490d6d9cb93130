"""Datasets on the Hugging Face hub, in the native layout."""

import glob
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from PIL import Image
from torch.utils.data import IterableDataset

from ident3d.dataset import ThreeDIdent, check_transform
from ident3d.errors import DatasetError, MissingDependencyError
from ident3d.storage.card import CARD_NAME
from ident3d.storage.layouts import SAMPLE, resolve_root
from ident3d.storage.manifest import DATA_FOLDER, MANIFEST_NAME, Manifest, native_splits, shard_paths

if TYPE_CHECKING:
    import datasets

__all__ = ["StreamedSplit", "from_hub"]

Transform = Callable[[Image.Image], Any]
TargetTransform = Callable[[torch.Tensor], Any]


@overload
def from_hub(
    repository: str | Path,
    split: str = ...,
    streaming: Literal[False] = ...,
    transform: Transform | None = ...,
    revision: str | None = ...,
    *,
    target_transform: TargetTransform | None = ...,
) -> ThreeDIdent: ...
@overload
def from_hub(
    repository: str | Path,
    split: str = ...,
    *,
    streaming: Literal[True],
    transform: Transform | None = ...,
    revision: str | None = ...,
    target_transform: TargetTransform | None = ...,
) -> "StreamedSplit": ...
def from_hub(
    repository: str | Path,
    split: str = "train",
    streaming: bool = False,
    transform: Transform | None = None,
    revision: str | None = None,
    *,
    target_transform: TargetTransform | None = None,
) -> "ThreeDIdent | StreamedSplit":
    """Open a dataset on the Hugging Face hub: one that ``python -m render`` or ``ident3d convert`` made.

    The shards of the split are fetched into the cache of the hub, once, and read from there as any other folder.
    Streaming fetches them while they are read, and keeps nothing.

    Args:
        repository: name on the hub, as "owner/name"; or a folder.
        split: "train" or "test".
        streaming: read rows in order, as they come from the hub.
        transform: applied to the PIL image of an item; None leaves it as it is.
        revision: branch, tag or commit of the repository.
        target_transform: applied to the latents of an item; None leaves them as they are.

    Returns:
        A :class:`~ident3d.ThreeDIdent`, or a :class:`StreamedSplit` where ``streaming`` is asked for.

    Raises:
        MissingDependencyError: if Hugging Face `datasets` is not installed: ``pip install 'ident3d[hub]'``.
        DatasetError: if there is no such repository, it cannot be reached, or it is not a dataset of ident3d.
        ValueError: if it has no such split; the message says which it has.
        TypeError: if repository is not a name, or transform not a function.
    """
    check_transform(transform)
    check_transform(target_transform, "a target_transform", "a tensor of latents")
    if streaming:
        return StreamedSplit(_streamed(repository, split, revision), transform, target_transform)
    folder = _fetched(repository, split, revision)
    return ThreeDIdent(folder, split=split, transform=transform, target_transform=target_transform)


class StreamedSplit(IterableDataset[tuple[Any, Any]]):
    """Rows of a dataset in order, as they arrive: (image, latents) like the items of :class:`~ident3d.ThreeDIdent`.

    The workers of a DataLoader share the shards between them, so use no more workers than there are shards.

    Args:
        rows: an iterable dataset of Hugging Face with the columns image and latents.
        transform: applied to the PIL image of an item; None leaves it as it is.
        target_transform: applied to the latents of an item; None leaves them as they are.

    Attributes:
        rows: the iterable dataset of Hugging Face.
    """

    def __init__(
        self,
        rows: "datasets.IterableDataset",
        transform: Transform | None = None,
        target_transform: TargetTransform | None = None,
    ) -> None:
        self.rows = rows
        self.transform = transform
        self.target_transform = target_transform

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for row in self.rows:
            image, latents = row["image"].convert("RGB"), torch.tensor(row["latents"], dtype=torch.float32)
            yield (
                image if self.transform is None else self.transform(image),
                latents if self.target_transform is None else self.target_transform(latents),
            )

    def shuffled(self, seed: int, buffer_size: int = 1000) -> "StreamedSplit":
        """Return this split with its shards in another order, and rows drawn from a buffer of the next ones.

        Args:
            seed: what the order depends on; give another in every epoch.
            buffer_size: rows in the buffer.
        """
        return StreamedSplit(
            self.rows.shuffle(seed=seed, buffer_size=buffer_size), self.transform, self.target_transform
        )


def _folder(repository: str | Path) -> Path | None:
    """Return the folder that a repository's name means, or None where it is one on the hub."""
    if not isinstance(repository, str | Path):
        raise TypeError(f"a dataset on the hub has a name, such as 'lab/3dident', not {repository!r}")
    path = Path(repository).expanduser()
    return resolve_root(repository) if str(repository) == SAMPLE or path.is_dir() else None


def _fetched(repository: str | Path, split: str, revision: str | None) -> Path:
    """Return a folder with the shards of a split, fetched where it is not a folder already."""
    folder = _folder(repository)
    if folder is not None:
        return folder
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError as error:
        raise MissingDependencyError("huggingface_hub", "read a dataset of the Hugging Face hub", "hub") from error
    wanted = [MANIFEST_NAME, CARD_NAME, f"{DATA_FOLDER}/{glob.escape(str(split))}-*.parquet"]
    try:
        folder = Path(snapshot_download(str(repository), repo_type="dataset", revision=revision, allow_patterns=wanted))
    except (OSError, ValueError) as error:  # what the hub's client raises is one of these
        raise _unreachable(repository, error) from error
    if not shard_paths(folder, split):
        has_manifest = (folder / MANIFEST_NAME).exists()
        there = list(Manifest.read(folder).splits) if has_manifest else native_splits(folder)
        raise _without(f"{repository} on the hub", split, there)
    return folder


def _streamed(repository: str | Path, split: str, revision: str | None) -> "datasets.IterableDataset":
    folder = _folder(repository)
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise MissingDependencyError("datasets", "stream a dataset of the Hugging Face hub", "hub") from error
    try:
        if folder is None:
            splits = datasets.load_dataset(str(repository), streaming=True, revision=revision)
        else:
            splits = datasets.load_dataset("parquet", data_files=_shard_patterns(folder), streaming=True)
    except (OSError, ValueError) as error:
        if folder is not None:
            raise DatasetError(f"{folder} cannot be read by Hugging Face datasets: {error}") from error
        raise _unreachable(repository, error) from error
    if split not in splits:
        raise _without(str(folder or f"{repository} on the hub"), split, list(splits))
    rows = splits[split]
    columns = rows.column_names or []
    missing = [name for name in ("image", "latents") if name not in columns]
    if missing:
        raise DatasetError(f"{repository} lacks the columns {', '.join(missing)}; it has {', '.join(columns)}")
    return rows


def _shard_patterns(folder: Path) -> dict[str, list[str]]:
    """Return what `datasets` takes for the shards of each split: patterns, in which a folder may be named "[a]"."""
    splits = native_splits(folder)
    if not splits:
        raise DatasetError(
            f"{folder} holds no dataset in the native layout, {DATA_FOLDER}/*.parquet, which streaming takes: "
            "ident3d convert makes it of any other"
        )
    return {split: [glob.escape(str(path)) for path in shard_paths(folder, split)] for split in splits}


def _without(where: str, split: str, there: Sequence[str]) -> ValueError:
    found = f"it has {', '.join(there)}" if there else "it has none in the native layout"
    return ValueError(f"{where} has no split {split!r}; {found}")


def _unreachable(repository: str | Path, error: Exception) -> DatasetError:
    return DatasetError(
        f"{repository} is not a folder, and cannot be read as a dataset of the Hugging Face hub: {error}"
    )
