"""An order is a class: the engine, and all that looks at what it did, ask it and know no list."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.topology.diagnostics.explain.test_gaps import gaps
from tests.topology.partition import INSPECTOR
from topology import DeclarationError, Event, Topology, TopologyTestDriver, Upsert, ask, skip
from topology.declaration.orders import StreamOrder
from topology.sequencer.linked import ChainOrdering
from topology.testing import Sent, Simulator


class Doubles:
    """1, 2, 4, 8, …, as a user writes an order."""

    def follows(self, event: Event, last: int | None) -> bool:
        return event.sequence == (1 if last is None else 2 * last)


@dataclass(frozen=True, slots=True)
class DoublingOrdering(ChainOrdering):
    def is_next(self, event: Event, last: int) -> bool:
        before = None if last == self.first else last
        return event.sequence == last + 1 or Doubling().follows(event, before)


@dataclass(frozen=True, slots=True)
class Doubling(StreamOrder):
    """The same as one of Sequitur's: what is declared here, what is next beside the sequencer."""

    def ordering(self, **policies: Any) -> DoublingOrdering:
        return DoublingOrdering(**policies)

    def follows(self, event: Event, last: int | None) -> bool:
        return Doubles().follows(event, last)


ORDERS = pytest.mark.parametrize("order", [Doubles(), Doubling()], ids=["follows", "a class"])


def board(event: Event) -> Iterator[Upsert]:
    yield Upsert("board", key={"id": event.stream}, values={"n": event.sequence})


def driver_of(order: Any, **policies: Any) -> TopologyTestDriver:
    topology = Topology("shop")
    source = topology.source("moves", inspector=INSPECTOR, sequence=order)
    topology.view("board", of=source, handler=board, **policies)
    return TopologyTestDriver(topology)


def pipe(driver: TopologyTestDriver, *sequences: int) -> None:
    for at in sequences:
        driver.pipe("moves", {"stream": "a", "sequence": at, "kind": "Moved"})


@ORDERS
def test_what_waits_is_explained_and_its_gap_listed_until_what_is_missing_comes(order: Any) -> None:
    driver = driver_of(order)
    pipe(driver, 1, 4, 8, 8)
    driver.restart()
    assert (driver.last("board", "a"), driver.waiting("board", "a")) == (1, [4, 8])
    found = driver.explain("board", "a")
    assert (found.well, found.situation) == (False, "waiting")
    (gap,) = gaps(driver)
    assert (gap.stream, gap.last, gap.ranges, gap.count, gap.waiting) == ("a", 1, 1, None, 2)
    pipe(driver, 2)
    assert (driver.last("board", "a"), gaps(driver)) == (8, [])
    assert driver.explain("board", "a").well
    assert driver.counts("board").duplicate == 1


@ORDERS
def test_an_audit_finds_each_event_in_its_place_and_misses_an_output(order: Any) -> None:
    driver = driver_of(order, gap=skip(after=5))
    pipe(driver, 1, 4, 8)
    driver.advance(6)
    pipe(driver, 2, 16, 16)
    assert (driver.last("board", "a"), driver.counts("board").late) == (16, 1)
    assert driver.audit().sound
    del driver._storage.topics["shop.board"][-1]
    assert not driver.audit().sound


@ORDERS
def test_the_simulator_holds_it_to_the_promises(order: Any) -> None:
    topology = Topology("shop")
    source = topology.source("moves", inspector=INSPECTOR, sequence=order)
    topology.view("patient", of=source, handler=board, buffer=2)
    topology.view("hasty", of=source, handler=board, gap=skip(after=2))
    sent = [
        Sent("moves", {"stream": stream, "sequence": 1 << nth, "kind": "Moved"})
        for nth in range(10)
        for stream in "ab"
    ]
    assert Simulator(topology, sent).run(range(15)).seeds == 15


@ORDERS
def test_what_takes_numbers_without_gaps_is_refused(order: Any) -> None:
    with pytest.raises(DeclarationError, match="does not count 1, 2, 3"):
        driver_of(order, gap=ask("moves"))
    driver = driver_of(order)
    pipe(driver, 4)
    result = driver.command("skip", "board", "a", 1)
    assert not result.done
