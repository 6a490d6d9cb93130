"""Images side by side in one, with names over the columns and beside the rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from ident3d.arguments import check_count
from ident3d.latents import sample_latents
from ident3d.randomness import integer_seed
from ident3d.scene.templates import HueMap
from ident3d.scene.world import World
from ident3d.storage.images import decode
from ident3d.storage.layouts import open_split
from render.blender.pool import PoolSpec
from render.blender.protocol import Job, Renderer
from render.blender.quality import DEFAULT_QUALITY, Quality
from render.dataset.spec import find_quality, find_world
from render.dataset.writer import check_writable

__all__ = [
    "TraversalSpec",
    "check_output",
    "contact_sheet",
    "mosaic",
    "traversal",
    "traversal_latents",
    "traversal_of",
]

_INNER = 0.5  # the factors that stay are drawn from the inner half of their range

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
        ValueError: if the name does not end like one of a format that can be written, for example .png.
        FileExistsError: if it is a folder.
        OSError: if no files can be made where it lies.
    """
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise ValueError(f"{path} is not a name for an image: expected one that ends in .png")
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
    check_count(steps, "the number of steps of a traversal", 2)
    latents = np.tile(np.asarray(base, dtype=np.float32), (steps, len(base), 1))
    columns = np.arange(len(base))
    latents[:, columns, columns] = np.linspace(-1, 1, steps, dtype=np.float32)[:, None]
    return latents


@dataclass(frozen=True, kw_only=True)
class TraversalSpec:
    """A traversal that somebody asks for.

    Attributes:
        world: what makes scenes out of latents, or its file of JSON; that of 3DIdent where None.
        hue_map: how hue angles become colours, instead of the world's own way; None for that.
        steps: number of values of each factor, 2 or more.
        resolution: width and height of one image in pixels.
        seed: seed of the values that the factors have while they stay.
        quality: settings of the sampler and the denoiser, or the name of a preset.
    """

    world: World | Path | None = None
    hue_map: HueMap | str | None = None
    steps: int = 7
    resolution: int = 128
    seed: int = 0
    quality: Quality | str = DEFAULT_QUALITY


def traversal(spec: TraversalSpec | None = None, pool: PoolSpec | None = None) -> Image.Image:
    """Render what each factor does: a column for each, its raw value rising from -1 at the top to 1 at the bottom.

    While one factor goes through its range, the others stay at values from the inner half of theirs.

    Args:
        spec: what is drawn.
        pool: what renders; all cores, or a GPU if there is one, where None.

    Raises:
        ValueError: if a setting, or the world, cannot be used.
        FileNotFoundError: if there is no file of the world.
        RenderError: if the machine cannot render, or an image cannot be rendered.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, Figure 3.
    """
    spec = spec or TraversalSpec()
    world = find_world(spec.world, spec.hue_map)
    base = _INNER * sample_latents(1, spec.seed, split="traversal", factors=world.factors)[0]
    latents = traversal_latents(base, spec.steps)  # says what is wrong before Blender is started
    with (pool or PoolSpec()).pool(find_quality(spec.quality), spec.resolution) as workers:
        return traversal_of(world, latents, workers)


def traversal_of(world: World, latents: npt.NDArray[np.float32], renderer: Renderer) -> Image.Image:
    """Render given latents as a traversal.

    Args:
        world: what makes scenes out of latents.
        latents: (steps, d, d) raw latents, as :func:`traversal_latents` returns them.
        renderer: makes the images.
    """
    places = list(np.ndindex(latents.shape[:2]))
    jobs = (
        Job(place, world.scene(latents[place]), integer_seed(0, "traversal", number))
        for number, place in enumerate(places)
    )
    images = {place: decode(png, f"the image at {place}") for place, png in renderer.render(jobs)}
    grid = np.stack([images[place] for place in places])
    values = [f"{value:+.2f}" for value in np.linspace(-1, 1, len(latents))]
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
    check_count(count, "the number of images", 1)
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
