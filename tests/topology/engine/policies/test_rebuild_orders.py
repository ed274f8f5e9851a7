"""late=rebuild_stream() in each order, with lanes, and in the test driver."""

from typing import Any

import pytest

from tests.topology.engine.policies.rebuilt import driver_of, listed
from topology import (
    Event,
    earliest_seen,
    linked,
    monotonic,
    rebuild_stream,
    skip,
    spill,
)


def test_the_test_driver_rebuilds_at_once() -> None:
    driver = driver_of(gap=skip(after=5), late=rebuild_stream())
    for n in (1, 3):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 2})
    assert driver.table("board")[("a",)]["seen"] == "[1,2,3]"
    assert driver.audit().sound


async def listed_later(event: Event, state: dict[str, Any]) -> Any:
    return list(listed(event, state))


def test_of_a_handler_that_is_awaited() -> None:
    driver = driver_of(gap=skip(after=5), late=rebuild_stream(), handler=listed_later)
    for n in (1, 3):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 2})
    assert driver.state("board", "a") == {"seen": [1, 2, 3]}


def test_of_a_linked_stream() -> None:
    driver = driver_of(
        gap=skip(after=5), late=rebuild_stream(), sequence=linked(previous="p"), full=spill()
    )
    for n, p in ((2, None), (9, 5), (12, 9)):
        driver.pipe("orders", {"id": "a", "n": n, "p": p})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 5, "p": 2})
    assert driver.state("board", "a") == {"seen": [2, 5, 9, 12]}
    assert driver.audit().sound


def test_of_a_monotonic_stream_whose_old_copies_are_no_reason_to_rebuild() -> None:
    driver = driver_of(late=rebuild_stream(), sequence=monotonic(settle=1))
    for n in range(1, 41, 2):
        driver.pipe("orders", {"id": "a", "n": n})
        driver.advance(2)
    driver.pipe("orders", {"id": "a", "n": 1})
    counts = driver.counts("board")
    assert (counts.late, counts.duplicate, counts.rebuilt) == (0, 1, 0)
    driver.pipe("orders", {"id": "a", "n": 4})
    driver.pipe("orders", {"id": "a", "n": 41})
    driver.advance(2)
    assert driver.state("board", "a")["seen"] == [*sorted([*range(1, 41, 2), 4]), 41]
    assert (driver.counts("board").rebuilt, driver.counts("board").late) == (1, 0)
    assert driver.audit().sound


def test_of_a_lane_alone() -> None:
    driver = driver_of(gap=skip(after=5), late=rebuild_stream(), lane="l")
    for n, lane in ((1, "x"), (3, "x"), (1, "y")):
        driver.pipe("orders", {"id": "a", "n": n, "l": lane})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 2, "l": "x"})
    assert driver.state("board", "a|x") == {"seen": [1, 2, 3]}
    epochs = [(v["stream"], v["lane"], v.get("epoch", 0)) for v in driver.read_json("shop.board")]
    assert epochs[-3:] == [("a|x", "x", 1)] * 3
    assert ("a|y", "y", 0) in epochs


def test_of_a_stream_that_began_with_the_earliest_seen() -> None:
    driver = driver_of(start=earliest_seen(after=5), gap=skip(after=5), late=rebuild_stream())
    for n in (7, 8):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 6})
    assert driver.state("board", "a") == {"seen": [6, 7, 8]}


def test_what_it_gave_up_since_is_skipped_no_more_once_it_is_rebuilt() -> None:
    driver = driver_of(start=earliest_seen(after=5), gap=skip(after=10), late=rebuild_stream())
    for n, later in ((5, 0), (6, 6), (8, 11)):
        driver.pipe("orders", {"id": "a", "n": n})
        driver.advance(later)
    assert driver.counts("board").skipped == 1
    driver.pipe("orders", {"id": "a", "n": 7})
    counts = driver.counts("board")
    assert (counts.processed, counts.late, counts.skipped, counts.rebuilt) == (4, 0, 0, 1)
    driver.pipe("orders", {"id": "a", "n": 4})  # which was before its beginning, and never counted
    counts = driver.counts("board")
    assert (counts.processed, counts.skipped, counts.rebuilt) == (5, 0, 2)


@pytest.mark.parametrize("restarts", [False, True])
def test_the_last_of_what_was_before_its_beginning_is_no_gap_of_another_stream(
    restarts: bool,
) -> None:
    driver = driver_of(start=earliest_seen(after=5), gap=skip(after=10), late=rebuild_stream())
    for n, later in ((1, 6), (3, 11)):
        driver.pipe("orders", {"id": "b", "n": n})
        driver.advance(later)
    driver.pipe("orders", {"id": "a", "n": 2})
    driver.advance(6)
    if restarts:
        driver.restart()
    driver.pipe("orders", {"id": "a", "n": 1})
    counts = driver.counts("board")
    assert (driver.state("board", "a"), counts.skipped, counts.rebuilt) == ({"seen": [1, 2]}, 1, 1)


def test_a_stream_that_is_not_rebuilt_forgets_what_was_before_its_beginning() -> None:
    driver = driver_of(start=earliest_seen(after=5))
    driver.pipe("orders", {"id": "a", "n": 2})
    driver.advance(6)
    driver.pipe("orders", {"id": "a", "n": 1})
    assert driver.counts("board").late == 1
    assert driver._runner.view("board").state.progress("a") == 2


def test_of_a_view_that_is_halted_when_it_is_resumed() -> None:
    driver = driver_of(gap=skip(after=5), late=rebuild_stream())
    for n in (1, 3):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(5)
    driver.command("halt", "board")
    driver.pipe("orders", {"id": "a", "n": 2})
    assert driver.state("board", "a") == {"seen": [1, 3]}
    driver.command("resume", "board")
    assert driver.state("board", "a") == {"seen": [1, 2, 3]}
