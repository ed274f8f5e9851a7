"""A stream that begins midway went on without nothing; a gap behind its beginning is told."""

from typing import Any

import pytest

from tests.topology.diagnostics.explain.durable import explained, send
from tests.topology.diagnostics.explain.failing_board import board
from tests.topology.handled import driver_of, order
from topology import (
    TopologyTestDriver,
    earliest_seen,
    opened_by,
    skip,
)


def joined(**view: Any) -> TopologyTestDriver:
    """Sequences 7 and 8 of a stream that the view joins at 7."""
    driver = driver_of(board, **view)
    driver.pipe("orders", order(7, kind="Open"))
    driver.advance(5)
    driver.pipe("orders", order(8))
    assert driver.last("board", "a") == 8
    return driver


@pytest.mark.parametrize("start", [earliest_seen(after=5), opened_by("Open")])
def test_a_stream_that_was_joined_midway_is_in_order(start: Any) -> None:
    driver = joined(start=start)
    found = explained(driver)
    assert (found.situation, found.causes, found.passed.skipped) == ("in order", (), ())
    assert found.well


@pytest.mark.parametrize("start", [earliest_seen(after=5), opened_by("Open")])
def test_what_comes_from_below_where_a_stream_was_joined_is_late_and_nothing_is_given_up(
    start: Any,
) -> None:
    driver = joined(start=start)
    send(driver, 3, 1)
    found = explained(driver)
    assert found.situation == "incomplete"
    assert found.causes == ("it went on without sequences 1, 3 (2): late, and in shop.late",)


def test_a_gap_behind_where_a_stream_was_joined_is_given_up() -> None:
    driver = joined(start=earliest_seen(after=5), gap=skip(after=5))
    send(driver, 10)
    driver.advance(5)
    found = explained(driver)
    assert (found.situation, found.passed.skipped, found.well) == ("incomplete", ((9, 9),), False)


def test_the_beginning_of_a_stream_that_an_event_opens_is_not_given_up() -> None:
    driver = driver_of(board, start=opened_by("On"), gap=skip(after=5))
    for sequence, kind in ((5, "On"), (6, "Is")):
        driver.pipe("orders", order(sequence, kind=kind))
    driver.advance(20)
    found = explained(driver)
    assert (found.situation, found.well, found.causes) == ("in order", True, ())
    assert driver.counts("board").skipped == 0
    # What is missing behind it is.
    driver.pipe("orders", order(9, kind="Is"))
    driver.advance(20)
    driver.restart()
    assert explained(driver).causes == (
        "it went on without sequences 7 to 8: skipped, and not seen since",
    )


def test_nor_is_what_is_below_where_a_closed_stream_began_again() -> None:
    driver = driver_of(
        board, start=opened_by("On"), gap=skip(after=5), closes="End", retention=1000,
        reopen="start",
    )  # fmt: skip
    for sequence, kind in ((2, "On"), (3, "End"), (8, "On"), (9, "Is")):
        driver.pipe("orders", order(sequence, kind=kind))
    driver.advance(20)
    driver.restart()
    found = explained(driver)
    assert (found.situation, found.well, found.causes) == ("in order", True, ())
    assert driver.counts("board").skipped == 0


def test_what_was_given_up_as_nothing_opened_the_stream_is() -> None:
    driver = driver_of(board, start=opened_by("On"), gap=skip(after=5))
    driver.pipe("orders", order(4, kind="Is"))
    driver.advance(20)
    assert driver.counts("board").skipped == 3
    assert explained(driver).causes == (
        "it went on without sequences 1 to 3: skipped, and not seen since",
    )
