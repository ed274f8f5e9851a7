"""The driver reads what handlers send to a source topic, and its clock may be set back."""

import pytest

from tests.topology.handled import driver_of, order
from topology import (
    Emit,
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    Upsert,
    earliest_seen,
    monotonic,
    redeliver,
    retry,
    skip,
)
from topology.testing.driver import runner


def countdown(event: Event) -> list[Emit]:
    left = event.content["left"]
    following = {"id": event.stream, "n": event.sequence + 1, "left": left - 1}
    return [Emit("steps", event.stream, following)] if left else []


@pytest.mark.parametrize("keyed", [False, True])
def test_what_a_handler_sends_to_its_own_source_arrives(keyed: bool) -> None:
    topology = Topology("shop")
    source = topology.source("steps", inspector=Inspector("id", "n"), keyed=keyed)
    topology.view("board", of=source, handler=countdown)
    driver = TopologyTestDriver(topology)
    driver.pipe("steps", {"id": "a", "n": 1, "left": 5}, key="a")
    assert (driver.counts("board").processed, driver.last("board", "a")) == (6, 6)
    assert driver.audit().sound
    driver.restart()
    driver.pipe("steps", {"id": "b", "n": 1, "left": 1}, key="b")
    assert driver.last("board", "b") == 2
    assert driver.audit(contents=True).sound


def test_what_is_sent_to_another_source_arrives_whatever_brought_it_about() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"))
    bills = topology.source("bills", inspector=Inspector("id", "n"))

    def bill(event: Event) -> list[Emit]:
        return [Emit("bills", event.stream, {"id": event.stream, "n": event.sequence})]

    def paid(event: Event) -> list[Upsert]:
        return [Upsert("paid", {"id": event.stream}, {"n": event.sequence})]

    topology.view("billing", of=orders, handler=bill, gap=skip(after=10))
    topology.view("paying", of=bills, handler=paid, start=earliest_seen(after=1))
    driver = TopologyTestDriver(topology)
    driver.pipe("orders", {"id": "a", "n": 2})
    driver.advance(12)
    assert driver.last("paying", "a") == 2
    assert driver.command("halt", "billing").done
    driver.pipe("orders", {"id": "a", "n": 3})
    assert driver.last("paying", "a") == 2
    assert driver.command("resume", "billing").done
    assert driver.table("paid") == {("a",): {"id": "a", "n": 3}}
    assert driver.audit().sound


def test_handlers_that_feed_each_other_for_ever_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "FED", 50)
    topology = Topology("shop")
    source = topology.source("steps", inspector=Inspector("id", "n"))
    topology.view("board", of=source, handler=countdown)
    driver = TopologyTestDriver(topology)
    with pytest.raises(
        RuntimeError, match=r"50 messages to source topics .* 'steps': does that end"
    ):
        driver.pipe("steps", {"id": "a", "n": 1, "left": -1})


def test_what_put_back_events_make_of_rows_is_seen_at_once() -> None:
    driver = driver_of(
        lambda event: [Emit("orders", "b", order(1, "b"))] if event.stream == "a" else [],
        buffer=2,
        full=redeliver(limit=1),
    )
    for sequence in (2, 4):
        driver.pipe("orders", order(sequence))
    driver.advance(60)
    driver.pipe("orders", order(1))
    driver.pipe("orders", order(3))
    driver.redrive_dead("board")
    assert driver.last("board", "a") == 4
    assert driver.audit().sound


HOURS = 10_000_000


def down(event: Event) -> None:
    raise ConnectionError("down")


def test_a_clock_that_was_set_back_holds_up_no_gap_longer_than_it_may_last() -> None:
    driver = driver_of(lambda event: None, gap=skip(after=10))
    for sequence in (1, 3):
        driver.pipe("orders", order(sequence))
    driver.now -= HOURS
    driver.restart()
    driver.advance(10)
    assert driver.last("board", "a") == 3


def test_a_clock_that_was_set_back_holds_up_no_retry() -> None:
    driver = driver_of(down, error=retry(3, 1))
    driver.pipe("orders", order(1))
    driver.now -= HOURS
    driver.restart()
    driver.advance(1 + 2 + 4)
    assert driver.counts("board").failed == 1


def test_a_clock_that_was_set_back_holds_up_no_start_and_nothing_that_settles() -> None:
    driver = driver_of(lambda event: None, start=earliest_seen(after=5))
    driver.pipe("orders", order(7))
    driver.now -= HOURS
    driver.restart()
    driver.advance(5)
    assert driver.last("board", "a") == 7

    topology = Topology("shop")
    inspector = Inspector("stream", "sequence")
    source = topology.source("orders", inspector=inspector, sequence=monotonic(settle=5))
    topology.view("board", of=source, handler=lambda event: None)
    driver = TopologyTestDriver(topology)
    driver.pipe("orders", order(7))
    driver.now -= HOURS
    driver.restart()
    driver.advance(5)
    assert driver.last("board", "a") == 7
