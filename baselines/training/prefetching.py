"""The next batch, made while the last one is trained on."""

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

__all__ = ["Prefetcher"]

Item = TypeVar("Item")

_POLL_SECONDS = 0.1


class Prefetcher(Generic[Item]):
    """Take items from an iterable in a thread, a few in advance; a context manager.

    Args:
        items: where items come from; only the thread touches it.
        ahead: how many may wait.

    Attributes:
        waited: seconds that the consumer has waited for items.
    """

    def __init__(self, items: Iterable[Item], ahead: int = 2) -> None:
        self.waited = 0.0
        self._items = items
        self._queue: queue.Queue[Item | BaseException | None] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="prefetcher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        start = time.perf_counter()
        item = self._queue.get()
        self.waited += time.perf_counter() - start
        if item is None:
            raise StopIteration
        if isinstance(item, BaseException):
            raise item
        return item

    def _fill(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
            self._put(None)
        except Exception as error:  # noqa: BLE001 - it belongs to the consumer, who raises it
            self._put(error)

    def _put(self, item: Item | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False
