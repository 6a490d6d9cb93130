"""Images side by side in one, with names over the columns and beside the rows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from ident3d.randomness import integer_seed
from ident3d.scene.world import World
from ident3d.storage.images import decode
from ident3d.storage.layouts import open_split
from render.blender.pool import Job, Pool
from render.dataset.folder import check_writable

__all__ = ["check_output", "contact_sheet", "mosaic", "traversal", "traversal_latents"]

_GAP = 2
_FONT_PIXELS = 12
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)


def mosaic(images: npt.NDArray[np.uint8], columns: Sequence[str] = (), rows: Sequence[str] = ()) -> Image.Image:
    """Return images in a grid.

    Args:
        images: (R, C, H, W, 3) uint8.
        columns: C names, written over the columns; none where empty.
        rows: R names, written beside the rows; none where empty.
    """
    count_rows, count_columns, height, width, _ = images.shape
    font = ImageFont.load_default(_FONT_PIXELS)
    left = max((int(font.getlength(name)) + 2 * _GAP for name in rows), default=0)
    lines = [_broken(name, width, font) for name in columns]
    top = max((len(line) for line in lines), default=0) * (_FONT_PIXELS + _GAP) + (_GAP if columns else 0)
    size = (left + count_columns * (width + _GAP) - _GAP, top + count_rows * (height + _GAP) - _GAP)
    canvas = Image.new("RGB", size, _WHITE)
    draw = ImageDraw.Draw(canvas)
    for column, name in enumerate(lines):
        x = left + column * (width + _GAP) + width / 2
        draw.multiline_text((x, 0), "\n".join(name), _BLACK, font, anchor="ma", align="center", spacing=_GAP)
    for row in range(count_rows):
        y = top + row * (height + _GAP)
        if rows:
            draw.text((left - 2 * _GAP, y + height / 2), rows[row], _BLACK, font, anchor="rm")
        for column in range(count_columns):
            canvas.paste(Image.fromarray(images[row, column]), (left + column * (width + _GAP), y))
    return canvas


def check_output(path: Path) -> None:
    """Raise an error unless an image can be written to ``path``, before the work that makes it.

    Raises:
        ValueError: if the name does not end like one of a format that can be written, .png say.
        FileExistsError: if it is a folder.
        OSError: if no files can be made where it lies.
    """
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise ValueError(f"{path} is no name for an image: expected one that ends in .png")
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder; expected the name of an image to write")
    check_writable(path.parent)


def _broken(name: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """Return a name in lines that are as wide as an image, where its words allow that."""
    lines: list[str] = []
    for word in name.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def traversal_latents(base: npt.NDArray[np.float32], steps: int) -> npt.NDArray[np.float32]:
    """Return the latents of a traversal.

    Args:
        base: (d,) raw latents that the factors have while they stay.
        steps: number of values from -1 to 1, 2 or more.

    Returns:
        (steps, d, d) float32: at [i, j] all of ``base``, but for factor j, which has the i-th value.
    """
    if steps < 2:
        raise ValueError(f"a traversal has 2 or more steps, not {steps}")
    latents = np.tile(np.asarray(base, dtype=np.float32), (steps, len(base), 1))
    columns = np.arange(len(base))
    latents[:, columns, columns] = np.linspace(-1, 1, steps, dtype=np.float32)[:, None]
    return latents


def traversal(world: World, base: npt.NDArray[np.float32], steps: int, pool: Pool) -> Image.Image:
    """Render a traversal: a column for each factor, its raw value rising from -1 at the top to 1 at the bottom.

    Args:
        world: the law that makes a scene out of latents.
        base: (d,) raw latents that the factors have while they stay.
        steps: number of values of each factor, 2 or more.
        pool: the workers, started.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, Figure 3.
    """
    latents = traversal_latents(base, steps)
    places = list(np.ndindex(latents.shape[:2]))
    jobs = (
        Job(place, world.scene(latents[place]), integer_seed(0, "traversal", number))
        for number, place in enumerate(places)
    )
    images = {place: decode(png, f"the image at {place}") for place, png in pool.render(jobs)}
    grid = np.stack([images[place] for place in places])
    values = [f"{value:+.2f}" for value in np.linspace(-1, 1, steps)]
    names = [name.replace("_", " ") for name in world.factors.names]
    return mosaic(grid.reshape(*latents.shape[:2], *grid.shape[1:]), names, values)


def contact_sheet(root: Path | str, split: str, count: int) -> Image.Image:
    """Return a near-square grid of a dataset's images, evenly spaced over a split.

    Beside each line stands the id of its first image. An exact positive stands to the right of its anchor.

    Args:
        root: the dataset's folder, of any layout, or "sample".
        split: name of the split.
        count: number of rows of the dataset, 1 or more; all of them where it has fewer.

    Raises:
        ValueError: if the count is not positive, or there is no such split.
        DatasetError: if the dataset, or one of the images, cannot be read.
    """
    if count < 1:
        raise ValueError(f"expected 1 or more images, not {count}")
    stored = open_split(root, split)
    rows = np.unique(np.linspace(0, len(stored.ids) - 1, count).astype(np.int64))
    images = stored.batch(rows)
    if stored.positives is not None:
        images = np.concatenate([images, stored.positives.batch(rows)], axis=2)
    columns = max(1, round((len(rows) * images.shape[1] / images.shape[2]) ** 0.5))
    lines = -(-len(rows) // columns)
    grid = np.full((lines * columns, *images.shape[1:]), 255, np.uint8)
    grid[: len(rows)] = images
    return mosaic(grid.reshape(lines, columns, *grid.shape[1:]), rows=[f"{stored.ids[k]}" for k in rows[::columns]])
