"""Arrays: .npy files read from bytes, with their type and shape checked before their numbers are."""

from __future__ import annotations

import io
import math
import tokenize
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_WIDTH", "check_embeddings", "check_ids", "decode_array", "encode_array", "named"]

MAX_WIDTH = 1 << 16
_NAMED = 5
_SHOWN = 200  # characters of numpy's message, which may quote the header
_UNREADABLE = (ValueError, TypeError, SyntaxError, EOFError, MemoryError, RecursionError, tokenize.TokenError)
_NPY: Any = np.lib.format  # numpy 1 has no types for it


def encode_array(array: npt.NDArray[Any]) -> bytes:
    """Return an array as the bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def decode_array(data: bytes, name: str, dtype: str, ndim: int) -> npt.NDArray[Any]:
    """Read an array of that type and number of axes.

    Args:
        data: the bytes of a .npy file.
        name: its name, for the message.
        dtype: the type that is expected.
        ndim: the number of axes that is expected.

    Raises:
        ValueError: if the bytes are no .npy file, the array is another, or its size is not what its header says.
    """
    file = io.BytesIO(data)
    try:
        version = _NPY.read_magic(file)
        read_header = _NPY.read_array_header_1_0 if version == (1, 0) else _NPY.read_array_header_2_0
        shape, fortran, kind = read_header(file)
    except _UNREADABLE as error:
        raise ValueError(f"{name} is no .npy file ({str(error)[:_SHOWN]})") from error
    if kind != np.dtype(dtype).newbyteorder("<") or len(shape) != ndim or not all(map(_is_length, shape)):
        raise ValueError(f"{name}: expected {_shape(ndim)} of {dtype}, got shape {shape} of {kind}")
    if len(data) - file.tell() != math.prod(shape) * kind.itemsize:
        raise ValueError(f"{name}: {len(data) - file.tell()} bytes do not hold an array of shape {shape} of {kind}")
    return np.frombuffer(data, dtype=kind, offset=file.tell()).reshape(shape, order="F" if fortran else "C")


def check_ids(ids: npt.NDArray[np.int64], name: str) -> list[str]:
    """Return what is wrong with sample ids: negative or doubled ones."""
    faults = []
    if ids.min() < 0:
        faults.append(f"{name}: ids are 0 or larger, not {ids.min()}")
    values, counts = np.unique(ids, return_counts=True)
    doubled = values[counts > 1]
    if len(doubled):
        faults.append(f"{name}: {named(doubled, 'id occurs', 'ids occur')} more than once")
    return faults


def check_embeddings(embeddings: npt.NDArray[np.float32], name: str) -> list[str]:
    """Return what is wrong with embeddings: numbers that are not finite, too many dimensions."""
    if embeddings.shape[1] > MAX_WIDTH:
        return [f"{name}: {embeddings.shape[1]} dimensions; at most {MAX_WIDTH} are scored"]
    bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if not len(bad):
        return []
    column = int(np.flatnonzero(~np.isfinite(embeddings[bad[0]]))[0])
    number = embeddings[bad[0], column]
    rows = f"{len(bad)} such rows in all"
    return [f"{name}: numbers must be finite; row {bad[0]}, column {column} is {number} ({rows})"]


def named(values: npt.NDArray[np.int64], one: str, many: str) -> str:
    """Return a count of things, with the first few named."""
    shown = ", ".join(str(value) for value in values[:_NAMED])
    more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return f"{len(values)} {one if len(values) == 1 else many} ({shown}{more})"


def _is_length(length: Any) -> bool:
    return type(length) is int and length > 0  # a header may say True, or -1


def _shape(ndim: int) -> str:
    return "(N,)" if ndim == 1 else "(N, d)"
