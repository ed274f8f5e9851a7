"""Every order: neither the cut into batches, nor crashes, nor the drain change what comes out."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, batches, cuts, deliveries, moments
from tests.topology.partition import Partition, board
from topology import (
    Counts,
    Inspector,
    Record,
    Topology,
    earliest_seen,
    linked,
    monotonic,
    opened_by,
    skip,
    spill,
)
from topology.inspectors.normalise import sequence_number

ORDERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "linked": (linked(previous="previous"), {}),
    "linked, given up": (linked(previous="previous"), {"gap": skip(after=4)}),
    "linked, joined": (linked(previous="previous"), {"start": earliest_seen(after=3)}),
    "linked, opened": (linked(previous="previous"), {"start": opened_by("Opened")}),
    "monotonic": (monotonic(settle=3), {}),
    "monotonic, closed": (monotonic(settle=3), {"closes": "Closed", "retention": 4}),
    "joined": (None, {"start": earliest_seen(after=3), "gap": skip(after=5)}),
    "opened": (None, {"start": opened_by("Opened")}),
    "closed": (None, {"closes": "Closed", "retention": 4, "gap": skip(after=3)}),
    "reopened": (
        None,
        {"start": opened_by("Opened"), "closes": "Closed", "retention": 4, "reopen": "start"},
    ),
    "lanes": (monotonic(settle=2), {"lane": "lane"}),
}


few = settings(max_examples=settings().max_examples // 2)
"""There are 33 of them."""
RING = 64
"""A ring that has room for all. A gap's time is that of the oldest event in the ring; what is in a
smaller ring at the end of a step, and what is beyond it, depends on the cut."""


def topology_of(name: str, size: int) -> Topology:
    sequence, policies = ORDERS[name]
    if size < RING:
        policies = {what: policy for what, policy in policies.items() if what != "gap"}
    topology = Topology("shop")
    inspector = Inspector(stream="stream", sequence="sequence", kind="kind")
    orders = topology.source("orders", inspector=inspector, sequence=sequence, keyed=True)
    topology.view("board", of=orders, handler=board, buffer=size, full=spill(), **policies)
    return topology


def record(name: str, offset: int, arrival: Arrival) -> Record:
    contiguous = ORDERS[name][0] is None
    spread = 1 if contiguous else 10
    sequence = spread * (arrival.nth + 1)
    kind = {0: "Opened", 1: "Opened", 4: "Closed"}.get(arrival.nth % 5, "Changed")
    body: dict[str, Any] = {"stream": arrival.stream, "sequence": sequence, "kind": kind}
    body["previous"] = None if arrival.nth == 0 else sequence - spread
    body["lane"] = "odd" if arrival.nth % 2 else "even"
    return Record("orders", 0, offset, arrival.stream.encode(), orjson.dumps(body), timestamp=0)


def rows(partition: Partition, size: int) -> dict[bytes, Any]:
    """Without the index of closed streams, which has a row more for each that started again."""
    found: dict[bytes, Any] = {}
    for key, row in partition.durable()["board"].items():
        if key[:1] == b"p" and size < RING and row[:1] == b"{":
            found[key] = {
                name: value for name, value in orjson.loads(row).items() if name != "since"
            }
        elif key[:1] not in b"cd":
            found[key] = row
    return found


def counted(partition: Partition) -> Counts:
    """A copy of what will be late, once a drain has come to the closing event, is a duplicate."""
    counts = partition.view().state.counts
    return replace(counts, late=counts.late + counts.duplicate, duplicate=0)


def outputs(partition: Partition) -> dict[str, list[Any]]:
    """Stream, or lane of one → its outputs in order."""
    found: dict[str, list[Any]] = defaultdict(list)
    for value in partition.values("shop.board"):
        found[value["stream"]].append(value)
    return found


def fed(name: str, arrivals: list[Arrival], sizes: list[int]) -> Any:
    found, offset = [], 0
    for at, together in moments(arrivals):
        records = [record(name, offset + n, arrival) for n, arrival in enumerate(together)]
        offset += len(records)
        found.append((at, list(batches(records, sizes))))
    return found


@pytest.mark.parametrize("size", [1, 2, RING])
@pytest.mark.parametrize("name", ORDERS)
@few
@given(
    arrivals=deliveries(),
    sizes=cuts(),
    crashes=st.sets(st.integers(0, 20)),
    drain=st.sampled_from([None, 1, 3]),
)
def test_batches_crashes_and_drains_change_nothing(
    name: str,
    size: int,
    arrivals: list[Arrival],
    sizes: list[int],
    crashes: set[int],
    drain: int | None,
) -> None:
    topology = topology_of(name, size)
    plain = Partition(topology).live(fed(name, arrivals, [1]))
    cut = Partition(topology, drain=drain)
    for at, moment in enumerate(fed(name, arrivals, sizes)):
        cut.live([moment])
        if at in crashes:
            cut.crash()
            while cut.task.unfinished:
                cut.feed([])

    assert rows(cut, size) == rows(plain, size)
    assert outputs(cut) == outputs(plain)
    counts = cut.view().state.counts
    assert counted(cut) == counted(plain)
    if "closes" not in ORDERS[name][1]:
        assert counts == plain.view().state.counts
    assert counts.accounted == counts.received == len(arrivals)
    for stream, handled in cut.handled().items():
        assert handled == sorted(set(handled)) or "closes" in ORDERS[name][1], stream


def test_revisions_are_numbers_that_lead() -> None:
    assert sequence_number("12-abc", "revision") == sequence_number("12", "revision") == 12
    assert sequence_number("2026-01-01", "revision") == sequence_number("2026-01-01")
