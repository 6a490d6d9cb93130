import itertools
import threading
import time

import pytest

from baselines.training.loop import Prefetcher


def test_items_come_in_order_and_end():
    with Prefetcher(range(20)) as prefetcher:
        assert list(prefetcher) == list(range(20))


def test_an_error_reaches_the_consumer_after_the_items_before_it():
    def failing():
        yield 1
        raise ValueError("no more")

    with Prefetcher(failing()) as prefetcher:
        assert next(prefetcher) == 1
        with pytest.raises(ValueError, match="no more"):
            next(prefetcher)


def test_an_endless_source_stops_with_the_block():
    with Prefetcher(itertools.count()) as prefetcher:
        assert next(prefetcher) == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetcher"]


def test_waiting_is_measured():
    def slow():
        time.sleep(0.2)
        yield 1

    with Prefetcher(slow()) as prefetcher:
        next(prefetcher)
        assert prefetcher.waited >= 0.15
