"""What a feed makes of records."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from sequitur.inbox.feed import Feed
from sequitur.inbox.interpret import inspected, interpreted, output_records, relayed
from sequitur.relay.records import headers_of
from stores.db.engines import open_engine
from stores.inbox.commands import counts
from stores.inbox.inbox import Inbox
from stores.message import Message
from tests.apps.sequitur.relay.parts import until
from tests.conftest import BrokerAddress
from tests.contracts.inbox.parts import done, make_table, write
from topology.inspectors import Headers
from topology.inspectors.fields import key
from topology.model.errors import Malformed
from topology.model.event import Record, damaged


def record(value: bytes | None, headers: Any = (), of: bytes | None = b"A-17") -> Record:
    return Record("orders", 0, 5, of, value, headers)


def test_a_relay_s_record_is_the_message_that_was_captured() -> None:
    interpret = inspected(Headers(key(), "sequitur-sequence", "sequitur-kind"), "orders")
    headers = [("sequitur-sequence", b"3"), ("sequitur-kind", b"Placed"), ("trace", b"t1")]
    message = interpret(record(b"body", headers))
    assert message is not None
    assert (message.topic, message.stream, message.sequence) == ("orders", "A-17", 3)
    assert (message.kind, message.content, message.void) == ("Placed", b"body", False)
    assert message.headers["trace"] == "t1"
    with pytest.raises(Malformed):
        interpret(record(b"body"))


def test_a_header_without_a_value_does_not_end_the_feed() -> None:
    headers = [("sequitur-sequence", b"3"), ("trace", None), ("odd", b"\xff")]
    message = relayed("orders")(record(b"body", headers))
    assert message is not None
    assert message.headers == {"sequitur-sequence": "3", "trace": "", "odd": "\ufffd"}


@pytest.mark.parametrize("kind", [None, "", "Placed"])
def test_a_message_of_any_kind_or_none_comes_through_kafka(kind: str | None) -> None:
    captured = Message("orders", "A-17", 3, kind, b"body", {"trace": "t"}, captured_at=1.5)
    inspector = Headers(key(), "sequitur-sequence", "sequitur-kind")
    for interpret in (relayed("orders"), inspected(inspector, "orders")):
        message = interpret(record(captured.content, headers_of(captured)))
        assert message is not None
        assert (message.stream, message.sequence, message.kind) == ("A-17", 3, kind)


@pytest.mark.parametrize(
    "stream",
    ["s" * 1000, "6B29FC40-CA47-1067-B31D-00DD010662DA", "{6b29fc40-ca47-1067-b31d-00dd010662da}"],
)
def test_a_relay_s_stream_is_the_key_as_it_is(stream: str) -> None:
    captured = Message("orders", stream, 3, None, b"body")
    message = relayed("orders")(record(b"body", headers_of(captured), stream.encode()))
    assert message is not None
    assert message.stream == stream


def test_a_relay_s_record_without_a_stream_or_sequence_is_malformed() -> None:
    headers = [("sequitur-sequence", b"3")]
    for of, said, reason in (
        (None, headers, "no key"),
        (b"\xff", headers, "not UTF-8"),
        (b"a", [], "no header 'sequitur-sequence'"),
        (b"a", [("sequitur-sequence", None)], "null"),
    ):
        with pytest.raises(Malformed, match=reason):
            relayed("orders")(record(b"", said, of))


class Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no words")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyError("order"),
        RecursionError(),
        MemoryError(),
        AssertionError(),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        Untold(),
    ],
)
def test_whatever_an_interpreter_raises_makes_that_record_malformed(error: BaseException) -> None:
    def inspector(message: Any) -> Any:
        if message.value == b"bad":
            raise error
        return "A-17", 1, None, None

    messages, malformed = list[Message](), list[tuple[str, bytes | None]]()
    records = [record(b"1"), record(b"bad"), record(b"2")]
    interpreted(inspected(inspector, "orders"), records, messages, malformed)
    assert [message.content for message in messages] == [b"1", b"2"]
    ((reason, value),) = malformed
    assert reason.startswith("orders/0 offset 5: ")
    assert value == b"bad"


def test_a_record_whose_headers_cannot_be_read_is_malformed() -> None:
    messages, malformed = list[Message](), list[tuple[str, bytes | None]]()
    torn = damaged(record(b"x", [("sequitur-sequence", b"1")]), "a header name is not UTF-8")
    interpreted(
        inspected(Headers(key(), "sequitur-sequence"), "orders"), [torn], messages, malformed
    )
    assert not messages
    assert "not UTF-8" in malformed[0][0]


def test_an_interpreter_that_makes_no_message_of_it_is_found_out() -> None:
    messages, malformed = list[Message](), list[tuple[str, bytes | None]]()
    wrong: list[dict[str, Any]] = [
        {"stream": None}, {"sequence": "3"}, {"sequence": True}, {"content": "text"}, {"kind": 7},
    ]  # fmt: skip
    good = Message("orders", "a", 1, None, b"")
    made = iter([replace(good, **each) for each in wrong])
    interpreted(lambda _: next(made), [record(b"")] * len(wrong), messages, malformed)
    assert (len(messages), len(malformed)) == (0, len(wrong))


def test_an_output_record_is_ordered_by_epoch_and_sequence() -> None:
    interpret = output_records("shop.board")
    body = {"view": "board", "stream": "A-17", "sequence": 4, "changes": []}
    first = interpret(record(orjson.dumps(body)))
    again = interpret(record(orjson.dumps({**body, "epoch": 2})))
    assert first is not None
    assert again is not None
    assert (first.stream, first.sequence, first.epoch) == ("A-17", 4, 0)
    assert again.epoch == 2
    assert again.content == orjson.dumps({**body, "epoch": 2})
    for wrong in (None, b"", b"[]", b"{}", orjson.dumps({**body, "sequence": "4"})):
        with pytest.raises(Malformed, match="no output record"):
            interpret(record(wrong))


def test_an_inbox_is_the_sink_of_an_output_topic(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/sink.sqlite")
    make_table(engine)
    inbox, interpret = Inbox(engine, "board", order="monotonic"), output_records("shop.board")

    def receive(*places: tuple[int, int]) -> int:
        records = [
            orjson.dumps({"stream": "a", "sequence": sequence, "epoch": epoch, "changes": []})
            for epoch, sequence in places
        ]
        found = [interpret(record(each)) for each in records]
        return inbox.receive(each for each in found if each is not None).stored

    # Not each event changes a row; a crash of a worker lets some come again.
    assert receive((0, 2), (0, 5), (0, 2), (0, 5), (0, 9)) == 3
    with engine.connect() as connection:
        for sequence in (2, 5, 9):
            with inbox.delivery(connection) as message:
                assert message is not None
                assert message.sequence == sequence
                write(connection, message)
    # The stream is built anew.
    assert receive((1, 1), (0, 10), (1, 3)) == 2
    assert done(engine) == ["a2", "a5", "a9"]
    engine.dispose()


class _Consumer:
    """Of partitions that begin where it is told."""

    def __init__(self, *begin: int) -> None:
        self.begin = {TopicPartition("orders", n): at for n, at in enumerate(begin)}
        self.sought: dict[int, int] = {}

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == list(self.begin)

    async def beginning_offsets(self, _: object) -> dict[TopicPartition, int]:
        return self.begin

    def seek(self, at: TopicPartition, offset: int) -> None:
        self.sought[at.partition] = offset


async def test_what_is_deleted_of_a_partition_that_was_added_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Inbox(open_engine(f"sqlite:///{tmp_path}/inbox.db"))
    feed = Feed(inbox, {"orders": relayed("orders")}, {})
    consumer = _Consumer(7, 0)

    async def partitions(_: Feed) -> list[TopicPartition]:
        return list(consumer.begin)

    monkeypatch.setattr(Feed, "_partitions", partitions)
    assert await feed._assign(consumer) == consumer.begin
    assert inbox.offsets() == {("orders", 0): 7, ("orders", 1): 0}
    assert caplog.messages == [], "it begins where the topic does"
    consumer = _Consumer(7, 0, 0, 4)
    for _ in range(2):
        await feed._assign(consumer)
        assert consumer.sought == {0: 7, 1: 0, 2: 0, 3: 4}
    (told,) = caplog.messages
    assert "orders/3 is at offset 0, but the topic begins at 4" in told


@pytest.mark.integration
async def test_a_partition_that_is_added_while_it_runs_is_read_from_its_first_message(
    broker: BrokerAddress,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sequitur.inbox.feed.LOOK", 300)
    kafka = {"bootstrap_servers": broker.address}
    inbox = Inbox(open_engine(f"sqlite:///{tmp_path}/inbox.db"))
    name, stopped = topic("orders", 1), asyncio.Event()
    feed = Feed(inbox, {name: relayed(name)}, kafka)
    running = asyncio.create_task(feed.run(stopped))
    try:
        await feed.ready.wait()
        admin = AIOKafkaAdminClient(**kafka)
        await admin.start()
        await admin.create_partitions({name: NewPartitions(2)})
        await admin.close()
        async with AIOKafkaProducer(**kafka) as producer:
            said = [("sequitur-sequence", b"1")]
            while len(await producer.partitions_for(name)) < 2:
                await producer.client.force_metadata_update()
            for n in range(2):
                await producer.send_and_wait(name, b"x", b"%d" % n, n, headers=said)
        await until(lambda: counts(inbox).messages == 2)
    finally:
        stopped.set()
        await running
    assert inbox.offsets() == {(name, 0): 1, (name, 1): 1}


@pytest.mark.integration
async def test_what_a_transaction_leaves_behind_its_last_message_is_no_lag(
    broker: BrokerAddress, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Its seconds grew as long as nothing came."""
    kafka = {"bootstrap_servers": broker.address}
    inbox = Inbox(open_engine(f"sqlite:///{tmp_path}/inbox.db"))
    name, stopped = topic("orders", 1), asyncio.Event()
    at = TopicPartition(name, 0)
    feed = Feed(inbox, {name: relayed(name)}, kafka)
    running = asyncio.create_task(feed.run(stopped))
    try:
        await feed.ready.wait()
        assert await feed.ends() == {at: 0}
        async with AIOKafkaProducer(**kafka, transactional_id=name) as producer:
            async with producer.transaction():
                await producer.send(name, b"x", b"a", headers=[("sequitur-sequence", b"1")])
            found: list[dict[TopicPartition, int]] = []
            async with asyncio.timeout(60):
                while not found or found[-1] != {at: 1}:
                    found.append(await feed.ends())
                    await asyncio.sleep(0.05)
        assert counts(inbox).messages == 1
        assert feed.positions == {at: 1}
    finally:
        stopped.set()
        await running


