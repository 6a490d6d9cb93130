"""What is made of images before they are served: bytes to floats, and transforms of each image or of whole batches."""

import math
import random  # noqa: TID251 - its global generator is what plain functions draw from, and is put back
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ident3d.randomness import integer_seed

__all__ = ["BatchTransform", "as_floats", "check_dtype", "normalize", "of_pil_images", "transformed"]

Transform = Callable[[Tensor], Any]

_AT_ONCE = (1 << 15) - 1
"""Numbers that are worked on at once: as many as stay in a core's cache, and the most that torch leaves to one thread.

Several threads take turns at so little work that most of their time is waiting, which takes all of a core, too: on two
cores that others used they took ten times the CPU time and five times the time of one.
"""


@dataclass(frozen=True)
class BatchTransform:
    """A transform that is given a whole batch, (B, 3, H, W), where any other is given one image at a time.

    What is the same for every image is cheaper so: ``BatchTransform(function)``. A random crop or flip would be the
    same in the whole batch.

    Example:
        >>> import ident3d, torch
        >>> halved = ident3d.BatchTransform(lambda images: images / 2)
        >>> pairs = ident3d.PositivePairs(
        ...     ident3d.ThreeDIdent("sample"), ident3d.Normal(0.3), 8, dtype=torch.float32, transform=halved
        ... )
        >>> bool(pairs.batch(0).x.max() <= 0.5)
        True

    Attributes:
        function: makes a tensor of B images of a (B, 3, H, W) tensor.
        is_quick: whether it takes so little time that the process which iterates applies it itself: workers then send
            bytes, a quarter of what floats take, and decoded images are sent by none.

    Raises:
        TypeError: if it is not a function.
    """

    function: Callable[[Tensor], Tensor]
    is_quick: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"a transform of batches is a function of (B, 3, H, W) tensors, not {self.function!r}")

    def __call__(self, images: Tensor) -> Tensor:
        """Return what the function makes of (B, 3, H, W) images."""
        return self.function(images)


