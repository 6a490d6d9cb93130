"""What is made of images before they are served: bytes to floats, and transforms of each image or of whole batches."""

import random  # noqa: TID251 - its global generator is what plain functions draw from, and is put back
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ident3d.randomness import integer_seed

__all__ = ["BatchTransform", "as_floats", "check_dtype", "of_pil_images", "transformed"]

Transform = Callable[[Tensor], Any]


@dataclass(frozen=True)
class BatchTransform:
    """A transform that is given a whole batch, (B, 3, H, W), where any other is given one image at a time.

    What is the same for every image is cheaper so: ``BatchTransform(function)``. A random crop or flip would be the
    same in the whole batch.

    Attributes:
        function: makes a tensor of B images of a (B, 3, H, W) tensor.

    Raises:
        TypeError: if it is not a function.
    """

    function: Callable[[Tensor], Tensor]

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
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    return images.to(exact).div_(255).to(dtype)


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
