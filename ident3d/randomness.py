"""Explicit random generators, keyed by (seed, purpose, index).

Nothing in ident3d touches a global generator. A key names what the numbers are for, so that two purposes never
share a stream, and an index within the purpose, so that item i is the same whether it is drawn alone, in a range,
or by another process.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ident3d.arguments import check_count

if TYPE_CHECKING:
    import torch

__all__ = ["generator", "integer_seed", "torch_generator", "uniform_rows"]

_WORDS_PER_BLOCK = 4  # a Philox-4x64 counter step yields four 64-bit words


def _digest(seed: int, purpose: str, *index: int) -> bytes:
    numbers = [check_count(number, "an index", 0) for number in index]
    text = "/".join([str(check_count(seed, "the seed", 0)), purpose, *map(str, numbers)])
    return hashlib.sha256(text.encode()).digest()


def integer_seed(seed: int, purpose: str, index: int, bits: int = 31) -> int:
    """Return a seed for a foreign random generator: a hash of (seed, purpose, index) with ``bits`` bits."""
    return int.from_bytes(_digest(seed, purpose, index)[:8], "little") >> (64 - bits)


def generator(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """Return NumPy's generator for (seed, purpose, index)."""
    key = np.frombuffer(_digest(seed, purpose, index)[:16], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def torch_generator(seed: int, purpose: str, index: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
    """Return torch's generator for (seed, purpose, index) on ``device``."""
    import torch  # a render worker draws numbers where torch is not installed

    return torch.Generator(device=device).manual_seed(integer_seed(seed, purpose, index, bits=63))


def uniform_rows(n: int, width: int, seed: int, purpose: str, start: int = 0) -> npt.NDArray[np.float32]:
    """Draw rows of uniform numbers in (-1, 1); row i depends on (seed, purpose, start + i) only.

    The numbers are the odd multiples of 2**-23: exact in float32, symmetric about 0, and never an end of the
    interval.

    Args:
        n: number of rows.
        width: numbers in a row.
        seed: 0 or larger.
        purpose: what the numbers are for.
        start: the index of the first row.

    Returns:
        (n, width) float32.

    Raises:
        TypeError: if one of them is not an integer.
        ValueError: if n, start or seed is negative, or width is not positive.
    """
    for what, number, least in (
        ("the number of rows", n, 0),
        ("the first row", start, 0),
        ("the width of a row", width, 1),
    ):
        check_count(number, what, least)
    blocks = -(-width // _WORDS_PER_BLOCK)
    key = np.frombuffer(_digest(seed, purpose)[:16], dtype=np.uint64)
    philox = np.random.Philox(key=key)
    philox.advance(start * blocks)
    words = philox.random_raw(n * blocks * _WORDS_PER_BLOCK).reshape(n, blocks * _WORDS_PER_BLOCK)[:, :width]
    odd = 2 * (words >> np.uint64(41)).astype(np.int64) + 1 - 2**23
    return (odd * 2.0**-23).astype(np.float32)
