"""Kafka on both sides: START is in the transaction, and who was replaced publishes nothing."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient
from sqlalchemy import Engine

from stores.segments import (
    BatchLimits,
    DestinationDown,
    ErrorsAfter,
    FileSegments,
    InboundMessage,
    OutboundBatch,
    OutboundMessage,
    Pair,
    Place,
    Publisher,
    PublishRefused,
    SegmentConsumer,
    SegmentError,
    SegmentLedger,
    StaleOwner,
    UnitIntake,
)
from stores.segments.transports.kafka import _PAUSES, KafkaInbound, KafkaOutbound
from tests.conftest import BrokerAddress
from tests.stores.segments.fake_transports import LogInbound

pytestmark = pytest.mark.integration


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The topics of each request for metadata that clients make."""
    found: list[set[str]] = []
    update = AIOKafkaClient._metadata_update

    async def noted(client: AIOKafkaClient, metadata: Any, topics: set[str]) -> bool:
        found.append(set(topics))
        done: bool = await update(client, metadata, topics)
        return done

    monkeypatch.setattr(AIOKafkaClient, "_metadata_update", noted)
    return found


@pytest.fixture
def kafka(broker: BrokerAddress) -> dict[str, Any]:
    return {"bootstrap_servers": broker.address}


async def sent(kafka: dict[str, Any], topic: str, count: int, partitions: int) -> None:
    async with AIOKafkaProducer(**kafka) as producer:
        for n in range(count):
            await producer.send(topic, b"%d" % n, partition=n % partitions)


async def committed(kafka: dict[str, Any], topic: str, count: int) -> list[Any]:
    """At least `count` records, and what else comes soon."""
    found: list[Any] = []
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with AIOKafkaConsumer(topic, **kafka, **settings) as consumer:
        for _ in range(600):
            some = await consumer.getmany(timeout_ms=250)
            found += [record for records in some.values() for record in records]
            if not some and len(found) >= count:
                break
    return found


