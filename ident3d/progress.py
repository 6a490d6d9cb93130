"""Progress of long work: a bar on a terminal, and a line in the log every so often where there is none.

A job of a batch system has no terminal. Its log gets a line after the first seconds and then one a minute, each with
what is done, the latest numbers, the rate, and the time that is left.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["ProgressBar", "duration"]

_LOG = logging.getLogger(__name__)

FIRST_LINE_SECONDS = 15.0
LINE_SECONDS = 60.0
_UNITS = (("days", 86400.0), ("hours", 3600.0), ("min", 60.0))


def duration(seconds: float) -> str:
    """Return a time as it is read: "83 days", "3.2 hours", "12 min" or "40 s"."""
    for unit, length in _UNITS:
        if seconds >= 2 * length or (unit != "days" and seconds >= length):
            count = seconds / length
            shown = f"{count:.1f}" if unit != "min" and count < 10 else f"{count:.0f}"
            return "1 hour" if (unit, shown) == ("hours", "1.0") else f"{shown} {unit}"
    return f"{seconds:.0f} s"


class ProgressBar:
    """Progress with metrics: a bar on a terminal, lines in the log elsewhere. A context manager.

    Args:
        total: count at the end; None where it is not known.
        done: count at the start.
        unit: what is counted, in the plural.
        label: text before the bar, and at the beginning of each line.
        shown: labels of the metrics to show, by name.
        quiet: whether to show nothing at all.
        stays: whether the bar stays on the terminal when it is closed.
    """

    def __init__(
        self,
        total: int | None,
        done: int = 0,
        *,
        unit: str = "steps",
        label: str | None = None,
        shown: Mapping[str, str] | None = None,
        quiet: bool = False,
        stays: bool = True,
    ) -> None:
        self._total, self._done, self._unit, self._label = total, done, unit, label
        self._labels = dict(shown or {})
        self._last: dict[str, str] = {}
        self._bar: tqdm[Any] | None = None
        self._stack = ExitStack()
        self._says = not quiet
        self._mark, self._counted = time.monotonic(), done
        self._due = self._mark + FIRST_LINE_SECONDS
        if not quiet and sys.stderr.isatty() and find_spec("tqdm") is not None:
            from tqdm import tqdm
            from tqdm.contrib.logging import logging_redirect_tqdm

            self._bar = tqdm(total=total, initial=done, unit=f" {unit}", desc=label, leave=stays, smoothing=0.05)
            self._stack.enter_context(logging_redirect_tqdm())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        if self._bar is not None:
            self._bar.close()

    def reach(self, done: int) -> None:
        """Set the count."""
        self.update(done - self._done)

    def update(self, count: int = 1) -> None:
        """Count so many more."""
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._says and time.monotonic() >= self._due:
            self._say()

    def skip(self, count: int) -> None:
        """Count what is kept from an earlier run, and leave it out of the rate."""
        self._done += count
        self._counted += count
        if self._bar is not None:
            self._bar.initial += count
            self._bar.n += count
            self._bar.last_print_n += count

    def show(self, metrics: Mapping[str, float]) -> None:
        """Update the metrics that are shown; the others are ignored."""
        self._last |= {label: f"{metrics[name]:.4g}" for name, label in self._labels.items() if name in metrics}
        if self._bar is not None:
            self._bar.set_postfix(self._last)

    def _say(self) -> None:
        now = time.monotonic()
        rate = (self._done - self._counted) / max(now - self._mark, 1e-9)
        counted = f"{self._done:,}" if self._total is None else f"{self._done:,} of {self._total:,}"
        parts = [f"{'' if self._label is None else f'{self._label}: '}{counted} {self._unit}"]
        parts += [f"{label} {value}" for label, value in self._last.items()]
        if rate > 0:
            parts.append(f"{rate:.1f} {self._unit}/s" if rate >= 1 else f"{1 / rate:.1f} s each")
            if self._total is not None:
                parts.append(f"{duration((self._total - self._done) / rate)} left")
        _LOG.info("%s", ", ".join(parts))
        self._mark, self._counted, self._due = now, self._done, now + LINE_SECONDS