def check_dtype(dtype: Any) -> None:
    """Raise TypeError unless images can be served in ``dtype``: a torch dtype of floats, uint8, or None."""
    if dtype is None or dtype == torch.uint8 or (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        return
    raise TypeError(f"images are served in torch.uint8 or in a dtype of floats, such as torch.float32, not {dtype!r}")


def as_floats(images: Tensor, dtype: torch.dtype) -> Tensor:
    """Return images in a dtype of floats, with the memory layout they have: bytes scaled to [0, 1], others cast."""
    if images.dtype != torch.uint8:
        return images.to(dtype)
    return _in_cache(images, dtype, lambda numbers: numbers.div_(255))


def normalize(mean: Sequence[float], std: Sequence[float], dtype: torch.dtype = torch.float32) -> BatchTransform:
    """Return a transform to normalised floats: (x / 255 - mean) / std of bytes, (x - mean) / std of floats.

    It goes once over the bytes, and is several times as quick as one operation after the other on a whole batch. The
    images keep their layout, channels last. To give a GPU less to copy, serve bytes and normalise them there.

    Args:
        mean: of each of the three channels, where 1 is the largest byte.
        std: standard deviation of each channel, positive.
        dtype: what is served: float32, bfloat16, float16 or float64; it is computed in float32 or better.

    Raises:
        TypeError: if dtype is not one of floats.
        ValueError: if there are not three finite means and three positive deviations, or if what they make of pixels
            is too large for dtype; later, if the images do not have three channels.

    Examples:
        ``PositivePairs(data, conditional, transform=normalize((0.4, 0.3, 0.3), (0.1, 0.2, 0.1)))``
    """
    if dtype == torch.uint8 or dtype is None:
        raise TypeError(f"normalised images are served in a dtype of floats, such as torch.float32, not {dtype!r}")
    check_dtype(dtype)
    means, deviations = tuple(map(float, mean)), tuple(map(float, std))
    is_usable = all(map(math.isfinite, means + deviations)) and all(deviation > 0 for deviation in deviations)
    if len(means) != _CHANNELS or len(deviations) != _CHANNELS or not is_usable:
        raise ValueError(
            f"expected a finite mean and a positive standard deviation of each of the {_CHANNELS} channels, not "
            f"{means} and {deviations}"
        )
    most, most_scale = torch.finfo(dtype).max, torch.finfo(_exact(dtype)).max
    for center, deviation in zip(means, deviations, strict=True):
        if max(abs(center), abs(1 - center)) > most * deviation or most_scale * deviation < 1:
            raise ValueError(
                f"pixels in [0, 1] less the mean {center} over the standard deviation {deviation} are too large for "
                f"{dtype}: correct them, where 1 is the largest byte"
            )
    return BatchTransform(_Normalize(means, deviations, dtype), is_quick=True)


_CHANNELS = 3
_NCHW = 4  # axes of a batch


@dataclass(frozen=True)
class _Normalize:
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype

    def __call__(self, images: Tensor) -> Tensor:
        if images.ndim != _NCHW or images.shape[1] != _CHANNELS:
            raise ValueError(
                f"normalize has a mean for each of {_CHANNELS} channels: expected images of shape "
                f"(B, {_CHANNELS}, H, W), not {tuple(images.shape)}"
            )
        width, largest = images.shape[-1], 255 if images.dtype == torch.uint8 else 1
        exact = _exact(self.dtype)
        scale = [1 / (largest * std) for std in self.std]
        shift = [-mean / std for mean, std in zip(self.mean, self.std, strict=True)]
        # For every number of a row of pixels: rows are what is contiguous.
        by_row = torch.tensor([scale, shift], dtype=exact, device=images.device).repeat(1, width)
        return _in_cache(images, self.dtype, lambda rows: torch.addcmul(by_row[1], rows, by_row[0], out=rows))


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _empty(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return memory for a batch; on the CPU from NumPy, which asks for huge pages: new pages cost half the time."""
    if device.type != "cpu" or 0 in shape:
        return torch.empty(shape, dtype=dtype, device=device)
    memory = np.empty(shape.numel() * dtype.itemsize, np.uint8)
    return torch.from_numpy(memory).view(dtype).reshape(shape)


def _in_cache(images: Tensor, dtype: torch.dtype, change: Callable[[Tensor], object]) -> Tensor:
    """Return (B, 3, H, W) images in a dtype of floats, channels last in memory, changed part by part.

    A batch of floats is too large for the caches, so that every pass over all of it costs more than its arithmetic.

    Args:
        images: the images, best channels last in memory.
        dtype: what is returned.
        change: changes (rows, W * 3) numbers of float32 in place, or of float64 where that is returned.
    """
    batch, channels, height, width = images.shape
    exact = _exact(dtype)
    rows = images.permute(0, 2, 3, 1).reshape(batch * height, width * channels)
    found = _empty(rows.shape, dtype, images.device)
    # One pass on a GPU, whose caches are another matter.
    step = max(1, _AT_ONCE // max(1, rows.shape[1])) if images.device.type == "cpu" else max(1, len(rows))
    between = None if dtype == exact else torch.empty((step, rows.shape[1]), dtype=exact, device=images.device)
    for start in range(0, len(rows), step):
        part, out = rows[start : start + step], found[start : start + step]
        numbers = out if between is None else between[: len(part)]
        change(numbers.copy_(part))
        if between is not None:
            out.copy_(numbers)
    return found.reshape(batch, height, width, channels).permute(0, 3, 1, 2)


def of_pil_images(transform: Callable[[Image.Image], Any]) -> Transform:
    """Return a transform of PIL images as one of (3, H, W) or (1, H, W) uint8 tensors on the CPU."""
    return _OfPilImages(transform)


@dataclass(frozen=True)
class _OfPilImages:
    transform: Callable[[Image.Image], Any]

    def __call__(self, image: Tensor) -> Any:
        return self.transform(Image.fromarray((image[0] if len(image) == 1 else image.permute(1, 2, 0)).numpy()))


def transformed(transform: Transform, images: Tensor, seed: int, purpose: str, what: str) -> Tensor:
    """Return what a transform makes of images, each with randomness of its own.

    While it runs, what the global generators of torch, NumPy and Python give depends on seed, purpose and the image's
    place in the batch alone; afterwards they go on as if nothing had been drawn from them.

    Args:
        transform: a function of one image, or a :class:`BatchTransform`.
        images: (B, 3, H, W), on any device.
        seed: 0 or larger.
        purpose: what the randomness is for.
        what: what the transform is, for messages.

    Returns:
        (B, ...): what it makes of each image, channels last in memory where those are images again.

    Raises:
        TypeError: if it makes something else than tensors.
        ValueError: if it makes tensors of different shapes, or not as many as there are images.
    """
    with _KeptGenerators(images.device) as generators:
        if isinstance(transform, BatchTransform):
            generators.seed(integer_seed(seed, purpose, 0, bits=63))
            made = transform(images)
            if not isinstance(made, Tensor):
                raise TypeError(f"{what} makes {type(made).__name__} of a batch of images; expected a tensor")
            if len(made) != len(images):
                raise ValueError(f"{what} makes a tensor of shape {tuple(made.shape)} of {len(images)} images")
            return made
        each = []
        for place, image in enumerate(images):
            generators.seed(integer_seed(seed, purpose, place, bits=63))
            each.append(_made(transform, image, what))
    return _stacked(each, what)


def _made(transform: Transform, image: Tensor, what: str) -> Tensor:
    try:
        made = transform(image)
    except Exception as error:
        error.add_note(f"in {what}" if isinstance(transform, _OfPilImages) else f"in {what}, {_given(image)}")
        raise
    if isinstance(made, np.ndarray):
        made = torch.from_numpy(np.array(made))  # a copy: that of a PIL image cannot be written to
    if not isinstance(made, Tensor):
        raise TypeError(
            f"{what} makes {type(made).__name__} of an image; expected a tensor: end it with torchvision's v2.ToImage()"
        )
    return made


def _given(image: Tensor) -> str:
    return (
        f"which was given one image as a tensor of shape {tuple(image.shape)} and dtype {image.dtype}. A transform of "
        "PIL images belongs to the dataset, ThreeDIdent(root, transform=...), one of whole batches into "
        "ident3d.BatchTransform(...), and dtype=torch.float32 gives it floats"
    )


def _stacked(each: list[Tensor], what: str) -> Tensor:
    shapes = sorted({tuple(made.shape) for made in each})
    if len(shapes) > 1:
        raise ValueError(
            f"{what} makes tensors of different shapes, {shapes[0]} and {shapes[-1]}: end it with a resize"
        )
    if each[0].ndim != 3:
        return torch.stack(each)
    return torch.stack([made.permute(1, 2, 0) for made in each]).permute(0, 3, 1, 2)


class _KeptGenerators:
    """The global generators of torch, NumPy and Python, put back as they were when the context ends."""

    def __init__(self, device: torch.device) -> None:
        self._device = device if device.type == "cuda" else None

    def __enter__(self) -> Self:
        self._python, self._torch = random.getstate(), torch.get_rng_state()
        self._numpy = np.random.get_state()  # noqa: NPY002 - the generator that plain functions draw from
        self._cuda = None if self._device is None else torch.cuda.get_rng_state(self._device)
        return self

    def seed(self, seed: int) -> None:
        """Seed them all; not with torch.manual_seed, which looks for every device."""
        torch.default_generator.manual_seed(seed)
        if self._device is not None:
            torch.cuda.default_generators[self._device.index or 0].manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 - likewise
        random.seed(seed)

    def __exit__(self, *_: object) -> None:
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002 - likewise
        torch.set_rng_state(self._torch)
        if self._device is not None and self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda, self._device)