async def test_what_is_consumed_from_kafka_is_published_into_it_once_and_in_order(
    kafka: dict[str, Any], engine: Engine, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = topic("source", 2), topic("target", 3)
    await sent(kafka, source, 200, 2)
    ledger, store = SegmentLedger(engine), FileSegments(tmp_path / "segments")

    def route(message: InboundMessage) -> list[OutboundMessage]:
        headers = (("sequitur-id", b"of what it came of"), ("h", b"\xff"), ("h", b"again"))
        return [OutboundMessage("kafka", target, message.value, headers=headers)]

    def publisher() -> Publisher:
        outbound = KafkaOutbound(kafka, source)
        limits = BatchLimits(count=30)
        pair = Pair(source, "kafka")
        return Publisher(ledger, store, outbound, pair, ErrorsAfter("kafka"), limits=limits)

    inbound = KafkaInbound(source, kafka, f"{source}-group")
    limits = BatchLimits(count=25)
    intake = UnitIntake(inbound, route, ErrorsAfter("kafka"), ["kafka"], limits=limits, site="site")
    consumer = SegmentConsumer(intake, ledger, store)
    first = publisher()
    taken, published = await consumer.step(120), await first.step()
    # Published, and not heard of: SQL's START is behind what Kafka has.
    segment = ledger.chain(Pair(source, "kafka")).segments[0]
    assert first._owner is not None
    with engine.begin() as connection:
        rewound = ledger._of(Pair(source, "kafka")).values(start_offset=0)
        connection.execute(rewound)
    await first.stop()
    second = publisher()
    while taken < 200:
        taken += await consumer.step(120)
    while count := await second.step():
        published += count
    assert segment.start > 0
    assert published == 200
    records = await committed(kafka, target, 200)
    assert len(records) == 200
    for partition in (0, 1):
        values = [
            (record.partition, int(record.value))
            for record in records
            if int(record.value) % 2 == partition
        ]
        assert len({where for where, _ in values}) == 1, "without a key it stays in one partition"
        assert [value for _, value in values] == list(range(partition, 200, 2))
    ids = {dict(record.headers)["sequitur-id"].decode() for record in records}
    assert {record.headers[:2] for record in records} == {(("h", b"\xff"), ("h", b"again"))}
    assert ids == {f"site/{source}/{p}/{n}/0" for p in (0, 1) for n in range(100)}
    assert ledger.positions(source) == {0: 100, 1: 100}
    await second.stop()
    await consumer.stop()


async def test_who_was_replaced_publishes_nothing(
    kafka: dict[str, Any], topic: Callable[..., str], asked: list[set[str]]
) -> None:
    target, router = topic("target"), topic("router")
    pair = Pair("orders", "kafka")

    def batch(text: bytes, behind: int) -> OutboundBatch:
        message = OutboundMessage("kafka", target, text, id=f"x/{behind}/0")
        return OutboundBatch(pair, (message,), Place(1, behind))

    old, new = KafkaOutbound(kafka, router), KafkaOutbound(kafka, router)
    assert await old.start(pair) is None
    await old.publish(batch(b"first", 10))
    assert await new.start(pair) == Place(1, 10)
    with pytest.raises((StaleOwner, DestinationDown)):
        await old.publish(batch(b"of a zombie", 20))
    await old.stop()
    await new.publish(batch(b"second", 30))
    assert [each.value for each in await committed(kafka, target, 2)] == [b"first", b"second"]
    large = OutboundMessage("kafka", target, b"x" * 2_000_000, id="x/3/0")
    good = batch(b"beside it", 40).messages
    with pytest.raises(DestinationDown):  # which one it is, is known the second time
        await new.publish(OutboundBatch(pair, (*good, large), Place(1, 50)))
    await new.stop()
    await new.start(pair)
    with pytest.raises(PublishRefused) as refused:
        await new.publish(OutboundBatch(pair, (*good, large), Place(1, 50)))
    assert refused.value.index == 1
    nowhere = OutboundMessage("kafka", f"{target}-absent", b"x", id="x/4/0")
    with pytest.raises(PublishRefused, match="there is no topic"):
        await new.publish(OutboundBatch(pair, (*good, nowhere), Place(1, 50)))
    assert await new.partition_numbers(f"{target}-absent") == ()
    looks = 2 * (1 + len(_PAUSES))
    # What else a client asks meanwhile names the topic, too.
    assert looks <= sum(f"{target}-absent" in topics for topics in asked) < 2 * looks
    await new._producer.client.force_metadata_update()  # type: ignore[union-attr]
    assert f"{target}-absent" not in asked[-1], "it is not asked for ever after"
    await new.publish(batch(b"third", 50))
    found = [each.value for each in await committed(kafka, target, 3)]
    assert found == [b"first", b"second", b"third"], "nothing of a refused batch is there"
    await new.stop()


async def test_another_topic_of_the_name_is_not_taken_for_the_one_that_was_consumed(
    kafka: dict[str, Any], topic: Callable[..., str]
) -> None:
    source = topic("source")
    await sent(kafka, source, 3, 1)
    inbound = KafkaInbound(source, kafka, f"{source}-group")
    with pytest.raises(SegmentError, match="another topic of that name"):
        await inbound.start({0: 4})
    await inbound.stop()
    await inbound.start({0: 2})
    found: list[InboundMessage] = []
    while not found:
        found += await inbound.poll(10, 0.25)
    assert [(each.value, each.offset, each.behind) for each in found] == [(b"2", 2, 3)]
    await asyncio.wait_for(inbound.acknowledge({0: 3}), 120)
    await inbound.stop()


async def test_a_topic_that_was_made_again_is_noticed_and_a_deletion_comes_through(
    kafka: dict[str, Any], engine: Engine, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = topic("source"), topic("target")
    async with AIOKafkaProducer(**kafka) as producer:
        await producer.send_and_wait(source, None, b"k")
    ledger, store = SegmentLedger(engine), FileSegments(tmp_path / "segments")

    def route(message: InboundMessage) -> list[OutboundMessage]:
        return [OutboundMessage("kafka", target, message.value, message.key)]

    def consumer() -> SegmentConsumer:
        inbound, errors = KafkaInbound(source, kafka, f"{source}-group"), ErrorsAfter("kafka")
        intake = UnitIntake(inbound, route, errors, ["kafka"], site="site")
        return SegmentConsumer(intake, ledger, store)

    first = consumer()
    assert await first.step(120) == 1
    await first.stop()
    pair = Pair(source, "kafka")
    publisher = Publisher(ledger, store, KafkaOutbound(kafka, source), pair, ErrorsAfter("kafka"))
    assert await publisher.step() == 1
    await publisher.stop()
    [record] = await committed(kafka, target, 1)
    assert (record.key, record.value) == (b"k", None)
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    await admin.delete_topics([source])
    for _ in range(600):
        made = await admin.create_topics([NewTopic(source, 1, 1)])
        if not made.topic_errors[0][1]:
            break
        await asyncio.sleep(0.1)
    await admin.close()
    await sent(kafka, source, 20, 1)
    again = consumer()
    with pytest.raises(SegmentError, match="was deleted and made again"):
        await again.step(120)
    assert ledger.positions(source) == {0: 1}
    await again.stop()


@pytest.mark.parametrize(
    ("config", "bad"),
    [
        ({"max.message.bytes": "1000"}, (b"k", 2_000)),
        ({"cleanup.policy": "compact"}, (None, 401)),
    ],
    ids=["too large", "without a key"],
)
async def test_what_a_topic_refuses_goes_to_errors_and_the_rest_of_its_batch_goes_on(
    kafka: dict[str, Any],
    engine: Engine,
    topic: Callable[..., str],
    tmp_path: Path,
    config: dict[str, str],
    bad: tuple[bytes | None, int],
) -> None:
    source, errors, target = topic("source"), topic("errors"), f"{topic('target')}-small"
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    await admin.create_topics([NewTopic(target, 1, 1, topic_configs=config)])
    await admin.close()
    ledger, store, inbound = SegmentLedger(engine), FileSegments(tmp_path), LogInbound(source)
    for size in (400, 401, 402, bad[1], 403):
        inbound.add(0, b"x" * size)

    def route(message: InboundMessage) -> list[OutboundMessage]:
        key = bad[0] if message.offset == 3 else b"k"
        return [OutboundMessage("kafka", target, message.value, key)]

    failures, pair = ErrorsAfter("kafka", errors, attempts=2), Pair(source, "kafka")
    intake = UnitIntake(inbound, route, failures, ["kafka"], site="site")
    assert await SegmentConsumer(intake, ledger, store).step() == 5
    publisher = Publisher(ledger, store, KafkaOutbound(kafka, source), pair, failures)
    for _ in range(8):
        try:
            if await publisher.step():
                break
        except DestinationDown:
            continue
    await publisher.stop()
    assert [len(each.value) for each in await committed(kafka, target, 4)] == [400, 401, 402, 403]
    assert [len(each.value) for each in await committed(kafka, errors, 1)] == [bad[1]]


async def test_a_topic_that_takes_large_messages_gets_them(
    kafka: dict[str, Any], topic: Callable[..., str]
) -> None:
    target = f"{topic('target')}-large"
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    config = {"max.message.bytes": "10000000"}
    await admin.create_topics([NewTopic(target, 1, 1, topic_configs=config)])
    await admin.close()
    outbound, pair = KafkaOutbound(kafka, target), Pair("in", "kafka")
    await outbound.start(pair)
    large = OutboundMessage("kafka", target, bytes(3_000_000), b"k", id="1/0/0")
    await outbound.publish(OutboundBatch(pair, (large,), Place(1, 10)))
    await outbound.stop()
    assert [len(each.value) for each in await committed(kafka, target, 1)] == [3_000_000]
