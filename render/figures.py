"""Figures: what each factor does to the image, and a look at the images of a dataset."""

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
from render.blender.quality import DEFAULT_QUALITY, QUALITIES, Quality
from render.dataset.spec import find_world
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

_INNER = 0.5  # fixed factors are drawn from the inner half of their range
_GAP = 2
_FONT_PIXELS = 12
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)


def mosaic(images: npt.NDArray[np.uint8], columns: Sequence[str] = (), rows: Sequence[str] = ()) -> Image.Image:
    """Return images in a grid.

    Args:
        images: (R, C, H, W, 3) uint8.
        columns: C names, written above the columns; empty for none.
        rows: R names, written to the left of the rows; empty for none.
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
    """Check, before the work that makes an image, that it can be written to ``path``.

    Raises:
        ValueError: if the suffix is not that of an image format, for example .png.
        FileExistsError: if it is a folder.
        OSError: if no files can be created in its folder.
    """
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise ValueError(f"{path} is not the name of an image: expected one that ends in .png")
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder; expected the name of an image to write")
    check_writable(path.parent)


def _broken(name: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """Break a name into lines that are no wider than an image, as far as its words allow."""
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
        base: (d,) raw latents, the values of the fixed factors.
        steps: number of values from -1 to 1, 2 or more.

    Returns:
        (steps, d, d) float32: ``base`` at [i, j], except factor j, which has the i-th value.
    """
    check_count(steps, "the number of steps of a traversal", 2)
    latents = np.tile(np.asarray(base, dtype=np.float32), (steps, len(base), 1))
    columns = np.arange(len(base))
    latents[:, columns, columns] = np.linspace(-1, 1, steps, dtype=np.float32)[:, None]
    return latents


@dataclass(frozen=True, kw_only=True)
class TraversalSpec:
    """The options of a traversal.

    Attributes:
        world: maps latents to scenes; a world, or its JSON file; that of 3DIdent where None.
        hue_map: maps hue angles to colours, in place of the world's own map; None for that.
        steps: number of values of each factor, 2 or more.
        resolution: width and height of one image in pixels.
        seed: seed of the values of the fixed factors.
        quality: settings of the sampler and the denoiser, or the name of a preset.
    """

    world: World | Path | None = None
    hue_map: HueMap | str | None = None
    steps: int = 7
    resolution: int = 128
    seed: int = 0
    quality: Quality | str = DEFAULT_QUALITY


def traversal(spec: TraversalSpec | None = None, pool: PoolSpec | None = None) -> Image.Image:
    """Render what each factor does: a column per factor, its raw value rising from -1 at the top to 1 at the bottom.

    While one factor varies, the others are fixed at values from the inner half of their ranges.

    Args:
        spec: what to draw; the defaults where None.
        pool: the workers; where None, on a GPU if one is available, or else on all cores.

    Raises:
        ValueError: if a setting or the world is invalid.
        FileNotFoundError: if the file of the world does not exist.
        RenderError: if the machine cannot render, or an image cannot be rendered.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, Figure 3.
    """
    spec = spec or TraversalSpec()
    world = find_world(spec.world, spec.hue_map)
    base = _INNER * sample_latents(1, spec.seed, split="traversal", factors=world.factors)[0]
    latents = traversal_latents(base, spec.steps)  # raises before Blender is started
    quality = QUALITIES.find(spec.quality) if isinstance(spec.quality, str) else spec.quality
    with (pool or PoolSpec()).pool(quality, spec.resolution) as workers:
        return traversal_of(world, latents, workers)


def traversal_of(world: World, latents: npt.NDArray[np.float32], renderer: Renderer) -> Image.Image:
    """Render given latents as a traversal.

    Args:
        world: maps latents to scenes.
        latents: (steps, d, d) raw latents, as :func:`traversal_latents` returns them.
        renderer: renders the images.
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
    """Return a nearly square grid of a dataset's images, evenly spaced over a split.

    To the left of each line is the id of its first image; to the right of each anchor is its exact positive, if any.

    Args:
        root: the dataset's folder, of any layout, or "sample".
        split: name of the split.
        count: number of rows of the dataset, 1 or more; all of them where it has fewer.

    Raises:
        ValueError: if the count is not positive, or the split is unknown.
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
