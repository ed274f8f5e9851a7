"""Records off the wire: a header name that is not UTF-8 damages its own record only."""

from itertools import cycle
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import ConsumerRecord
from hypothesis import given
from hypothesis import strategies as st

from topology import Headers, Inspector, Malformed, Record, Topology, TopologyTestDriver, key
from topology.engine.state.rows import encode_message
from topology.engine.stream_task import RekeyTask, StreamTask, malformed
from topology.faust.kafka import records
from topology.model.event import Damaged
from topology.model.large import ESCAPED, MESSAGE_BYTES, TOPIC_BYTES, size_of_message, too_large
from topology.model.origin_headers import ORIGIN, REASON
from topology.testing.driver.storage import DriverStorage

ORDERS = TopicPartition("orders", 3)
TORN = b"n\xff\xfee"


def batch(names: list[bytes], first: int = 0, compression: int = 0) -> bytes:
    """A record batch as the broker sends it; each record has one header of that name."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 16)
    for at, name in enumerate(names):
        value = b'{"id":"a","seq":%d}' % (first + at + 1)
        builder.append(at, 17, b"a", value, [("x" * len(name), b"1"), ("null", None)])
    body, at = bytes(builder.build()), 0
    for name in names:
        at = body.index(b"x" * len(name), at)
        body = body[:at] + name + body[at + len(name) :]
        at += len(name)
    return first.to_bytes(8, "big") + body[8:]


def fetched(raw: bytes, offset: int = 0, key: Any = records.raw, aborted: Any = None) -> list[Any]:
    """What a consumer makes of a fetch response, a few records at a time."""
    memory = fetcher.MemoryRecords(raw)
    made = fetcher.PartitionRecords(ORDERS, memory, aborted, offset, key, None, False, 1)
    result = fetcher.FetchResult(ORDERS, assignment=None, partition_records=made, backoff=0)
    result.check_assignment = lambda _: True
    result._update_position = lambda: None
    found: list[Any] = []
    while part := result.getall(2):
        found += part
    return found


@pytest.mark.parametrize("at", range(4))
def test_a_header_name_that_is_not_utf8_stops_neither_its_batch_nor_the_next(at: int) -> None:
    names = [b"name"] * 4
    names[at] = TORN
    found = fetched(batch(names) + batch([b"name"] * 2, first=4))
    assert [record.offset for record in found] == list(range(6))
    assert [record.offset for record in found if isinstance(record, Damaged)] == [at]
    assert [record.value for record in found] == [
        b'{"id":"a","seq":%d}' % n for n in range(1, 7)
    ]  # fmt: skip
    assert list(found[at].headers) == [("n\\xff\\xfee", b"1"), ("null", None)]
    assert list(found[at - 1].headers) == [("name", b"1"), ("null", None)]


def test_a_consumer_may_begin_behind_or_at_the_record() -> None:
    raw = batch([TORN, b"name", TORN, b"name"])
    assert [record.offset for record in fetched(raw, 1)] == [1, 2, 3]
    assert [record.offset for record in fetched(raw, 3)] == [3]


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    takes=st.lists(st.one_of(st.none(), st.integers(1, 7)), min_size=1),
    offset=st.integers(0, 8),
    torn=st.booleans(),
)
def test_however_many_are_taken_at_a_time_the_position_is_behind_the_last(
    sizes: list[int], takes: list[int | None], offset: int, torn: bool
) -> None:
    raw, total = b"", 0
    for size in sizes:
        raw += batch([TORN if torn else b"name"] * size, first=total)
        total += size
    offset %= sizes[0]  # a broker sends no batch that is all before it
    made = fetcher.PartitionRecords(
        ORDERS, fetcher.MemoryRecords(raw), None, offset, records.raw, None, False, 1
    )
    found: list[Any] = []
    for most in cycle(takes):
        found += (part := made.take(most))
        assert most is None or len(part) <= most
        if made.ended:
            break
        assert made.next_fetch_offset == found[-1].offset + 1
    assert [record.offset for record in found] == list(range(offset, total))
    assert made.next_fetch_offset == total


def test_other_consumers_get_records_of_their_own_kind() -> None:
    found = fetched(batch([b"name", TORN]), key=None)
    assert [type(record) for record in found] == [ConsumerRecord, ConsumerRecord]
    assert found[1].headers == (("n\\xff\\xfee", b"1"), ("null", None))


@pytest.mark.parametrize("key", [records.raw, None])
def test_what_an_aborted_transaction_wrote_is_passed_over_and_what_follows_is_not(key: Any) -> None:
    transactional, control = 16, 48

    def of(producer: int, raw: bytes, attributes: int) -> bytes:
        return (
            raw[:21]
            + attributes.to_bytes(2, "big")
            + raw[23:43]
            + producer.to_bytes(8, "big")
            + (raw[51:])
        )

    def marker(kind: int, first: int) -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 16)
        builder.append(0, 17, b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\0", [])
        return first.to_bytes(8, "big") + bytes(builder.build())[8:]

    two = [b"name"] * 2
    raw = (
        of(7, batch(two), transactional) + of(8, batch(two, first=2), transactional)
        + of(7, marker(0, 4), control) + of(8, marker(1, 5), control)
        + of(7, batch(two, first=6), transactional) + of(7, marker(1, 8), control)
    )  # fmt: skip
    assert [record.offset for record in fetched(raw, key=key, aborted=[(7, 0)])] == [2, 3, 6, 7]


def test_such_a_record_is_malformed_whatever_the_inspector_looks_at() -> None:
    (torn,) = fetched(batch([TORN]))
    topology = Topology("shop")
    for name, inspector in (
        ("json", Inspector(stream="id", sequence="seq")),
        ("headers", Headers(stream=key(), sequence="null")),
        ("mine", lambda message: ("a", 1, None, None)),
    ):
        source = topology.source(name, inspector=inspector, name=name)
        with pytest.raises(Malformed, match="header name is not UTF-8"):
            source.inspect(torn)


def test_such_a_record_is_counted_and_set_aside_before_and_behind_the_hop() -> None:
    found = fetched(batch([b"name", TORN, b"name"]))
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector(stream="id", sequence="seq"))
    rekey = RekeyTask(topology, source)
    unit = rekey.process(found, 1000)
    assert (rekey.intake.read, rekey.intake.malformed) == (3, 1)
    assert len(unit.keyed[source.by_stream]) == 2
    (aside,) = unit.keyed[topology.malformed_topic]
    assert aside[3][0] == ("n\\xff\\xfee", b"1")
    assert aside[1] == found[1].value
    keyed = topology.source("paid", inspector=Inspector(stream="id", sequence="seq"), keyed=True)
    task = StreamTask(topology, keyed, 0, DriverStorage(topology).stores)
    assert task.process(found, 1000).malformed == 1


@pytest.mark.parametrize(
    "headers",
    [
        [("sequitur-origin", None)],
        [("sequitur-origin", b"")],
        [("sequitur-origin", b"a/b/c/d")],
        [("sequitur-origin", b"a/1/2")],
        [("sequitur-origin", b"\xff/1/2/3")],
        [("sequitur-origin", b"t/1/2/3/4"), ("sequitur-key", None)],
        [("sequitur-key", b"x")],
    ],
)
def test_a_record_that_feigns_an_origin_stops_nothing(headers: Any) -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector(stream="id", sequence="seq"))
    seen: list[int] = []
    topology.view("v", of=source, handler=lambda event: seen.append(event.sequence))
    driver = TopologyTestDriver(topology)
    task = StreamTask(topology, source, 0, driver._storage.stores)
    forged = Record(source.by_stream, 0, 0, b"a", b'{"id":"a","seq":1}', headers, 17)
    task.process([forged], 1000)
    assert task.intake.read == 1
    assert seen == [1]


def large(value: int, header: int = 0, compression: int = 0) -> bytes:
    """A batch of one record with a value and a header of so many bytes."""
    builder = DefaultRecordBatchBuilder(2, compression, 0, -1, -1, -1, 1 << 16)
    builder.append(0, 17, b"a", b"x" * value, [("name", b"\1" * header)])
    return bytes(builder.build())


@pytest.mark.parametrize("compression", [0, 1])
@pytest.mark.parametrize(
    ("value", "header", "whole"),
    [
        (3 << 20, 0, True),
        (7 << 20, 0, True),
        (8 << 20, 0, False),
        (20 << 20, 0, False),
        (0, 1 << 20, True),
        (0, 2 << 20, False),
        (7 << 20, 200_000, False),
    ],
)
def test_a_record_that_fits_no_topic_is_damaged_and_one_that_fits_is_whole(
    value: int, header: int, whole: bool, compression: int
) -> None:
    (found,) = fetched(large(value, header, compression))
    assert isinstance(found, Damaged) is not whole
    assert len(found.value) == value


@given(
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3))),
)
def test_no_record_of_a_batch_that_is_not_looked_through_is_too_large(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 16)
    builder.append(0, 17, key, value, headers)
    raw = bytes(builder.build())
    (found,) = fetched(raw)
    assert size_of_message(found) <= ESCAPED * len(raw)
    assert not records.may_be_large(raw)


def test_a_batch_as_large_as_brokers_take_unless_told_otherwise_is_not_looked_through() -> None:
    assert not records.may_be_large(large(1_048_588 - 100))
    assert records.may_be_large(large(MESSAGE_BYTES // ESCAPED))


@pytest.mark.parametrize(
    "headers",
    [
        [(name, b"\1" * 70_000) for name in ("n" * 200, "m" * 200)],
        [("", None)] * 800_000,
    ],
    ids=["two headers of control characters", "headers with nothing in them"],
)
def test_what_is_made_of_a_message_at_the_limit_fits_its_topic(headers: Any) -> None:
    spent = size_of_message(Record("orders", 0, 0, b"\2" * 1000, b"", headers))
    body = b"x" * (MESSAGE_BYTES - spent)
    message = Record("o" * 249, 99_999, 2**62, b"\2" * 1000, body, headers, 2**41)
    assert too_large(message) is None
    topology = Topology("t")
    source = topology.source("orders", inspector=lambda m: ("s" * 512, 7, "kind", {}))
    unit = RekeyTask(topology, source).process([message], 2**41)
    row = encode_message(message, 2**41)
    malformed(topology, message, unit, Malformed("x" * 10_000), 2**41)
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 16)
    for outs in unit.keyed.values():
        for key_, value, timestamp, headers_ in outs:
            assert value == body
            size = builder.size_in_bytes(0, timestamp, key_, value, headers_)
            assert size < TOPIC_BYTES - 10_000
    assert len(row) < TOPIC_BYTES - 10_000


def test_of_a_message_that_is_too_large_the_malformed_topic_has_where_it_was() -> None:
    (record,) = fetched(large(9 << 20))
    topology = Topology("t")
    source = topology.source("orders", inspector=Inspector(stream=key(), sequence="seq"))
    unit = RekeyTask(topology, source).process([record], 17)
    ((_, value, _, headers),) = unit.keyed[topology.malformed_topic]
    assert value is None
    assert dict(headers)[ORIGIN] == b"orders/3/0/17"
    assert b"the limit is" in dict(headers)[REASON]
