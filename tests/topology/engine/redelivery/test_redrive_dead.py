"""Dead events are put back where they belong, in order, each once, and the counts add up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, deliveries
from tests.topology.handled import driver_of, order
from tests.topology.partition import board, shop
from topology import (
    Event,
    Record,
    TopologyTestDriver,
    park,
    rebuild_stream,
    redeliver,
    skip,
    spill,
)
from topology.engine.commit_unit import CommitUnit
from topology.engine.redelivery.dead_events import DeadEventFilter, dead_of, find_dead
from topology.engine.redelivery.records import DEAD, GONE, bury
from topology.faust.operation.dead_events import Redriven
from topology.testing import Delivery, Simulator, numbered


def stuck(**policies: Any) -> TopologyTestDriver:
    """A stream that stands at 0, whose events 4 to 6 are dead, as 1 never came."""
    policies = {"buffer": 2, "full": redeliver(delay=1, limit=2), **policies}
    driver = driver_of(board, **policies)
    for sequence in (2, 3, 5, 4, 6):
        driver.pipe("orders", order(sequence))
    driver.advance(1000)
    return driver


def handled(driver: TopologyTestDriver) -> list[int]:
    return [row["sequence"] for row in driver.read_json("shop.board")]


def test_a_stream_that_stands_at_a_dead_event_goes_on_behind_it() -> None:
    driver = stuck()
    assert driver.counts("board").dead == 4
    driver.pipe("orders", order(1))
    driver.advance(1000)
    assert driver.last("board", "a") == 2
    assert driver.redrive_dead("board") == {"a": [3, 4, 5, 6]}
    driver.advance(1000)
    assert handled(driver) == [1, 2, 3, 4, 5, 6]
    counts = driver.counts("board")
    assert (counts.dead, counts.redriven, counts.processed, counts.duplicate) == (0, 4, 6, 0)
    assert counts.accounted == counts.received == 10
    assert not driver.audit().violations, str(driver.audit())


def test_it_may_be_redriven_before_what_is_missing_comes() -> None:
    driver = stuck()
    driver.redrive_dead("board")
    driver.advance(1)
    assert driver.counts("board").redelivering + driver.counts("board").waiting == 5
    driver.pipe("orders", order(1))
    driver.advance(1)
    assert handled(driver) == [1, 2, 3, 4, 5, 6]
    assert not driver.audit().violations, str(driver.audit())


def test_what_is_redriven_twice_comes_once() -> None:
    driver = stuck()
    driver.pipe("orders", order(1))
    redriven = driver.redrive_dead("board")
    before = driver.counts("board")
    assert driver.redrive_dead("board") == {}
    # An impatient operator's second command was under way already.
    for found in list(driver._storage.topics["shop.board.redeliver"]):
        if DEAD in dict(found.headers):
            driver._storage.append(
                found.topic, found.key, found.value, found.headers, found.timestamp
            )
    driver.advance(10)
    driver.restart()
    driver.advance(10)
    assert redriven == {"a": [3, 4, 5, 6]}
    assert driver.counts("board") == before
    assert not driver.audit().violations, str(driver.audit())


def test_a_halted_view_takes_them_when_it_is_resumed_and_they_are_dead_until_then() -> None:
    driver = stuck()
    driver.command("halt", "board")
    assert driver.redrive_dead("board") == {"a": [3, 4, 5, 6]}
    assert driver.redrive_dead("board") == {}
    assert driver.counts("board").dead == 4
    assert not driver.audit().violations, str(driver.audit())
    driver.command("resume", "board")
    driver.advance(1)
    driver.pipe("orders", order(1))
    driver.advance(1)
    assert handled(driver) == [1, 2, 3, 4, 5, 6]
    assert not driver.audit().violations, str(driver.audit())


def test_one_that_dies_again_can_be_redriven_again() -> None:
    driver = stuck()
    driver.redrive_dead("board")
    driver.advance(1000)
    counts = driver.counts("board")
    assert (counts.dead, counts.redriven) == (4, 4)
    assert not driver.audit().violations, str(driver.audit())
    driver.pipe("orders", order(1))
    assert driver.redrive_dead("board") == {"a": [3, 4, 5, 6]}
    driver.advance(1)
    assert handled(driver) == [1, 2, 3, 4, 5, 6]
    assert not driver.audit().violations, str(driver.audit())


@pytest.mark.parametrize("late", [None, rebuild_stream()])
def test_what_its_stream_has_passed_is_late_and_never_lost(late: Any) -> None:
    """An operator had given it up: it was no duplicate."""
    broken = {2}

    def sometimes(event: Event, state: dict[str, Any]) -> Any:
        if event.sequence in broken:
            raise ValueError("broken")
        return board(event, state)

    driver = driver_of(sometimes, error=park(), late=late)
    for sequence in (1, 2, 3):
        driver.pipe("orders", order(sequence))
    driver.command("unpark", "board", "a")
    assert (driver.counts("board").dead, driver.last("board", "a")) == (1, 3)
    broken.clear()
    assert driver.redrive_dead("board", "a") == {"a": [2]}
    counts = driver.counts("board")
    assert (counts.dead, counts.redriven, counts.duplicate) == (0, 1, 0)
    if late is None:
        assert counts.late == 1
        assert [dict(r.headers)["sequence"] for r in driver.read("shop.late")] == [b"2"]
    else:
        assert (counts.late, counts.rebuilt, counts.processed) == (0, 1, 3)
    assert counts.accounted == counts.received
    assert not driver.audit().violations, str(driver.audit())


@pytest.mark.parametrize("late", [None, rebuild_stream()])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("restart", [False, True])
def test_what_came_another_time_meanwhile_is_a_duplicate(
    late: Any, copies: int, restart: bool
) -> None:
    """It was processed: to be late, or to be handled again with its messages, is untrue."""
    driver = driver_of(board, buffer=2, full=redeliver(limit=1), late=late)
    for sequence in (2, *[4] * copies):
        driver.pipe("orders", order(sequence))
    driver.advance(60)
    assert driver.counts("board").dead == copies
    for sequence in (1, 3, 4, 5):
        driver.pipe("orders", order(sequence))
    driver.redrive_dead("board")
    if restart:
        driver.restart()
    driver.advance(1)
    assert (
        [each["sequence"] for each in driver.read_json("log")] == handled(driver) == [1, 2, 3, 4, 5]
    )
    counts = driver.counts("board")
    assert (counts.processed, counts.late, counts.skipped, counts.rebuilt) == (5, 0, 0, 0)
    assert (counts.dead, counts.redriven, counts.duplicate) == (0, copies, copies)
    assert counts.accounted == counts.received
    assert not driver.audit().violations, str(driver.audit())
    assert driver.explain("board", "a").well
    assert not driver.read("shop.late")


def test_two_dead_copies_are_handled_once() -> None:
    driver = driver_of(board, buffer=2, full=redeliver(limit=1), late=rebuild_stream())
    for sequence in (2, 4, 4):
        driver.pipe("orders", order(sequence))
    driver.advance(60)
    for sequence in (1, 3):
        driver.pipe("orders", order(sequence))
    driver.redrive_dead("board")
    driver.advance(1)
    assert [each["sequence"] for each in driver.read_json("log")] == handled(driver) == [1, 2, 3, 4]
    counts = driver.counts("board")
    assert (counts.redriven, counts.duplicate, counts.late, counts.rebuilt) == (2, 1, 0, 0)
    assert not driver.audit().violations, str(driver.audit())


def test_only_those_that_are_chosen_and_a_dry_run_does_nothing() -> None:
    driver = stuck()
    for sequence in (2, 3, 5):
        driver.pipe("orders", order(sequence, stream="b"))
    driver.command("skip", "board", "b", 3, force=True)
    driver.advance(1000)
    every = {"a": [3, 4, 5, 6], "b": [2]}
    assert driver.redrive_dead("board", dry_run=True) == every
    assert driver.redrive_dead("board", dry_run=True) == every
    assert driver.redrive_dead("board", reason="skipped", dry_run=True).keys() == {"b"}
    assert driver.redrive_dead("board", reason="no room", dry_run=True).keys() == {"a"}
    assert driver.redrive_dead("board", older_than=5000, dry_run=True) == {}
    assert driver.redrive_dead("board", "b") == {"b": [2]}
    assert driver.counts("board").dead == 4
    assert driver.redrive_dead("board", dry_run=True) == {"a": [3, 4, 5, 6]}
    assert not driver.audit().violations, str(driver.audit())


def test_it_is_told_in_the_audit_topic() -> None:
    driver = stuck()
    driver.redrive_dead("board")
    (record,) = driver.read_json("shop.audit")
    assert (record["name"], record["stream"], record["done"]) == ("redrive-dead", "a", True)
    assert record["facts"] == {"redriven": 4, "sequences": [3, 4, 5, 6]}
    assert "takes 4 dead events back, 3 to 6" in record["message"]


@pytest.mark.parametrize(
    "headers", [[], [("view", b"board")], [("view", None), ("sequence", b"x")]]
)
def test_what_somebody_else_wrote_to_the_dead_topic_is_passed_over(headers: Any) -> None:
    assert dead_of(Record("shop.dead", 0, 0, b"\xff", b"", headers)) is None
    driver = stuck()
    driver._storage.append("shop.dead", None, None, headers, 0)
    assert driver.redrive_dead("board") == {"a": [3, 4, 5, 6]}


@given(
    arrivals=deliveries(),
    cuts=st.lists(st.integers(0, 30), max_size=3),
    gap=st.sampled_from([None, skip(after=8)]),
    crash=st.booleans(),
)
def test_redriven_in_the_end_it_comes_to_what_spilling_comes_to(
    arrivals: list[Arrival], cuts: list[int], gap: Any, crash: bool
) -> None:
    full = redeliver(delay=1, limit=16) if gap else redeliver(delay=1, limit=1)
    driver = driver_of(board, buffer=2, gap=gap, full=full)
    spilled = driver_of(board, buffer=2, gap=gap, full=spill())
    for at, arrival in enumerate(arrivals):
        body = order(arrival.nth + 1, stream=arrival.stream)
        driver.pipe("orders", body)
        spilled.pipe("orders", body)
        if at in cuts:
            driver.advance(40)
            driver.redrive_dead("board")
            if crash:
                driver.restart()
    driver.advance(100)
    for _ in range(40):
        driver.redrive_dead("board")
        if crash:
            driver.restart()
        driver.advance(0.5)
    if gap is None:
        for stream in "abc":
            assert driver.last("board", stream) == spilled.last("board", stream)
            assert driver.state("board", stream) == spilled.state("board", stream)
    counts = driver.counts("board")
    assert counts.accounted == counts.received == len(arrivals) + counts.redriven
    assert not driver.audit().violations, str(driver.audit())


@pytest.mark.parametrize("memory", [None, 0])
def test_no_schedule_breaks_a_promise(memory: int | None) -> None:
    topology = shop(buffer=2, full=redeliver(delay=0.5, limit=1))
    delivery = Delivery(late=0.5, twice=0, never=0.05, reach=20)
    sent = numbered(topology, 30, 3)
    simulator = Simulator(topology, sent, delivery=delivery, memory=memory, redrives=True)
    simulator.run(range(40))
    redriven = [detail for what, _, detail in simulator.run(7).trace if what == "redrive"]
    assert redriven


def test_what_has_no_body_is_told_of_apart() -> None:
    driver = stuck()
    view, unit = driver.topology.views["board"], CommitUnit("orders", 0, now=driver.now)
    for sequence in (8, 9):
        message = Record("orders", 0, sequence, None, None, (), driver.now)
        bury(view, Event("a", sequence, None, None, message, driver.now), GONE, unit)
    for key, value, time, headers in unit.keyed[view.dead_topic]:
        driver._storage.append(view.dead_topic, key, value, headers, time)
    records = driver._storage.topics[view.dead_topic]
    found = find_dead(view, records, DeadEventFilter(), set())
    assert (found.streams, found.gone, found.others) == ({"a": [3, 4, 5, 6]}, 2, 0)
    told = Redriven("board", found, {}, True)
    assert told.as_dict()["gone"] == 2
    assert "  2 stay: nobody has their bodies; send them again" in str(told).splitlines()
    other = find_dead(view, records, DeadEventFilter("b"), set())
    assert (other.gone, other.others) == (0, 6)
