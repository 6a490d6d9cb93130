"""Protocols: which rows of an evaluated split are fitted on, which are scored, and how often things are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DEFAULT_PROTOCOL", "PROTOCOLS", "Halves", "Protocol", "get_protocol", "hashed_half"]

# splitmix64: every bit of the result depends on every bit of the id
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


class Halves(Enum):
    """How the rows of a split are divided into a fitted and a scored half."""

    HASHED = "hashed"
    """By a hash of the sample id: a sample stays in its half whatever the other rows are."""
    FIRST_SECOND = "first-second"
    """The first half, in the order of the ids, is fitted; the second is scored."""


@dataclass(frozen=True)
class Protocol:
    """How scores are computed. A protocol never changes once scores were reported under its name.

    Attributes:
        name: the name under which scores are reported.
        halves: how rows are divided for the regressions; correlations use all rows.
        max_rows: only the first rows, in the order of the ids, are used; all of them where None.
        draws: bootstrap draws behind an interval.
        permutations: row permutations behind a chance level.
        seed: seed of the bootstrap draws and the permutations.
    """

    name: str
    halves: Halves
    max_rows: int | None = None
    draws: int = 1000
    permutations: int = 20
    seed: int = 0

    def fitted(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which rows are fitted on; the others are scored.

        Args:
            ids: (N,) sample ids, ascending.

        Returns:
            (N,) bool.
        """
        if self.halves is Halves.HASHED:
            return hashed_half(ids)
        return np.arange(len(ids)) < len(ids) // 2


def hashed_half(ids: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
    """Return which samples belong to the fitted half: the top bit of splitmix64 of the id is 0.

    Args:
        ids: (N,) integers.

    Returns:
        (N,) bool; entry i depends on ids[i] only.
    """
    word = ids.astype(np.int64).view(np.uint64) + _GOLDEN
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    word ^= word >> np.uint64(31)
    lower: npt.NDArray[np.bool_] = (word >> np.uint64(63)) == 0
    return lower


DEFAULT_PROTOCOL = "ident3d-1"

PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(DEFAULT_PROTOCOL, Halves.HASHED),
        Protocol("paper", Halves.FIRST_SECOND, max_rows=4096),
    )
}
"""The protocols by name: ``ident3d-1``, ours, and ``paper``, that of Zimmermann et al. (2021)."""


def get_protocol(protocol: str | Protocol) -> Protocol:
    """Return the protocol of that name; ValueError with the known names if there is none."""
    if isinstance(protocol, Protocol):
        return protocol
    if protocol not in PROTOCOLS:
        raise ValueError(f"no protocol {protocol!r}; the protocols are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[protocol]
