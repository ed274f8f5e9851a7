"""late=rebuild_stream() where handlers fail: each event is counted in one place."""

from typing import Any

import orjson

from tests.topology.engine.policies.rebuilt import came, faulty, placed
from tests.topology.engine.rebuilding import (
    Rebuilding,
    orders,
    rebuilding,
    trail,
)
from tests.topology.handled import driver_of as driving
from tests.topology.handled import order
from topology import (
    Event,
    Upsert,
    park,
    rebuild_stream,
    skip,
)


def fails_at(*sequences: int) -> Any:
    def handler(event: Event, state: dict[str, Any]) -> Any:
        if event.sequence in sequences:
            raise ValueError(f"{event.sequence} is broken")
        yield from trail(event, state)

    return handler


def test_with_advance_a_late_event_that_fails_is_passed_and_so_is_what_failed_before() -> None:
    partition = Rebuilding(rebuilding(handler=fails_at(2, 4)))
    partition.feed(orders(("a", 1), ("a", 4), ("a", 5)))
    partition.advance(3000)
    partition.feed(orders(("a", 2), ("a", 3), start=3))
    partition.settle()
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 3, 5]})
    done = [(report["sequence"], report["done"]) for report in partition.values("shop.errors")]
    assert done == [(4, "advance"), (2, "advance"), (4, "passed over in a rebuild")]
    counts = partition.view().state.counts
    assert (counts.failed, counts.processed, counts.accounted) == (2, 3, 5)


def test_where_nothing_may_be_passed_over_a_failure_leaves_the_stream_as_it_was() -> None:
    partition = Rebuilding(rebuilding(handler=fails_at(2), error=park()))
    partition.feed(orders(("a", 1), ("a", 4)))
    partition.advance(3000)
    partition.feed(orders(("a", 2), start=2))
    partition.settle()
    reason = dict(partition.written["shop.late"][0].headers)["sequitur-reason"]
    assert reason == b"sequence 2 failed: ValueError: 2 is broken"
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 4]})
    assert not partition.written["shop.errors"]


def test_a_parked_stream_is_rebuilt_up_to_where_it_is_and_stays_parked() -> None:
    partition = Rebuilding(rebuilding(handler=fails_at(5), error=park()))
    partition.feed(orders(("a", 1), ("a", 4), ("a", 5), ("a", 6)))
    partition.advance(3000)
    assert partition.view().state.counts.parked == 2
    partition.feed(orders(("a", 2), start=4))
    partition.settle()
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 2, 4]})
    assert partition.waiting("a") == [5, 6]
    assert (partition.view().state.counts.parked, partition.view().state.counts.waiting) == (2, 0)


def stumbling(event: Event, state: dict[str, Any]) -> Any:
    """3 fails if 2 is in its place, and 4 always."""
    state["seen"] = [*state.get("seen", []), event.sequence]
    if (event.sequence == 3 and 2 in state["seen"]) or event.sequence == 4:
        raise ValueError("no")
    yield Upsert("steps", key={"id": event.stream}, values={"n": len(state["seen"])})


def test_what_was_processed_and_fails_in_a_rebuild_is_failed_once() -> None:
    """It is not in the rows any more: nothing may call the stream complete."""
    driver = driving(stumbling, gap=skip(after=2), late=rebuild_stream())
    for sequence in (1, 3, 4, 6):
        driver.pipe("orders", order(sequence))
    driver.advance(3)
    driver.restart()
    for late, failed in ((2, 2), (5, 2)):
        driver.pipe("orders", order(late))
        driver.restart()
        counts = driver.counts("board")
        assert (counts.failed, counts.accounted) == (failed, counts.received)
        audit = driver.audit()
        assert not audit.violations, str(audit)
        assert not audit.clean
        assert not driver.explain("board", "a").well
    assert (counts.processed, counts.rebuilt, counts.late) == (4, 2, 0)
    assert driver.state("board", "a") == {"seen": [1, 2, 5, 6]}
    done = [(each["sequence"], each["done"]) for each in driver.read_json("shop.errors")]
    again = "passed over in a rebuild"
    assert done == [(4, "advance"), (3, "advance"), (4, again), (3, again), (4, again)]


def test_what_failed_before_a_rebuild_took_it_in_does_not_fail_twice() -> None:
    broken = {2}

    def sometimes(event: Event) -> Any:
        if event.sequence in broken:
            raise ValueError("no")
        yield Upsert("steps", key={"id": event.stream}, values={"n": event.sequence})

    driver = driving(sometimes, gap=skip(after=2), late=rebuild_stream())
    for sequence in (1, 2, 3, 5, 7):
        driver.pipe("orders", order(sequence))
    driver.advance(3)
    broken.clear()
    driver.pipe("orders", order(4))
    driver.restart()
    broken.add(2)
    driver.pipe("orders", order(6))
    counts = driver.counts("board")
    assert (counts.rebuilt, counts.failed, counts.processed) == (2, 1, 6)
    assert not driver.audit().violations, str(driver.audit())


def test_the_message_of_what_failed_and_is_handled_in_a_rebuild_is_not_lost() -> None:
    broken = {2}
    driver = faulty(broken)
    came(driver, 1, 2, 3, 5)
    driver.advance(10)
    broken.clear()
    driver.restart()
    came(driver, 4)
    assert sorted(driver.read_json("log")) == [1, 2, 3, 4, 5]
    assert placed(driver) == (5, 0, 0, 0, 0, 0)
    assert driver.explain("board", "a").well
    assert driver.audit().clean
    assert driver.read_json("shop.errors")[-1]["done"] == "handled in a rebuild"


def test_nor_is_the_message_of_what_was_handled_sent_again_when_it_fails_in_between() -> None:
    broken: set[int] = set()
    driver = faulty(broken)
    came(driver, 1, 3, 5, 7)
    driver.advance(30)
    broken.add(3)
    came(driver, 2)
    assert placed(driver)[:3] == (4, 0, 1)
    driver.restart()
    broken.clear()
    came(driver, 4)
    assert driver.read_json("log") == [1, 3, 5, 7, 2, 4]
    assert driver.state("board", "a") == {"seen": [1, 2, 3, 4, 5, 7]}
    assert placed(driver) == (6, 0, 0, 0, 0, 1)


def test_what_no_rebuild_took_in_is_left_out_of_the_next_and_has_another_try() -> None:
    broken: set[int] = set()
    driver = faulty(broken, error=park())
    came(driver, 1, 3, 5)
    driver.advance(20)
    broken.add(3)
    came(driver, 2)
    assert placed(driver) == (3, 1, 0, 0, 0, 2)
    broken.clear()
    driver.restart()
    came(driver, 4)
    assert driver.state("board", "a") == {"seen": [1, 3, 4, 5]}
    assert placed(driver) == (4, 1, 0, 0, 0, 1)
    assert driver.explain("board", "a").causes == (
        "it went on without sequence 2: late, and in shop.late",
    )
    # Whoever sends it again, from the late topic, has it handled.
    came(driver, 2)
    assert driver.state("board", "a") == {"seen": [1, 2, 3, 4, 5]}
    assert placed(driver) == (5, 1, 0, 0, 0, 0)
    assert driver.explain("board", "a").well
    came(driver, 2)
    assert placed(driver) == (5, 1, 0, 0, 1, 0)
    assert sorted(driver.read_json("log")) == [1, 2, 3, 4, 5]
    assert driver.audit(contents=True).sound
