"""An order that a user could write: each event after the one that the order says, and no other."""

from collections.abc import Iterator
from math import isqrt
from typing import Any

import pytest

from tests.topology.partition import INSPECTOR
from tests.topology.sequencer.held import Held, event
from tests.topology.sequencer.hold_machine import Machine
from topology import (
    DeclarationError,
    Event,
    Topology,
    TopologyTestDriver,
    Upsert,
    earliest_seen,
    rebuild_stream,
    skip,
)
from topology.declaration.orders import OwnOrder
from topology.sequencer.own_order import OwnOrdering
from topology.sequencer.sequencer import LOWEST, Gap, Ordering
from topology.testing import Sent, Simulator

ANY: Any = None


class Squares:
    """1, 4, 9, 16, …"""

    def follows(self, event: Event, last: int | None) -> bool:
        root = isqrt(event.sequence)
        return last == (root - 1) ** 2 if root > 1 else last is None


class Faulty:
    def follows(self, event: Event, last: int | None) -> bool:
        raise ZeroDivisionError


def ordering(order: Any = None, **more: Any) -> Ordering:
    order = OwnOrder(order or Squares())
    return OwnOrdering(follows=order.follows, **more)


class SquaresMachine(Machine):
    gap_counts_once = True

    def sequence(self, nth: int) -> int:
        return nth * nth if nth else LOWEST - 1

    def is_behind(self, last: int, nth: int) -> bool:
        # A gap is given up up to the event behind it: only the order knows the one in front.
        return self.sequence(nth) <= last < self.sequence(nth + 1)


class Patient(SquaresMachine):
    ordering = ordering()


class Small(SquaresMachine):
    ordering = ordering(size=2)


class Slow(SquaresMachine):
    ordering = ordering(size=3, drain=2)


class Hasty(SquaresMachine):
    ordering = ordering(skip_after=1000)


TestPatient, TestSmall = Patient.TestCase, Small.TestCase
TestSlow, TestHasty = Slow.TestCase, Hasty.TestCase


def test_a_gap_is_given_up_up_to_the_lowest_that_waits() -> None:
    held = Held(ordering(skip_after=1000))
    held.take(event("a", 1), event("a", 16), event("a", 25))
    assert held.handled == {"a": [1]}
    result = held.take(now=1000)
    assert result.skipped == [Gap("a", 2, 15, since=0, count=1)]
    assert held.handled == {"a": [1, 16, 25]}
    assert [one.sequence for one in held.take(event("a", 4)).late] == [4]


def test_an_order_that_raises_lets_events_wait_and_the_gap_policy_decides() -> None:
    held = Held(ordering(Faulty(), skip_after=1000))
    held.take(event("a", 1), event("a", 4))
    assert held.handled == {}
    held.take(now=1000)
    held.take(now=2000)
    assert held.handled == {"a": [1, 4]}


def board(**policies: Any) -> TopologyTestDriver:
    topology = Topology("shop")
    source = topology.source("moves", inspector=INSPECTOR, sequence=Squares())
    topology.view("board", of=source, handler=lambda event: None, **policies)
    return TopologyTestDriver(topology)


def pipe(driver: TopologyTestDriver, *sequences: int) -> None:
    for at in sequences:
        driver.pipe("moves", {"stream": "a", "sequence": at, "kind": "Moved"})


def test_a_topology_takes_it_and_what_looks_at_it_says_so() -> None:
    driver = board(gap=skip(after=60))
    pipe(driver, 9, 1, 16, 16)
    driver.restart()
    assert (driver.last("board", "a"), driver.waiting("board", "a")) == (1, [9, 16])
    assert not driver.explain("board", "a").well
    pipe(driver, 4)
    assert driver.last("board", "a") == 16
    assert driver.counts("board").duplicate == 1
    assert driver.explain("board", "a").well
    pipe(driver, 36)
    driver.advance(61)
    pipe(driver, 25)
    assert (driver.last("board", "a"), driver.counts("board").late) == (36, 1)
    assert driver.audit().sound
    assert "Squares" in str(driver.topology.describe())


def test_a_stream_that_is_joined_midway_begins_with_the_lowest_that_came() -> None:
    driver = board(start=earliest_seen(after=5))
    pipe(driver, 16, 9)
    driver.advance(6)
    assert driver.last("board", "a") == 16


@pytest.mark.parametrize("order", [Squares, object(), "squares"])
def test_what_is_no_order_is_refused(order: Any) -> None:
    with pytest.raises(DeclarationError, match=r"a method follows\(event, last\) of yours"):
        Topology("shop").source("moves", inspector=INSPECTOR, sequence=order)


def test_the_simulator_holds_it_to_the_promises() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, sequence=Squares())
    topology.view("patient", of=orders, handler=board_of, buffer=2)
    topology.view("hasty", of=orders, handler=board_of, gap=skip(after=2))
    topology.view("whole", of=orders, handler=board_of, gap=skip(after=2), late=rebuild_stream())
    sent = [
        Sent("orders", {"stream": stream, "sequence": nth * nth, "kind": "Paid"})
        for nth in range(1, 12)
        for stream in "abc"
    ]
    assert Simulator(topology, sent).run(range(20)).seeds == 20


def board_of(event: Event) -> Iterator[Upsert]:
    yield Upsert("board", key={"id": event.stream}, values={"n": event.sequence})
