"""What the console offers for a stream is what `explain` says would help it."""

from typing import Any

import pytest

from sequitur.console.pages.stream import actions
from tests.topology.diagnostics.explain.durable import explained, send
from tests.topology.handled import driver_of
from topology import Event
from topology.diagnostics.explain import PendingRedelivery


def board(event: Event) -> None:
    pass


@pytest.mark.parametrize(
    ("context", "offered"),
    [
        ({}, ["Skip", "Drop"]),
        # It is to come again: what is missing behind it must not take it along.
        ({"redelivering": (PendingRedelivery("a", 4, 1, 0),)}, ["Drop"]),
        ({"unread": 1}, ["Drop"]),
        ({"hidden": True}, ["Drop"]),
    ],
    ids=["missing", "redelivering", "unread", "hidden"],
)
def test_nothing_is_offered_to_be_given_up_that_is_there_or_may_still_come(
    context: dict[str, Any], offered: list[str]
) -> None:
    driver = driver_of(board)
    send(driver, 1, 2, 3, 7)
    assert [each.name for each in actions(explained(driver, **context))] == offered
