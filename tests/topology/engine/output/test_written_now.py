"""What is written bears the time of writing, by which Kafka deletes what a topic need not keep."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from tests.topology.engine.rebuilding import Rebuilding, orders, rebuilding, trail
from tests.topology.handled import driver_of, order
from topology import Emit, Event, TopologyTestDriver, Upsert, advance, park, retry, skip

DAYS = 8 * 86_400
"""Longer than the week for which a broker keeps records unless told otherwise."""


def tells(event: Event) -> Any:
    yield Upsert("board", key={"id": event.stream}, values={"last": event.sequence})
    yield Emit("own", event.stream, b"x")
    yield Emit("other", "another", {"n": event.sequence}, headers=(("h", b"1"),))


def fails(event: Event) -> Any:
    if event.sequence == 2:
        raise ValueError("broken")


def times(driver: TopologyTestDriver) -> dict[str, set[int]]:
    """Topic → the timestamps of its records, of the topics that are no input of the view."""
    return {
        topic: {record.timestamp for record in records}
        for topic, records in driver._storage.topics.items()
        if records and topic not in ("orders", "shop.orders.by-stream")
    }


def waited(handler: Callable[[Event], Any], **policies: Any) -> TopologyTestDriver:
    """A driver in which sequence 2 waited for eight days, until 1 came."""
    driver = driver_of(handler, **policies)
    driver.pipe("orders", order(2))
    driver.advance(DAYS)
    driver.pipe("orders", order(1))
    return driver


@pytest.mark.parametrize("lane", [None, "kind"])
def test_an_event_that_waited_for_eight_days_is_not_written_with_a_time_eight_days_ago(
    lane: str | None,
) -> None:
    driver = waited(tells, lane=lane)
    written = times(driver)
    assert written.keys() == {"shop.board", "own", "other"}
    assert set(chain(*written.values())) == {driver.now}


@pytest.mark.parametrize(
    ("error", "topics"),
    [
        (advance(), {"shop.errors"}),
        (park(), {"shop.errors", "shop.parked"}),
        (retry(3, backoff=1.0), {"shop.errors"}),
    ],
    ids=["advance", "park", "retry"],
)
def test_its_failure_is_not_either(error: Any, topics: set[str]) -> None:
    driver = waited(fails, error=error)
    written = times(driver)
    assert written.keys() == topics
    assert set(chain(*written.values())) == {driver.now}


def test_nor_what_is_given_up_behind_a_gap() -> None:
    driver = driver_of(tells, gap=skip(after=DAYS))
    driver.pipe("orders", order(2))
    driver.advance(DAYS)
    assert set(chain(*times(driver).values())) == {driver.now}
    driver.advance(DAYS)
    driver.pipe("orders", order(1))
    (late,) = driver.read("shop.late")
    assert late.timestamp == driver.now


def silent_in_the_end(event: Event, state: dict[str, Any]) -> Any:
    """Writes a row for 3 where 2 is missing, and nothing where it is not."""
    state["before"] = [*state.get("before", []), event.sequence]
    if state["before"] == [1, 3]:
        yield Upsert("board", key={"id": event.stream}, values={"odd": True})


def fails_at_two(event: Event, state: dict[str, Any]) -> Any:
    return fails(event)


@pytest.mark.parametrize(
    ("handler", "topics"),
    [
        (trail, {"shop.board", "log"}),
        (silent_in_the_end, {"shop.board"}),
        (fails_at_two, {"shop.late"}),
    ],
    ids=["says more", "says nothing any more", "cannot be rebuilt"],
)
def test_nor_are_the_outputs_of_a_rebuild_that_came_eight_days_after_the_late_event(
    handler: Any, topics: set[str]
) -> None:
    partition = Rebuilding(rebuilding(handler=handler, error=park()))
    partition.feed(orders(("a", 1), ("a", 3)))
    partition.advance(3000)
    partition.feed(orders(("a", 2), start=2))
    before = {topic: len(records) for topic, records in partition.written.items()}
    partition.now += DAYS * 1000
    partition.settle()
    new = {
        topic: {record.timestamp for record in records[before.get(topic, 0) :]}
        for topic, records in partition.written.items()
        if len(records) > before.get(topic, 0)
    }
    assert new == {topic: {partition.now} for topic in topics}
