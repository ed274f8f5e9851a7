"""late=rebuild_stream(): which streams are not rebuilt, and what cannot be declared."""

from typing import Any

import orjson
import pytest

from tests.topology.engine.policies.rebuilt import driver_of, late_by_three, listed
from tests.topology.engine.rebuilding import (
    Rebuilding,
    orders,
    rebuilding,
)
from topology import (
    DeclarationError,
    Inspector,
    Topology,
    monotonic,
    opened_by,
    rebuild_stream,
    redeliver,
)


def test_a_stream_of_too_many_events_is_not_rebuilt_and_its_late_event_says_why() -> None:
    partition = Rebuilding(rebuilding(limit=2))
    partition.feed(orders(("a", 1), ("a", 4), ("a", 5)))
    partition.advance(3000)
    partition.feed(orders(("a", 2), start=3))
    partition.settle()
    (late,) = partition.written["shop.late"]
    headers = dict(late.headers)
    assert b"more than the 2 events" in headers["sequitur-reason"]
    assert headers["sequitur-origin"] == b"orders/0/3/0"
    counts = partition.view().state.counts
    assert (counts.late, counts.rebuilt, counts.accounted) == (1, 0, counts.received)
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 4, 5]})
    # The stream goes on as it was.
    partition.feed(orders(("a", 6), start=4))
    assert "epoch" not in partition.values("shop.board")[-1]


def test_nor_is_one_of_more_late_events_than_that() -> None:
    partition = Rebuilding(rebuilding(limit=2))
    partition.feed(orders(("a", 9)))
    partition.advance(3000)
    partition.feed(orders(("a", 2), ("a", 3), ("a", 4), ("a", 5)))
    assert len(partition.written["shop.late"]) == 2
    partition.settle()
    reasons = [dict(late.headers)["sequitur-reason"] for late in partition.written["shop.late"]]
    assert reasons == [b"it has more than the 2 events that may be read again"] * 4
    counts = partition.view().state.counts
    assert (counts.late, counts.accounted) == (4, counts.received)


@pytest.mark.parametrize("lost", ["input", "output", "numbers"])
def test_a_stream_whose_history_is_gone_is_not_rebuilt(lost: str) -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    history = partition.history("a")
    if lost == "input":
        history.shortened = True
        del history.events[1]
    elif lost == "numbers":
        # As of a topic that is compacted, or whose inspector takes them for none any more.
        del history.events[1]
    else:
        history.unwritten = True
        history.written.first = 4
    _rebuilt(partition, history)
    assert (
        b"no longer all there" in dict(partition.written["shop.late"][0].headers)["sequitur-reason"]
    )
    assert partition.view().state.counts.rebuilt == 0


@pytest.mark.parametrize("value", [b"no JSON", b"[]", b"{}", b'{"sequence": 99}', None])
def test_nor_is_one_whose_outputs_are_not_what_the_view_wrote(value: bytes | None) -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    history = partition.history("a")
    history.output(value)
    _rebuilt(partition, history)
    assert (
        b"that is no row change"
        in dict(partition.written["shop.late"][0].headers)["sequitur-reason"]
    )


def test_a_stream_that_began_after_what_retention_took_is_rebuilt() -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    history = partition.history("a")
    history.shortened = history.unwritten = True
    _rebuilt(partition, history)
    assert partition.view().state.counts.rebuilt == 1


def _rebuilt(partition: Rebuilding, history: Any) -> None:
    from topology.engine.commit_unit import CommitUnit
    from topology.view_rebuild.stream_rebuild import rebuild

    unit = CommitUnit("orders", 0, now=partition.now)
    rebuild(partition.view(), "a", history, unit)
    partition.task.finish(unit)
    partition.commit(unit)


@pytest.mark.parametrize(
    ("policies", "text"),
    [
        ({"start": opened_by("Placed")}, "below the opening event"),
        ({"closes": "Closed", "retention": 60}, "behind the closing event"),
    ],
)
def test_what_is_late_for_good_cannot_be_rebuilt(policies: dict[str, Any], text: str) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"))
    with pytest.raises(DeclarationError, match=text):
        topology.view("board", of=orders, handler=listed, late=rebuild_stream(), **policies)


def test_times_of_which_some_are_away_cannot_be_rebuilt() -> None:
    with pytest.raises(DeclarationError, match=r"use spill\(\)"):
        driver_of(sequence=monotonic(settle=1), late=rebuild_stream(), full=redeliver())


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "9", 10**9])
def test_a_limit_is_a_number_of_events(limit: Any) -> None:
    with pytest.raises(DeclarationError, match="limit must be"):
        rebuild_stream(limit)
