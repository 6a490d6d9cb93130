"""What is shown and measured while a run goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["Clock", "ProgressBar"]

_SHOWN = {"loss": "loss", "r2": "R2", "images_per_second": "images/s"}


class ProgressBar:
    """A bar over the steps with loss, R2 and images per second; nothing where there is no terminal, or no tqdm.

    Args:
        steps: the last step.
        done: steps that were done before.
        quiet: whether nothing is shown at all.
    """

    def __init__(self, steps: int, done: int, *, quiet: bool = False) -> None:
        self._bar: tqdm[Any] | None = None
        self._last: dict[str, str] = {}
        if not quiet and sys.stderr.isatty() and find_spec("tqdm") is not None:
            from tqdm import tqdm

            self._bar = tqdm(total=steps, initial=done, unit="step")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self) -> None:
        """Count one step."""
        if self._bar is not None:
            self._bar.update()

    def show(self, metrics: dict[str, float]) -> None:
        """Show what there is to show among some metrics, beside what was shown before."""
        self._last |= {label: f"{metrics[name]:.4g}" for name, label in _SHOWN.items() if name in metrics}
        if self._bar is not None:
            self._bar.set_postfix(self._last)


class Clock:
    """Measures the time between readings."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._waited = 0.0

    def read(self, pictures: int, waited: float) -> dict[str, float]:
        """Return rates since the last reading.

        Args:
            pictures: pictures since then.
            waited: seconds that were spent waiting for batches, from the beginning.

        Returns:
            "images_per_second", "waiting" (a share of the time) and "seconds".
        """
        now = time.perf_counter()
        seconds = now - self._start
        share = (waited - self._waited) / seconds
        self._start, self._waited = now, waited
        return {"images_per_second": pictures / seconds, "waiting": share, "seconds": seconds}

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the time of a block out of what is measured."""
        start = time.perf_counter()
        yield
        self._start += time.perf_counter() - start