def test_the_gaps_behind_the_first_hundred_are_asked_for_as_well(tmp_path: Path) -> None:
    inbox = Inbox(open_engine(f"sqlite:///{tmp_path}/inbox.db"))
    streams = [f"s{number:03}" for number in range(250)]
    inbox.receive([Message("orders", stream, 2, None, b"x") for stream in streams])
    feed = Feed(inbox, {"orders": relayed("orders")}, {}, ask=1)
    assert [gap.stream for gap in feed._missing(0)] == streams[:100]
    assert [gap.stream for gap in feed._missing(0)] == streams[100:200]
    assert [gap.stream for gap in feed._missing(0)] == streams[200:]
    assert [gap.stream for gap in feed._missing(0)] == streams[:100], "and again"


def test_a_gap_is_not_asked_for_before_its_time_whatever_is_in_front_of_it(tmp_path: Path) -> None:
    inbox = Inbox(open_engine(f"sqlite:///{tmp_path}/inbox.db"))
    streams = [f"s{number:03}" for number in range(150)]
    inbox.receive([Message("orders", stream, 2, None, b"x") for stream in streams])
    feed = Feed(inbox, {"orders": relayed("orders")}, {}, ask=1)
    for _ in range(3):
        assert feed._missing(3600) == []
    assert len(feed._seen) == 150, "since when each is known is not forgotten from page to page"
    inbox.receive([Message("orders", stream, 1, None, b"x") for stream in streams[:140]])
    assert feed._missing(3600) == []
    assert {stream for _, stream, _ in feed._seen} == set(streams[140:])
