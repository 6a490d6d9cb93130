"""Merging parts that several machines rendered: finished shards are listed as one dataset, and faults are named."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ident3d.errors import DatasetError, NotLoadedError
from ident3d.files import sha256_of
from ident3d.storage.manifest import Manifest, ShardRecord
from ident3d.storage.native import ShardReader
from ident3d.storage.verification import names_faults, positives_conditional, shard_faults
from render.dataset.plan import ImageSpec, Shard
from render.dataset.writer import DatasetWriter, begun_dataset

if TYPE_CHECKING:  # it loads torch, which a dataset without exact positives is merged without
    from ident3d.conditionals import Conditional

__all__ = ["MergeReport", "merge_parts"]


@dataclass(frozen=True)
class MergeReport:
    """The result of a merge.

    Attributes:
        manifest: the manifest after the merge.
        planned_shards: number of shards of the complete dataset.
        faults: one line for each fault; empty for a complete dataset.
    """

    manifest: Manifest
    planned_shards: int
    faults: tuple[str, ...]


def merge_parts(root: Path | str, *, pairs: str | None = None) -> MergeReport:
    """List the finished shards of a folder in its manifest, and report missing, duplicated, damaged and foreign ones.

    The parts may have been rendered into the folder, or into separate folders and copied together. A shard that was
    copied without its record in ``.render/`` is read, and recorded if it holds what is planned.

    Args:
        root: the folder.
        pairs: text of the conditional that exact positives were drawn from. It is needed only where a shard without a
            record has positives from a conditional of your own, in a module that is not imported.

    Raises:
        FileNotFoundError: if the folder holds no dataset.
        ValueError: if it holds something else.
        DatasetError: if the manifest is damaged, or does not say how the images were rendered.
    """
    root = Path(root)
    manifest = begun_dataset(root)
    if manifest is None:
        raise FileNotFoundError(f"{root} holds no dataset: render its parts into it, or copy them there first")
    ImageSpec.of(manifest)  # raises where the shards of the missing parts could not be rendered
    writer = DatasetWriter(root, manifest)
    faults = [fault for shard in writer.shards for fault in _check(writer, shard, pairs)]
    if not faults:
        manifest = writer.write_manifest()
    return MergeReport(manifest, len(writer.shards), (*names_faults(root, manifest), *faults))


def _check(writer: DatasetWriter, shard: Shard, pairs: str | None) -> list[str]:
    """Return the faults of a shard; record it if it has none and was not recorded yet."""
    path = writer.path(shard)
    try:
        record = writer.record(shard)
        if record is not None:
            if sha256_of(path) == record.sha256:
                return []
            return [f"{path} is damaged: its checksum is not the recorded one; render that part again"]
        if not path.is_file():
            return []
        reader = ShardReader(path)
        if reader.settings != writer.settings:
            return [writer.foreign(shard)]
        record = ShardRecord(shard.name, shard.split, shard.rows.start, len(shard.rows), "")
        faults = list(shard_faults(reader, writer.manifest, record, shard.rows, _conditional(writer.manifest, pairs)))
    except DatasetError as error:
        return [f"{path}: {error}" if str(path) not in str(error) else str(error)]
    if not faults:
        writer.write_record(shard, {})
    return faults


def _conditional(manifest: Manifest, pairs: str | None) -> "Conditional | None":
    """Return what the exact positives of a shard without a record are held against."""
    try:
        return positives_conditional(manifest, pairs)
    except NotLoadedError as error:
        raise DatasetError(
            f"the exact positives of a shard that has no record cannot be checked: {error}, or give the conditional "
            "with --pairs, or copy the records (.render/) too"
        ) from error
    except ValueError as error:
        raise DatasetError(str(error)) from error
