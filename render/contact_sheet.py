"""A look at a dataset: some of its pictures in one."""

from pathlib import Path

import numpy as np
from PIL import Image

from ident3d.storage.layouts import open_split
from render.mosaic import mosaic

__all__ = ["contact_sheet"]


def contact_sheet(root: Path | str, split: str, count: int) -> Image.Image:
    """Return a near-square grid of a dataset's pictures, evenly spaced over a split.

    Beside each line stands the id of its first picture. An exact positive stands to the right of its anchor.

    Args:
        root: the dataset's folder, of any layout, or "sample".
        split: name of the split.
        count: number of rows of the dataset, 1 or more; all of them where it has fewer.

    Raises:
        ValueError: if the count is not positive, or there is no such split.
        DatasetError: if the dataset, or one of the pictures, cannot be read.
    """
    if count < 1:
        raise ValueError(f"expected 1 or more pictures, not {count}")
    stored = open_split(root, split)
    rows = np.unique(np.linspace(0, len(stored.ids) - 1, count).astype(np.int64))
    pictures = stored.batch(rows)
    if stored.latents_pos is not None:
        pictures = np.concatenate([pictures, stored.batch(rows, positive=True)], axis=2)
    columns = max(1, round((len(rows) * pictures.shape[1] / pictures.shape[2]) ** 0.5))
    lines = -(-len(rows) // columns)
    grid = np.full((lines * columns, *pictures.shape[1:]), 255, np.uint8)
    grid[: len(rows)] = pictures
    return mosaic(grid.reshape(lines, columns, *grid.shape[1:]), rows=[f"{stored.ids[k]}" for k in rows[::columns]])
