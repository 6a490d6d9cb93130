"""Arguments that come from outside, checked: counts, and arrays of numbers of every kind."""

from __future__ import annotations

import operator
import tokenize
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NOT_AN_ARRAY", "as_array", "as_numbers", "check_count"]


def check_count(number: Any, what: str, least: int) -> int:
    """Return a count as an int.

    Args:
        number: an integer of any kind: Python's, NumPy's, or a tensor of one.
        what: what it is, for the message: "the batch size".
        least: the smallest that is accepted.

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is smaller.
    """
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise TypeError(f"{what} {number!r} is not an integer")
    try:
        count = operator.index(number)
    except TypeError:  # a tensor or an array of something else
        raise TypeError(f"{what} {number!r} is not an integer") from None
    if count < least:
        raise ValueError(f"{what} is {least} or larger, not {number}")
    return count


def as_numbers(values: Tensor | npt.ArrayLike, what: str) -> Tensor:
    """Return numbers as a dense tensor, with their values and their shape.

    Args:
        values: a tensor, an array in any byte order and memory layout, or lists of numbers.
        what: what they are, for the message.

    Returns:
        A tensor of integers or of float16, float32 or float64, on the device of ``values``; it may share their memory.

    Raises:
        TypeError: if they are not an array at all, or not of real numbers.
        ValueError: if they differ in length, are masked, or hold no values.
    """
    import torch

    if isinstance(values, torch.Tensor):
        return _dense(values.detach(), what)
    array = _array(values, what)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


NOT_AN_ARRAY = (
    ValueError,
    TypeError,
    SyntaxError,
    EOFError,
    MemoryError,
    OverflowError,
    RecursionError,
    AttributeError,
    IndexError,
    KeyError,
    tokenize.TokenError,
    zipfile.BadZipFile,
)
"""What numpy raises for a file that is not an array, or whose header is one of everything that can be written there."""


def as_array(values: Tensor | npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """Return numbers as an array, with their values and their shape.

    Args:
        values: a tensor on any device, an array in any byte order and memory layout, or lists of numbers.
        what: what they are, for the message.

    Returns:
        An array of integers or of float16, float32 or float64; it may share the memory of ``values``.

    Raises:
        TypeError: if they are not an array at all, or not of real numbers.
        ValueError: if they differ in length, are masked, or hold no values.
    """
    if hasattr(values, "detach"):  # a tensor, without importing torch for whoever has none
        return np.asarray(as_numbers(values, what).cpu().numpy())
    array = _array(values, what)
    return np.asarray(array, dtype=array.dtype.newbyteorder("="))


def _array(values: Any, what: str) -> npt.NDArray[Any]:
    if isinstance(values, str | bytes) or not (isinstance(values, Sequence) or hasattr(values, "__array__")):
        hint = f"; give its latents, {type(values).__name__}.latents" if hasattr(values, "latents") else ""
        raise TypeError(f"{what} must be an array or a tensor of numbers, not {_shown(values)}{hint}")
    if isinstance(values, np.ma.MaskedArray) and np.any(values.mask):
        raise ValueError(f"{what} must be numbers, but some of these are masked out: leave out their rows first")
    try:
        array = np.asarray(values)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{what} must be an array of numbers, and cannot be made one: {error}") from error
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{what} must be real numbers, not of shape {array.shape} and dtype {array.dtype}")
    return array.astype(np.float64) if array.dtype.kind == "f" and array.dtype.itemsize > 8 else array


def _dense(values: Tensor, what: str) -> Tensor:
    import torch

    if values.is_meta:
        raise ValueError(f"{what} are on the device 'meta', where tensors hold no numbers")
    if values.is_complex() or values.dtype == torch.bool or values.is_quantized:
        raise TypeError(f"{what} must be real numbers, not of shape {tuple(values.shape)} and dtype {values.dtype}")
    dense = values if values.layout == torch.strided else values.to_dense()
    return (
        dense.float()
        if dense.is_floating_point() and dense.dtype not in (torch.float16, torch.float32, torch.float64)
        else dense
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
