"""How objects show themselves in notebooks: images in a strip with their latents, and bars; Pillow is all it takes."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["as_images", "bar", "contact_sheet", "embedded", "shapes", "strip"]

_GAP = 2  # pixels between the images of a sheet
_SMALLEST = 64  # pixels a side that an image is shown with at least

Images = npt.NDArray[np.uint8]


def as_images(images: Tensor) -> Images | None:
    """Return images as bytes that can be looked at.

    Args:
        images: (B, 3, H, W), or (B, 1, H, W) for grey ones, of any dtype and device. Floats that leave [0, 1], as
            normalised ones do, are stretched so that the smallest is black and the largest white.

    Returns:
        (B, H, W, 3) uint8; None for tensors that are no images.
    """
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.numel():
        return None
    values = images.detach().expand(-1, 3, -1, -1).permute(0, 2, 3, 1).cpu()
    if not values.is_floating_point():
        return np.asarray(values.clamp(0, 255).byte().numpy())
    values = values.double().nan_to_num()
    low, high = min(0.0, float(values.min())), max(1.0, float(values.max()))
    return np.asarray((255 * (values - low) / (high - low)).round().byte().numpy())


def contact_sheet(rows: Sequence[Images]) -> Image.Image:
    """Return rows of images as one image.

    Args:
        rows: for each row its (N, H, W, 3) uint8 images.
    """
    height, width = rows[0].shape[1:3]
    columns = max(map(len, rows))
    size = (len(rows) * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, 3)
    sheet = np.full(size, 255, np.uint8)
    for i, row in enumerate(rows):
        for k, image in enumerate(row):
            top, left = i * (height + _GAP), k * (width + _GAP)
            sheet[top : top + height, left : left + width] = image
    return Image.fromarray(sheet)


def strip(rows: Mapping[str, Images], values: Mapping[str, Iterable[str]]) -> str:
    """Return an HTML table with images above, and a row of text for each of their values below.

    Args:
        rows: (N, H, W, 3) uint8 images by what they are.
        values: N texts by what they are.
    """
    lines = [(name, map(_image, images)) for name, images in rows.items()]
    lines += [(name, map(html.escape, texts)) for name, texts in values.items()]
    style = "text-align:right;padding:1px 4px;white-space:nowrap"
    body = "".join(
        f'<tr><th style="{style}">{html.escape(name)}</th>'
        + "".join(f'<td style="{style}">{cell}</td>' for cell in cells)
        + "</tr>"
        for name, cells in lines
    )
    return f'<div style="overflow-x:auto"><table style="font-size:85%">{body}</table></div>'


def bar(value: float, text: str) -> str:
    """Return a table's cell with a number and a bar of its length: empty at 0, full at 1."""
    share = 100 * min(max(value, 0.0), 1.0)
    fill = f"linear-gradient(90deg,rgba(31,119,180,.35) {share:.1f}%,transparent {share:.1f}%)"
    return f'<td style="text-align:right;background:{fill};min-width:6em">{html.escape(text)}</td>'


def embedded(png: bytes, alt: str) -> str:
    """Return an HTML image that holds the bytes of a PNG file."""
    data = base64.b64encode(png).decode()
    return f'<img alt="{html.escape(alt, quote=True)}" style="max-width:100%" src="data:image/png;base64,{data}">'


def _image(image: Images) -> str:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    size = max(_SMALLEST, image.shape[1])
    return f'<img width="{size}" style="image-rendering:pixelated" src="data:image/png;base64,{data}" alt="">'


def shapes(named: Mapping[str, Any]) -> list[str]:
    """Return a line for each tensor: its name, dtype and shape."""
    width = max(map(len, named))
    return [
        f"  {name:{width}}  {str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
        for name, tensor in named.items()
    ]
