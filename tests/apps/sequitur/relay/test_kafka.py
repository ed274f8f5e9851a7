"""The relay to Kafka: in order per stream, in transactions, and fenced when it was replaced."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from sequitur.inbox.feed import Feed
from sequitur.inbox.interpret import inspected
from sequitur.relay.kafka_link import KafkaLink
from sequitur.relay.leadership import RelayConfig
from sequitur.relay.link import MissingRange, Superseded
from sequitur.relay.records import missing_of
from sequitur.relay.relay import Relay
from sequitur.relay.requests import requests
from soak.check import read
from stores.db.engines import open_engine
from stores.inbox.commands import counts
from stores.inbox.inbox import Inbox
from stores.locks.lease import Lease
from stores.message import Message
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft
from stores.outbox.retention import RetentionStore
from tests.apps.sequitur.relay.parts import until
from tests.contracts.inbox.parts import consume, make_table, named
from topology.engine.commands.command import decode_command
from topology.inspectors import Headers
from topology.inspectors.fields import key

pytestmark = pytest.mark.integration

PACE = RelayConfig(page=500, poll=0.1, ask=0.2, retry=0.1)
INSPECTOR = Headers(key(), "sequitur-sequence", "sequitur-kind")


@pytest.fixture
def source(database: str) -> Iterator[Engine]:
    engine = open_engine(database)
    MessageLog().create(engine)
    yield engine
    engine.dispose()


def append(engine: Engine, topic: str, first: int, last: int, streams: str = "ab") -> None:
    with engine.begin() as connection:
        Outbox(MessageLog()).capture_many(
            connection,
            [
                Draft(topic, stream, "Placed", f"{stream}{n}".encode())
                for n in range(first, last + 1)
                for stream in streams
            ],
        )


def rest(engine: Engine) -> int:
    with engine.connect() as connection:
        return len(MessageLog().read_after(connection, limit=100_000).messages)


def link(name: str, broker: Any, **more: Any) -> KafkaLink:
    return KafkaLink(name, {"bootstrap_servers": broker.address}, **more)


class Running:
    """A relay, a feed or the reading of requests, as tasks that end with the block."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def __aenter__(self) -> "Running":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stopped.set()
        done, pending = await asyncio.wait(self._tasks, timeout=60)
        for task in pending:
            task.cancel()
        for task in done:
            task.result()


