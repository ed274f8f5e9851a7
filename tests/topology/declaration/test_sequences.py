"""Sequences as they are declared, and as a topology runs with them."""

from typing import Any

import orjson
import pytest

from topology import (
    CloudEvents,
    Debezium,
    DeclarationError,
    Event,
    Headers,
    Inspector,
    Record,
    Topology,
    TopologyTestDriver,
    Upsert,
    contiguous,
    first_of,
    header,
    linked,
    monotonic,
    redeliver,
    skip,
    spill,
)

ANY: Any = None


def driver_of(sequence: Any, handled: list[int], **policies: Any) -> TopologyTestDriver:
    topology = Topology("docs")
    source = topology.source("docs", inspector=Inspector("id", "rev", "type"), sequence=sequence)

    def handler(event: Event) -> Any:
        handled.append(event.sequence)
        yield Upsert("docs", key={"id": event.stream}, values={"rev": event.sequence})

    topology.view("board", of=source, handler=handler, **policies)
    return TopologyTestDriver(topology)


def doc(rev: Any, previous: Any = None, type: str = "Edited", **more: Any) -> dict[str, Any]:
    return {"id": "a", "rev": rev, "previous": previous, "type": type, **more}


@pytest.mark.parametrize(
    "previous", ["previous", lambda event: event.content["previous"]], ids=["field", "function"]
)
def test_revisions_follow_their_predecessors_over_a_restart(previous: Any) -> None:
    handled: list[int] = []
    driver = driver_of(linked(previous=previous), handled, buffer=1, full=spill())
    for rev, before in (("4-dd", "3-cc"), ("3-cc", "2-bb"), ("2-bb", "1-aa")):
        driver.pipe("docs", doc(rev, before))
    driver.restart()
    driver.pipe("docs", doc("1-aa"))
    driver.pipe("docs", doc("2-bb", "1-aa"))

    assert handled == [1, 2, 3, 4]
    counts = driver.counts("board")
    assert (counts.duplicate, counts.waiting) == (1, 0)
    assert counts.accounted == counts.received == 5


def test_a_first_event_may_lack_the_field_or_have_the_value_that_stands_for_none() -> None:
    handled: list[int] = []
    driver = driver_of(linked(previous="before", first=0), handled)
    driver.pipe("docs", {"id": "a", "rev": 5, "type": "Edited"})
    driver.pipe("docs", {"id": "b", "rev": 7, "before": 0, "type": "Edited"})
    assert handled == [5, 7]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (doc("f00ba7"), "a chain of hashes alone has no order"),
        (doc(2, "f00ba7"), "the predecessor: the sequence 'f00ba7' does not begin with a number"),
        (doc(2, 2), "the predecessor 2 is not below the event's own sequence 2"),
        (doc(2, 3), "sequences must increase along the chain"),
    ],
)
def test_a_chain_that_cannot_be_followed_is_malformed(message: Any, reason: str) -> None:
    driver = driver_of(linked(previous="previous"), [])
    driver.pipe("docs", message)
    (record,) = driver.read("docs.malformed")
    assert reason in dict(record.headers)["sequitur-reason"].decode()


def test_a_function_of_the_predecessor_that_fails_makes_its_event_malformed() -> None:
    driver = driver_of(linked(previous=lambda event: event.content["gone"]), [])
    driver.pipe("docs", doc(2))
    (record,) = driver.read("docs.malformed")
    assert b"KeyError: 'gone'" in dict(record.headers)["sequitur-reason"]


def test_a_skipped_predecessor_is_late() -> None:
    handled: list[int] = []
    driver = driver_of(linked(previous="previous"), handled, gap=skip(after=5))
    driver.pipe("docs", doc(1))
    driver.pipe("docs", doc(3, 2))
    driver.restart()
    driver.advance(5)
    driver.pipe("docs", doc(2, 1))

    assert handled == [1, 3]
    counts = driver.counts("board")
    assert (counts.skipped, counts.late) == (1, 1)
    assert counts.accounted == counts.received


def test_a_chain_that_is_longer_than_the_buffer_comes_again_and_is_followed() -> None:
    handled: list[int] = []
    driver = driver_of(
        linked(previous="previous"), handled, buffer=2, gap=skip(after=60), full=redeliver()
    )
    for rev in range(9, 1, -1):
        driver.pipe("docs", doc(rev, rev - 1))
    assert driver.counts("board").redelivering == 6
    driver.restart()
    driver.advance(20)
    assert handled == []
    driver.pipe("docs", doc(1))
    driver.advance(60)

    assert handled == list(range(1, 10))
    counts = driver.counts("board")
    assert counts.accounted == counts.received == 9
    assert (counts.processed, counts.skipped) == (9, 0)


