"""A unit that is idle costs next to nothing."""

import gc
import tracemalloc

from stores.units.queue import UnitMessage, UnitQueue
from stores.units.routing import PathMap
from tests.stores.units.desk import Desk

UNITS = 10_000
MOST = 500 * UNITS
"""Bytes: 100,000 idle units stay below 50 MB."""


def test_idle_units_leave_nothing_in_the_queue() -> None:
    desk = Desk()
    desk.open("one", prefetch=100)
    for each in range(UNITS):
        desk.send(f"session-{each}")
        if each % 100 == 99:
            desk.complete("one", *desk.next("one"))
    assert list(desk.queue.units()) == []
    assert not desk.queue._settling
    assert not desk.queue._ready._heads
    assert desk.queue.messages == 0


def test_the_paths_of_idle_units_stay_small() -> None:
    tracemalloc.start()
    try:
        paths = PathMap([f"m{each}" for each in range(8)])
        for each in range(UNITS):
            paths.route(f"session-{each}", f"p{each % 100}", 1.0)
        paths.take_rows()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < MOST
    finally:
        tracemalloc.stop()


def test_a_waiting_message_costs_little_beside_its_name_and_content() -> None:
    queue = UnitQueue()
    gc.collect()
    tracemalloc.start()
    try:
        for each in range(UNITS):
            queue.arrive(UnitMessage(each, f"session-{each}", content=b""), 0.0)
        assert tracemalloc.get_traced_memory()[0] < MOST
    finally:
        tracemalloc.stop()
