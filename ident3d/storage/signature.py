"""Signatures: what a decoded cache remembers of the files that it was made from."""

import hashlib
from pathlib import Path

from ident3d.storage.native import shard_paths
from ident3d.storage.published import IMAGES_FOLDER, RAW_LATENTS, published_folder
from ident3d.storage.shard import footer

__all__ = ["source_signature"]


def source_signature(root: Path, split: str) -> str | None:
    """Return a hash by which a change of a split's files is noticed without reading its pictures.

    It covers the name, size and footer of every shard, and a footer holds the place and size of every group of 32
    pictures. Of the published layout it covers the latents, the number of pictures, and the first and the last of
    them. Copying or moving the files does not change it.

    Args:
        root: the dataset's folder.
        split: name of the split.

    Returns:
        A hexadecimal hash, or None where neither shards nor the published layout of the split are there.
    """
    shards = shard_paths(root, split)
    folder = published_folder(root, split)
    digest = hashlib.sha256()
    if shards:
        for shard in shards:
            with shard.open("rb") as file:
                digest.update(f"{shard.name} ".encode())
                digest.update(footer(file))
    elif folder is not None:
        names = sorted(path.name for path in (folder / IMAGES_FOLDER).iterdir())
        digest.update(f"{len(names)}\n".encode())
        digest.update((folder / RAW_LATENTS).read_bytes())
        for name in names[:1] + names[-1:]:
            digest.update((folder / IMAGES_FOLDER / name).read_bytes())
    else:
        return None
    return digest.hexdigest()
