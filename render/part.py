"""Which part of a dataset one machine renders: ``--shard K/N``, or the task of a SLURM array."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Part"]

T = TypeVar("T")

_ID, _COUNT, _MIN, _MAX = (f"SLURM_ARRAY_TASK_{name}" for name in ("ID", "COUNT", "MIN", "MAX"))


@dataclass(frozen=True)
class Part:
    """Part ``number`` of ``count``, counted from 0.

    Attributes:
        number: 0 to count - 1.
        count: number of parts, 1 or more.
    """

    number: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.number < self.count:
            last = f"0/{self.count} to {self.count - 1}/{self.count}" if self.count > 0 else "0/1"
            raise ValueError(
                f"parts count from 0: expected K/N with K below N, {last} here, not {self.number}/{self.count}"
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> "Part":
        """Return the part that ``text`` names, as K/N.

        Raises:
            ValueError: if the text is not of that form, or K is not in 0 to N - 1.
        """
        match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
        if match is None:
            raise ValueError(f"expected a part as K/N, 0/4 say for the first of four; got {text!r}")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def from_slurm(cls, environment: Mapping[str, str]) -> "Part | None":
        """Return the part of this task of a SLURM array, or None outside an array.

        The ids of the array may start anywhere and have any even step: the first is part 0.

        Raises:
            ValueError: if the ids are unevenly spaced (``--array=1,3,7``), so that the id does not tell which of the
                tasks this is, or the variables are no integers.
        """
        if _ID not in environment:
            return None
        task, count, low, high = (_integer(environment, name) for name in (_ID, _COUNT, _MIN, _MAX))
        step, rest = divmod(high - low, count - 1) if count > 1 else (1, high - low)
        if rest or step < 1 or (task - low) % step:
            raise ValueError(
                f"the {count} tasks of this SLURM array have the ids {low} to {high} unevenly spaced, so that task "
                f"{task} cannot tell which part it is: use --array=0-{max(count - 1, 0)}, or give --shard K/N"
            )
        return cls((task - low) // step, count)

    def take(self, items: Sequence[T]) -> list[T]:
        """Return every ``count``-th item, from ``number`` on: the parts are disjoint, and of one length within one."""
        return list(items[self.number :: self.count])


def _integer(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        raise ValueError(
            f"{_ID} is set, but {name} is {environment.get(name)!r}, not an integer: give --shard K/N"
        ) from None
