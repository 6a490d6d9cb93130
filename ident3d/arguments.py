"""Arguments that come from outside, checked: counts, and arrays of numbers of every kind."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["as_numbers", "check_count"]


def check_count(number: Any, what: str, least: int) -> None:
    """Raise TypeError unless ``number`` is an integer, ValueError if it is below ``least``."""
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise TypeError(f"{what} is an integer, not {number!r}")
    try:
        count = operator.index(number)
    except TypeError:  # a tensor or an array of something else
        raise TypeError(f"{what} is an integer, not {number!r}") from None
    if count < least:
        raise ValueError(f"{what} is {least} or larger, not {number}")


def as_numbers(values: Tensor | npt.ArrayLike, what: str) -> Tensor:
    """Return numbers as a dense tensor, with their values and their shape.

    Args:
        values: a tensor, an array in any byte order and memory layout, or lists of numbers.
        what: what they are, for the message.

    Returns:
        A tensor of integers or of float16, float32 or float64, on the device of ``values``; it may share their memory.

    Raises:
        TypeError: if they are no array at all.
        ValueError: if they are no real numbers, differ in length, are masked, or hold no values.
    """
    import torch

    if isinstance(values, torch.Tensor):
        return _of_tensor(values.detach(), what)
    if isinstance(values, str | bytes) or not (isinstance(values, Sequence) or hasattr(values, "__array__")):
        hint = f"; give its latents, {type(values).__name__}.latents" if hasattr(values, "latents") else ""
        raise TypeError(f"{what} are an array or a tensor of numbers, not {_shown(values)}{hint}")
    if isinstance(values, np.ma.MaskedArray) and np.any(values.mask):
        raise ValueError(f"{what} are numbers, and some of these are masked out: leave out their rows first")
    try:
        array = np.asarray(values)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{what} are an array of numbers, and cannot be made one: {error}") from error
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{what} are real numbers, not of shape {array.shape} and dtype {array.dtype}")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def _of_tensor(values: Tensor, what: str) -> Tensor:
    import torch

    if values.is_meta:
        raise ValueError(f"{what} lie on the device 'meta', where tensors hold no numbers")
    if values.is_complex() or values.dtype == torch.bool or values.is_quantized:
        raise ValueError(f"{what} are real numbers, not of shape {tuple(values.shape)} and dtype {values.dtype}")
    dense = values if values.layout == torch.strided else values.to_dense()
    return (
        dense.float()
        if dense.is_floating_point() and dense.dtype not in (torch.float16, torch.float32, torch.float64)
        else dense
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