@pytest.mark.parametrize("size", [1, 64])
def test_times_are_in_order_once_they_have_settled_over_a_restart(size: int) -> None:
    handled: list[int] = []
    driver = driver_of(monotonic(settle=10), handled, buffer=size)
    for second in (3, 1, 2, 3):
        driver.pipe("docs", doc(f"2026-01-01T00:00:0{second}Z"))
        driver.advance(1)
    driver.restart()
    assert handled == []
    driver.advance(6)
    driver.restart()
    driver.pipe("docs", doc("2026-01-01T00:00:02Z"))
    driver.pipe("docs", doc("2026-01-01T00:00:00Z"))

    assert [each % 60_000_000 for each in handled] == [1_000_000, 2_000_000, 3_000_000]
    counts = driver.counts("board")
    assert (counts.duplicate, counts.late, counts.waiting) == (2, 1, 0)
    assert counts.accounted == counts.received == 6


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda: linked(previous=ANY), "linked(previous=None): give a field path such as"),
        (lambda: linked(previous="a..b"), "field path 'a..b': write names joined by dots"),
        (lambda: monotonic(settle=0), "settle must be a number of seconds above 0"),
        (lambda: monotonic(settle=ANY), "monotonic(settle=None)"),
        (lambda: contiguous(start=-(2**63)), "start at -9223372036854775807 or above"),
        (
            lambda: driver_of("monotonic", []),
            "use contiguous(…), linked(…), monotonic(…), or an object with",
        ),
        (
            lambda: driver_of(monotonic(settle=1), [], full=redeliver()),
            "what is away for redelivery cannot settle; use spill() or halt()",
        ),
        (
            lambda: driver_of(monotonic(settle=1), [], gap=skip(after=1)),
            "view 'board': gap=Skip(after=1.0), but source 'docs' is monotonic, which knows no "
            "gaps; leave gap out",
        ),
    ],
)
def test_a_mistake_in_a_sequence_says_what_to_write_instead(declare: Any, reason: str) -> None:
    with pytest.raises(DeclarationError) as mistake:
        declare()
    assert reason in str(mistake.value)


def test_a_description_shows_the_sequence() -> None:
    def before(event: Event) -> int:
        return event.sequence - 1

    for sequence, text in (
        (linked(previous="meta.previous"), "linked(previous='meta.previous')"),
        (linked(previous=before, first=0), "linked(previous=before, first=0)"),
        (monotonic(settle=2.5), "monotonic(settle=2.5)"),
    ):
        driver = driver_of(sequence, [])
        assert text in str(driver.topology.describe())


@pytest.mark.parametrize(
    "inspector",
    [
        lambda message: (orjson.loads(message.value)["id"], orjson.loads(message.value)["rev"],
                         None, orjson.loads(message.value)),
        first_of(CloudEvents("subject"), Inspector("id", "rev")),
        Headers("id", "rev"),
        Inspector("id", "rev"),
    ],
    ids=["function", "first_of", "headers", "fields"],
)  # fmt: skip
def test_revisions_are_sequences_of_a_chain_whatever_inspects(inspector: Any) -> None:
    topology = Topology("pages")
    by = linked(previous=header("previous"))
    topology.source("pages", inspector=inspector, sequence=by, keyed=True)
    headers = [("id", b"a"), ("rev", b"7-c4"), ("previous", b"3-0b")]
    record = Record("pages", 0, 0, None, b'{"id": "a", "rev": "7-c4"}', headers)
    found = topology.sources["pages"].inspect(record)
    assert found is not None
    assert found[:2] == ("a", 7)


@pytest.mark.parametrize(
    "times",
    [
        [1_772_352_000 * scale + each * scale for each in range(3)]
        for scale in (1, 1_000, 1_000_000, 1_000_000_000)
    ]
    + [[f"2026-03-01T08:00:0{each}Z" for each in range(3)]],
    ids=["s", "ms", "µs", "ns", "ISO"],
)
@pytest.mark.parametrize("declared", ["source", "with_inspectors", "first_of"])
def test_a_predecessor_is_read_as_the_inspector_reads_sequences(
    declared: str, times: list[Any]
) -> None:
    inspector: Any = Inspector("id", "at", sequence_type="timestamp")
    if declared == "first_of":
        inspector = first_of(CloudEvents("subject", sequence_type="timestamp"), inspector)
    topology, handled = Topology("docs"), list[Any]()
    source = topology.source(
        "docs",
        inspector=Inspector("id", "rev") if declared == "with_inspectors" else inspector,
        sequence=linked(previous="before"),
    )
    topology.view("board", of=source, handler=lambda e: handled.append(e.content["at"]))
    if declared == "with_inspectors":
        topology = topology.with_inspectors({"docs": inspector})
    driver = TopologyTestDriver(topology)
    for at, before in ((0, None), (2, 1), (1, 0)):
        previous = None if before is None else times[before]
        driver.pipe("docs", {"id": "a", "at": times[at], "before": previous})
    assert handled == times
    assert (driver.counts("board").duplicate, driver.read("docs.malformed")) == (0, [])


def test_a_column_that_counts_has_no_predecessor_that_is_a_time() -> None:
    inspector = Debezium("id", version="version", sequence_type="timestamp")
    order = linked(previous="after.before").read_by(inspector)
    assert order.reads == "revision"


def test_inspectors_of_which_only_some_read_times_cannot_say_what_a_predecessor_is() -> None:
    both = first_of(
        first_of(CloudEvents("subject")), Inspector("id", "at", sequence_type="timestamp")
    )
    topology = Topology("docs")
    topology.source("free", inspector=both, sequence=monotonic(settle=1))
    topology.source("docs", inspector=Inspector("id", "at"), sequence=linked(previous="before"))
    for declare in (
        lambda: topology.source("more", inspector=both, sequence=linked(previous="before")),
        lambda: topology.with_inspectors({"docs": both}),
    ):
        with pytest.raises(DeclarationError, match="declare all of them with it, or none"):
            declare()


@pytest.mark.parametrize("first", ["0", b"0", 0])
def test_what_stands_for_no_predecessor_is_found_in_a_header_too(first: Any) -> None:
    topology, handled = Topology("docs"), list[int]()
    by = linked(previous=header("before"), first=first)
    source = topology.source("docs", inspector=Headers("id", "rev"), sequence=by)
    topology.view("board", of=source, handler=lambda event: handled.append(event.sequence))
    driver = TopologyTestDriver(topology)
    for rev, before in ((b"2", b"1"), (b"1", b"0")):
        driver.pipe("docs", {}, headers=[("id", b"a"), ("rev", rev), ("before", before)])
    assert handled == [1, 2]