async def test_from_a_log_over_kafka_into_an_inbox(
    source: Engine, broker: Any, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("orders", 3)
    append(source, name, 1, 300)
    target = open_engine(f"sqlite:///{tmp_path}/warehouse.sqlite")
    make_table(target)
    inbox = Inbox(target)
    relay = Relay(source, MessageLog(), link(name, broker), Lease(source, "r", "one"), config=PACE)
    feed = Feed(inbox, {name: inspected(INSPECTOR, name)}, {"bootstrap_servers": broker.address})
    async with Running() as running:
        running.start(relay.run(running.stopped))
        running.start(feed.run(running.stopped))
        await until(lambda: rest(source) == 0)
        append(source, name, 301, 310)
        await until(lambda: counts(inbox).messages == 620 and relay.moved.deleted == 620)
    offsets = inbox.offsets()
    assert sum(offsets.values()) >= 620
    # What was read is not read again, and if it were, it would be discarded.
    async with Running() as running:
        feed = Feed(
            inbox, {name: inspected(INSPECTOR, name)}, {"bootstrap_servers": broker.address}
        )
        running.start(feed.run(running.stopped))
        await asyncio.wait_for(feed.ready.wait(), 120)
    came = consume(inbox)
    for stream in "ab":
        assert [each for each in came if each[0] == stream] == named(stream, range(1, 311))
    assert inbox.offsets() == offsets
    target.dispose()


async def test_a_relay_that_was_replaced_cannot_write(
    broker: Any, topic: Callable[..., str]
) -> None:
    name = topic("orders", 1)
    old, new = link(name, broker), link(name, broker)

    def message(n: int) -> Message:
        return Message(name, "a", n, None, b"%d" % n, id=n)

    try:
        await old.open()
        await old.send([message(1)])
        await new.open()
        with pytest.raises(Superseded, match="fenced"):
            await old.send([message(2)])
        await new.send([message(2), message(3)])
    finally:
        await old.close()
        await new.close()
    found = [
        record.value() for record in await asyncio.to_thread(lambda: [*read(broker.address, name)])
    ]
    assert found == [b"1", b"2", b"3"]


async def test_relays_of_two_databases_with_one_name_do_not_fence_each_other(
    broker: Any, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("orders", 1)
    leases = [Lease(open_engine(f"sqlite:///{tmp_path}/{n}.sqlite"), "relay", n) for n in "ab"]
    links = [link("sequitur", broker) for _ in leases]
    try:
        for lease, each in zip(leases, links, strict=True):
            lease.make()
            await each.open(lease.identity())
        for n in (1, 2, 3):
            for each in links:
                await each.send([Message(name, "a", n, None, b"", id=n)])
    finally:
        for lease, each in zip(leases, links, strict=True):
            await each.close()
            lease.engine.dispose()


async def test_a_topic_that_is_not_there_holds_back_its_own_messages_alone(
    source: Engine, broker: Any, topic: Callable[..., str], create_topics: Any, unique: Any
) -> None:
    there, later = topic("orders", 1), unique("later")
    append(source, later, 1, 5, "x")
    append(source, there, 1, 5, "a")
    relay = Relay(source, MessageLog(), link(there, broker), Lease(source, "r", "one"), config=PACE)
    async with Running() as running:
        running.start(relay.run(running.stopped))
        await until(lambda: rest(source) == 5)
        append(source, later, 6, 9, "x")
        create_topics({later: 1})
        await until(lambda: rest(source) == 0)
    values = [
        record.value() for record in await asyncio.to_thread(lambda: [*read(broker.address, later)])
    ]
    assert values == [b"x%d" % n for n in range(1, 10)]


async def test_what_was_captured_long_ago_is_stamped_with_the_time_of_writing(
    broker: Any, topic: Callable[..., str]
) -> None:
    """Else Kafka deletes at once what waited for longer than its topic keeps records."""
    name, begun = topic("orders", 1), int(time.time() * 1000)
    one = link(name, broker)
    try:
        sent = await one.send(
            [
                Message(name, "a", 1, None, b"", id=1, captured_at=1.5),
                Message("..", "a", 1, None, b"", id=2, captured_at=1),
            ]
        )
    finally:
        await one.close()
    assert list(sent.topics) == [".."], "a name that no topic can have holds back itself alone"
    (record,) = await asyncio.to_thread(lambda: [*read(broker.address, name)])
    assert begun <= record.timestamp()[1] <= time.time() * 1000
    assert ("sequitur-captured-at", b"1500") in (record.headers() or [])


async def test_requests_are_answered_with_messages_and_with_what_is_void(
    source: Engine, broker: Any, topic: Callable[..., str], create_topics: Any
) -> None:
    name = topic("orders", 1)
    commands = f"{name}.board.commands"
    create_topics({f"{name}.resend": 1, f"{name}.void": 1, commands: 2})
    append(source, name, 1, 4, "a")
    with source.begin() as connection:
        MessageLog().declare_void(connection, name, "a", 3, 3, "for the test")
    relay = Relay(
        source, MessageLog(), link(name, broker, views=[f"{name}.board"]),
        Lease(source, "r", "one"), config=PACE, keep=600,
    )  # fmt: skip
    async with Running() as running:
        running.start(relay.run(running.stopped))
        await until(lambda: rest(source) == 0)
        view = MissingRange(name, "a", 2, 3, f"{name}.board", commands, 1)
        relay.missing([view, MissingRange(name, "a", 3, 3)])
        await until(lambda: relay.moved.sent == 4 and relay.moved.voids == 2)

    def values(of: str) -> list[Any]:
        return list(read(broker.address, of))

    sent = [record.value() for record in await asyncio.to_thread(values, name)]
    assert sent == [b"a1", b"a2", b"a4", b"a2"]
    (told,) = await asyncio.to_thread(values, commands)
    command = decode_command(told.value())
    assert (command.name, command.stream, command.sequence) == ("skip", "a", 3)
    assert told.partition() == 1
    (void,) = await asyncio.to_thread(values, f"{name}.void")
    assert dict(void.headers())["sequitur-sequence"] == b"3"


async def test_a_feed_asks_for_what_it_misses(
    source: Engine, broker: Any, topic: Callable[..., str], create_topics: Any, tmp_path: Path
) -> None:
    name, log = topic("orders", 1), MessageLog()
    create_topics({f"{name}.resend": 1, f"{name}.void": 1})
    append(source, name, 1, 5, "a")
    with source.begin() as connection:
        # The second was acknowledged and got lost since, the third is void.
        kept = RetentionStore(source, log, 600)
        kept.make(connection)
        second = [each.id for each in log.read_stream(connection, name, "a", 1, 1)]
        kept.keep(connection, second)
        log.delete(connection, second)
        log.declare_void(connection, name, "a", 3, 3, "for the test")
    target = open_engine(f"sqlite:///{tmp_path}/warehouse.sqlite")
    make_table(target)
    inbox, kafka = Inbox(target), {"bootstrap_servers": broker.address}
    lease = Lease(source, "r", "one")
    relay = Relay(source, log, link(name, broker), lease, config=PACE, keep=600)
    async with Running() as running:
        running.start(relay.run(running.stopped))
        feed = Feed(inbox, {name: inspected(INSPECTOR, name)}, kafka, ask=0.3)
        running.start(feed.run(running.stopped))
        reading = asyncio.create_task(requests([name], kafka, relay.missing))
        await until(lambda: counts(inbox).messages == 5 and counts(inbox).behind_gaps == 0)
        reading.cancel()
    assert consume(inbox) == ["a1", "a2", "a4", "a5"]
    target.dispose()


async def test_requests_come_by_their_topic(
    broker: Any, topic: Callable[..., str], create_topics: Any
) -> None:
    name = topic("orders", 1)
    create_topics({f"{name}.resend": 1})
    found: list[MissingRange] = []
    settings = {"bootstrap_servers": broker.address}
    reading = asyncio.create_task(requests([name], settings, found.extend))
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(**settings)
    await producer.start()
    try:
        # It reads from when it has connected on: who asks, asks again.
        while not found:
            await producer.send_and_wait(f"{name}.resend", b"nonsense")
            body = b'{"stream": "a", "first": 2, "last": 3}'
            await producer.send_and_wait(f"{name}.resend", body)
            await asyncio.sleep(0.2)
    finally:
        await producer.stop()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert set(found) == {MissingRange(name, "a", 2, 3)}


def test_what_is_no_request_is_refused() -> None:
    for wrong in (
        None,
        b"[1]",
        b'{"stream": "a"}',
        b'{"stream": "a", "first": 0, "last": 3}',
        b'{"stream": "a", "first": 4, "last": 3}',
        # The relay writes commands where views are told things, and nowhere else.
        b'{"stream": "a", "first": 1, "last": 1, "view": "v", "commands": "payments"}',
    ):
        with pytest.raises(ValueError, match="is"):
            missing_of("orders", wrong)
