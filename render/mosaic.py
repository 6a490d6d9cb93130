"""Pictures side by side in one, with names over the columns and beside the rows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from render.folder import check_writable

__all__ = ["check_output", "mosaic"]

_GAP = 2
_FONT_PIXELS = 12
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)


def mosaic(pictures: npt.NDArray[np.uint8], columns: Sequence[str] = (), rows: Sequence[str] = ()) -> Image.Image:
    """Return pictures in a grid.

    Args:
        pictures: (R, C, H, W, 3) uint8.
        columns: C names, written over the columns; none where empty.
        rows: R names, written beside the rows; none where empty.
    """
    count_rows, count_columns, height, width, _ = pictures.shape
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
            canvas.paste(Image.fromarray(pictures[row, column]), (left + column * (width + _GAP), y))
    return canvas


def check_output(path: Path) -> None:
    """Raise an error unless a picture can be written to ``path``, before the work that makes it.

    Raises:
        ValueError: if the name does not end like one of a format that can be written, .png say.
        FileExistsError: if it is a folder.
        OSError: if no files can be made where it lies.
    """
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise ValueError(f"{path} is no name for a picture: expected one that ends in .png")
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder; expected the name of a picture to write")
    check_writable(path.parent)


def _broken(name: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """Return a name in lines that are as wide as a picture, where its words allow that."""
    lines: list[str] = []
    for word in name.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
