"""Parts that several machines rendered, as one dataset: the shards that are there are listed, and the gaps named."""

from pathlib import Path

from ident3d.errors import DatasetError
from ident3d.files import sha256_of
from ident3d.storage.manifest import Manifest, ShardRecord
from ident3d.storage.native import ShardReader
from ident3d.storage.verification import names_faults, shard_faults
from render.dataset.folder import Assembly, started
from render.dataset.plan import Plan, Recipe, Shard

__all__ = ["merge"]


def merge(root: Path) -> tuple[Manifest, list[str]]:
    """List every planned shard that lies in a folder, and say what is missing, doubled, damaged or foreign.

    The parts may have been rendered into the folder, or into folders of their own and copied together. A shard that was
    copied without its record (``.render/``) is read, and recorded if it holds what is planned.

    Args:
        root: the folder.

    Returns:
        The manifest, and one line for each thing that is wrong; no line for a complete dataset.

    Raises:
        FileNotFoundError: if the folder holds no dataset.
        ValueError: if it holds something else.
        DatasetError: if the manifest is damaged, or does not say how the images are made.
    """
    manifest = started(root)
    if manifest is None:
        raise FileNotFoundError(f"{root} holds no dataset: render its parts into it, or copy them there, first")
    assembly = Assembly(root, Plan(manifest, Recipe.of(manifest)))
    faults = [fault for shard in assembly.plan.shards for fault in _settle(assembly, shard)]
    if not faults:
        manifest = assembly.compose()
    return manifest, [*names_faults(root, manifest), *faults]


def _settle(assembly: Assembly, shard: Shard) -> list[str]:
    """Record a shard that has no record yet; return what is wrong with it."""
    path = assembly.path(shard)
    try:
        record = assembly.record(shard)
        if record is not None:
            if sha256_of(path) == record.sha256:
                return []
            return [f"{path} is damaged: its checksum is not the recorded one; render that part again"]
        if not path.is_file():
            return []
        reader = ShardReader(path)
        if reader.settings != assembly.settings:
            return [f"{path} was rendered with other settings than {assembly.root}: its quality or hue map, say"]
        record = ShardRecord(shard.name, shard.split, shard.rows.start, len(shard.rows), "")
        faults = list(shard_faults(reader, assembly.plan.manifest, record, shard.rows))
    except DatasetError as error:
        return [str(error)]
    if not faults:
        assembly.write_record(shard, {})
    return faults
