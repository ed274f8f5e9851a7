"""Units of work through segments: consumed, routed, saved and published, every step synced."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from bench.routing.work import cascade
from stores.db.engines import open_engine
from stores.segments import (
    BatchLimits,
    ErrorsAfter,
    FileSegments,
    InboundMessage,
    Outbound,
    OutboundMessage,
    Pair,
    Publisher,
    SegmentConsumer,
    SegmentLedger,
    UnitIntake,
)
from stores.segments.transports.kafka import KafkaInbound, KafkaOutbound
from stores.segments.transports.rabbitmq import RabbitLogin, RabbitOutbound
from topology.model.ending import end_tasks
from topology.model.event import Record

OUTBOUNDS: dict[str, Callable[[str, str], Outbound]] = {
    "Kafka": lambda broker, name: KafkaOutbound({"bootstrap_servers": broker}, name),
    "RabbitMQ": lambda url, name: RabbitOutbound(RabbitLogin(url), name),
}
"""To what units go: (server, name) → transport."""


async def units_per_second(
    broker: str, prefix: str, outbound: Outbound, size: int, count: int, folder: Path
) -> float:
    """From the first of `count` units of `size` messages to the last one, in files and SQLite."""
    source, destination = f"{prefix}.in", f"{prefix}.out"
    rules = cascade(source, destination, 3)

    def route(m: InboundMessage) -> list[OutboundMessage]:
        made = rules.make(rules.route(Record(m.topic, m.partition, m.offset, m.key, m.value)))
        return [OutboundMessage("there", each.destination, each.content, m.key) for each in made]

    engine = open_engine(f"sqlite:///{folder}/ledger.db")
    ledger, store = SegmentLedger(engine), FileSegments(folder / "segments")
    ledger.create()
    inbound, errors = KafkaInbound(source, {"bootstrap_servers": broker}), ErrorsAfter("there")
    limits = BatchLimits(count=size, size=4_096 * size, seconds=10, idle=10)
    intake = UnitIntake(inbound, route, errors, ["there"], site="bench", limits=limits)
    consumer, pair = SegmentConsumer(intake, ledger, store), Pair(source, "there")
    publisher = Publisher(ledger, store, outbound, pair, errors, limits=limits)
    while not await consumer.step() or not await publisher.step():
        pass  # the first unit, with what is asked once
    began, done = time.monotonic(), publisher.counts["published"]
    running = [asyncio.create_task(each.run(pause=0.001)) for each in (consumer, publisher)]
    try:
        async with asyncio.timeout(120):
            while publisher.counts["published"] < size * count:
                await asyncio.sleep(0.01)
        return (size * count - done) / size / (time.monotonic() - began)
    finally:
        await end_tasks(*running)
        engine.dispose()
