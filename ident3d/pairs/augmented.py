"""Positive pairs that are two augmented views of one image."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from ident3d.device import send
from ident3d.pairs.stream import PairBatch, PairData, StoredPairs

__all__ = ["CHANGES", "AugmentedPairs", "SimCLRViews", "brightness", "contrast", "hue", "luminance", "saturation"]

_TRIES = 10


@dataclass(frozen=True)
class SimCLRViews:
    """Random views of images, one for each image, drawn for a whole batch at once.

    A view is a crop of random area and aspect ratio, resized to the image's size, with its brightness, contrast,
    saturation and hue changed in random order, and sometimes its colour dropped. The defaults are those of the
    augmented-pairs experiment on 3DIdent: neither flips nor blur.

    Example:
        >>> import ident3d, torch
        >>> from ident3d.pairs.augmented import SimCLRViews
        >>> images = ident3d.ThreeDIdent("sample").pixels([0, 1]).permute(0, 3, 1, 2)
        >>> SimCLRViews(grey_probability=1.0)(images, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 3, 64, 64])

    Attributes:
        area: least and largest area of the crop, as a share of the image's.
        ratio: least and largest width / height of the crop; drawn uniformly in its logarithm.
        strength: of the colour jitter: brightness, contrast and saturation change by factors within 1 +- 0.8
            strength, the hue by up to 0.2 strength of a turn.
        jitter_probability: of the colour jitter.
        grey_probability: of dropping the colour.

    Raises:
        ValueError: if a range is not within its bounds, or a probability not in [0, 1].

    Reference:
        Zimmermann et al., ICML 2021, appendix A.3; Chen et al., A Simple Framework for Contrastive Learning of Visual
        Representations, ICML 2020, appendix A.
    """

    area: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    strength: float = 1.0
    jitter_probability: float = 0.8
    grey_probability: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.area[0] <= self.area[1] <= 1:
            raise ValueError(f"the area of a crop is a range within (0, 1], not {self.area}")
        if not 0 < self.ratio[0] <= self.ratio[1] < math.inf:
            raise ValueError(f"the aspect ratio of a crop is a range of positive numbers, not {self.ratio}")
        if not 0 <= self.strength <= 2.5:  # the hue turns by at most half a circle either way
            raise ValueError(f"the strength of the colour jitter is in [0, 2.5], not {self.strength}")
        for name in ("jitter_probability", "grey_probability"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is in [0, 1], not {getattr(self, name)}")

    def __call__(
        self, images: UInt8[Tensor, "batch 3 height width"], generator: torch.Generator
    ) -> UInt8[Tensor, "batch 3 height width"]:
        """Return one view of each image.

        Args:
            images: on any device.
            generator: source of the randomness, on the CPU, so that views are the same on every device.
        """
        boxes = self.crops(len(images), images.shape[2], images.shape[3], generator)
        views = crop_and_resize(images.float() / 255, send(boxes, images.device))
        views = self._distort(views, generator)
        return views.mul(255).round_().to(torch.uint8, memory_format=torch.channels_last)

    def crops(self, n: int, height: int, width: int, generator: torch.Generator) -> Int64[Tensor, "{n} 4"]:
        """Draw n crops: top, left, height and width in pixels.

        Area and ratio are drawn until the crop fits into the image, ten times at most; else it is the largest
        crop in the middle with an allowed ratio.
        """
        area = _uniform((n, _TRIES), self.area, generator) * height * width
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = _uniform((n, _TRIES), (low, high), generator).exp()
        place = _unit((n, 2), generator)
        heights, widths = (area / ratio).sqrt().round().long(), (area * ratio).sqrt().round().long()
        fits = (heights >= 1) & (heights <= height) & (widths >= 1) & (widths <= width)
        first = fits.int().argmax(dim=1, keepdim=True)
        whole_ratio = min(max(width / height, self.ratio[0]), self.ratio[1])
        whole = (min(height, round(width / whole_ratio)), min(width, round(height * whole_ratio)))
        fitting = fits.any(dim=1)
        sizes = torch.stack([heights.gather(1, first)[:, 0], widths.gather(1, first)[:, 0]], dim=1)
        sizes = torch.where(fitting[:, None], sizes, torch.tensor(whole, dtype=torch.int64, device=sizes.device))
        spare = torch.tensor([height, width], dtype=torch.int64, device=sizes.device) - sizes
        corners = torch.where(fitting[:, None], (place * (spare + 1)).long().minimum(spare), spare // 2)
        return torch.cat([corners, sizes], dim=1)

    def _distort(self, views: Tensor, generator: torch.Generator) -> Tensor:
        n, device = len(views), views.device
        spread = 0.8 * self.strength
        factors = _uniform((n, 3), (max(0.0, 1 - spread), 1 + spread), generator)
        turns = _uniform((n, 1), (-0.2 * self.strength, 0.2 * self.strength), generator)
        amounts = torch.cat([factors, turns], dim=1)
        order = _unit((n, len(CHANGES)), generator).argsort(dim=1)
        jittered = _unit((n,), generator) < self.jitter_probability
        grey = _unit((n,), generator) < self.grey_probability
        # Who changes when is found on the CPU: a device would be waited for to count the views of each change.
        turn = [(place, number) for place in range(len(CHANGES)) for number in range(len(CHANGES))]
        chosen = [(jittered & (order[:, place] == number)).nonzero()[:, 0] for place, number in turn]
        amount = [amounts[rows, number] for rows, (_, number) in zip(chosen, turn, strict=True)]
        counts = [len(rows) for rows in chosen]
        rows_there, amounts_there = (torch.split(send(torch.cat(parts), device), counts) for parts in (chosen, amount))
        views = views.clone()
        for (_, number), rows, own in zip(turn, rows_there, amounts_there, strict=True):
            if len(rows):
                views[rows] = CHANGES[number](views[rows], own[:, None, None, None])
        return torch.where(send(grey, device)[:, None, None, None], luminance(views), views)


class AugmentedPairs(StoredPairs):
    """Two views of one image as a positive pair: the paper's comparison to learning without knowing the latents.

    Both views carry the latents of the image that they were made of, though a crop shows another position and a
    colour jitter other hues. A batch's ``ids_pos`` are its ``ids``.

    Streams, ranks, workers, resuming: see :class:`~ident3d.pairs.stream.PairStream`.

    Example:
        >>> import ident3d
        >>> batch = ident3d.AugmentedPairs(ident3d.ThreeDIdent("sample"), batch_size=4).batch(0)
        >>> bool((batch.z == batch.z_pos).all()), bool((batch.x == batch.x_pos).all())
        (True, False)

    Args:
        data: the dataset.
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        views: how views are drawn.
        transform: what is made of each view, (3, H, W); see :class:`~ident3d.pairs.stream.PairStream`.
        dtype: what the views are served in: a dtype of floats scales them to [0, 1]; None: uint8.

    Raises:
        TypeError: if data is not a dataset, or views not a function.
        ValueError: if batch size or seed are not usable.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, table 4, last row.
    """

    def __init__(
        self,
        data: PairData,
        batch_size: int = 512,
        seed: int = 0,
        *,
        views: SimCLRViews | None = None,
        transform: Callable[[Tensor], Any] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(data, batch_size, seed, transform, dtype)
        if views is not None and not callable(views):
            raise TypeError(f"the views of an image are drawn by a SimCLRViews, not by {views!r}")
        self.views = SimCLRViews() if views is None else views
        self._say()

    @property
    def realises(self) -> str:
        """That both views of a pair have the same latents, whatever their images show."""
        return f"two augmented views of each of {len(self.data):,} images: positives have the latents of their anchors"

    def _draw(self, number: int) -> PairBatch:
        ids = self._anchors(number)
        images, generator = self._images(ids), self._generator("views", number)
        z = self._latents(ids)
        return PairBatch(
            self.views(images, generator), self.views(images, generator), z, z.clone(), ids, ids.clone(), number
        )


def _unit(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, dtype=torch.float32, device=generator.device, generator=generator)


def _uniform(shape: tuple[int, ...], bounds: tuple[float, float], generator: torch.Generator) -> Tensor:
    empty = torch.empty(shape, dtype=torch.float32, device=generator.device)
    return empty.uniform_(*bounds, generator=generator)


def crop_and_resize(
    images: Float[Tensor, "batch 3 height width"], boxes: Int64[Tensor, "batch 4"]
) -> Float[Tensor, "batch 3 height width"]:
    """Cut a box out of each image and resize it to the image's size, bilinearly.

    Args:
        images: the images.
        boxes: top, left, height and width in pixels; crops are never shrunk, so nothing aliases.
    """
    axes = []
    for axis, size in enumerate(images.shape[2:]):
        start, extent = boxes[:, axis, None], boxes[:, axis + 2, None]
        centre = (torch.arange(size, dtype=images.dtype, device=boxes.device) + 0.5) * extent / size - 0.5
        inside = start + centre.clamp(
            min=torch.zeros_like(extent), max=extent - 1
        )  # the crop's edge, not what is beyond
        axes.append(2 * inside / max(size - 1, 1) - 1)
    rows, columns = axes
    height, width = images.shape[2:]
    grid = torch.stack([columns[:, None].expand(-1, height, -1), rows[:, :, None].expand(-1, -1, width)], dim=3)
    return F.grid_sample(images, grid.to(images.dtype), mode="bilinear", padding_mode="border", align_corners=True)


@lru_cache
def _channels(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a number for each channel, (3, 1, 1), copied to a device once."""
    with torch.inference_mode(mode=False):  # what is kept is used elsewhere too
        return torch.tensor(values, dtype=dtype, device=device)[:, None, None]


def luminance(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 1 height width"]:
    """Return the grey value, weighted as in ITU-R 601."""
    weights = _channels((0.2989, 0.587, 0.114), images.dtype, images.device)
    return (images * weights).sum(dim=1, keepdim=True)


def brightness(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, "batch 1 1 1"]
) -> Float[Tensor, "batch 3 height width"]:
    """Multiply every value by ``factor``."""
    return _blend(images, torch.zeros_like(images), factor)


def contrast(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, "batch 1 1 1"]
) -> Float[Tensor, "batch 3 height width"]:
    """Scale values about the image's mean grey by ``factor``."""
    return _blend(images, luminance(images).mean(dim=(1, 2, 3), keepdim=True), factor)


def saturation(
    images: Float[Tensor, "batch 3 height width"], factor: Float[Tensor, "batch 1 1 1"]
) -> Float[Tensor, "batch 3 height width"]:
    """Scale values about the pixel's grey by ``factor``."""
    return _blend(images, luminance(images), factor)


def hue(
    images: Float[Tensor, "batch 3 height width"], turn: Float[Tensor, "batch 1 1 1"]
) -> Float[Tensor, "batch 3 height width"]:
    """Turn the hue of every pixel by ``turn``, in turns of the circle, keeping HSV saturation and value."""
    value, brightest = images.max(dim=1, keepdim=True)
    chroma = value - images.amin(dim=1, keepdim=True)
    red, green, blue = images[:, 0:1], images[:, 1:2], images[:, 2:3]
    # Sixths of a turn, counted from the brightest channel.
    offsets = torch.cat([green - blue, blue - red, red - green], dim=1).gather(1, brightest)
    sextant = offsets / chroma.clamp(min=torch.finfo(images.dtype).tiny) + 2 * brightest + 6 * turn
    # A channel falls from full to nothing between one and two sixths of a turn away from its own hue.
    own = _channels((5.0, 3.0, 1.0), images.dtype, images.device)
    distance = (own + sextant) % 6
    return value - chroma * torch.minimum(distance, 4 - distance).clamp(0, 1)


def _blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return (factor * images + (1 - factor) * other).clamp(0, 1)


CHANGES: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (brightness, contrast, saturation, hue)
"""The changes of SimCLR's colour jitter."""
