"""Send malformed and unknown messages again, once an inspector understands them."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson
from aiokafka import AIOKafkaProducer, TopicPartition

from topology.declaration.source import Source
from topology.diagnostics.records import body_of
from topology.diagnostics.side_topics import ALL, SideFilter, SideRecord, side_record
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.side_topics import topic_of
from topology.faust.kafka.clients import connection
from topology.faust.operation.command_sender import who
from topology.model.counted import counted
from topology.model.ending import wait_for_stop
from topology.model.errors import Malformed
from topology.model.event import Record
from topology.model.origin_headers import REASON, original
from topology.model.printable import printable

REPLAY = "sequitur-replay"
"""The header by which others tell a message that was sent again."""
NAME = "replay"
_MOST = 100_000
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class SentAgain:
    """What was sent again, or would be.

    Attributes:
        side: "malformed" or "unknown".
        sent: those that an inspector understands now.
        still: those that none does; they stay.
        before: how many were sent again before.
        foreign: how many did not come from a source's topic.
        dry_run: whether nothing was sent.
        id: of the record in the audit topic.
    """

    side: str
    sent: list[SideRecord]
    still: list[SideRecord]
    before: int
    foreign: int
    dry_run: bool
    id: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "side": self.side,
            "dry_run": self.dry_run,
            "id": self.id,
            "sent": [each.offset for each in self.sent],
            "still": [each.offset for each in self.still],
            "before": self.before,
            "foreign": self.foreign,
        }

    def __str__(self) -> str:
        done = "would be sent again" if self.dry_run else "sent again"
        lines = [f"{counted(len(self.sent), f'{self.side} message')} {done}"]
        for each in self.sent[:_SHOWN]:
            topic, partition, offset = each.came
            stream = printable(each.stream or "", 60)
            lines.append(
                f"  {topic}/{partition} offset {offset}: stream {stream}, sequence {each.sequence}"
            )
        if len(self.sent) > _SHOWN:
            lines.append(f"  … and {counted(len(self.sent) - _SHOWN, 'more message')}")
        for number, words in (
            (len(self.still), f"still {self.side}: they stay"),
            (self.before, "sent again before"),
            (self.foreign, "not from a source's topic: they stay"),
        ):
            if number:
                lines.append(f"  {number} {words}")
        return "\n".join(lines)


async def replay_messages(
    app: Any, side: str, choice: SideFilter = ALL, *, dry_run: bool = False, why: str = ""
) -> SentAgain:  # fmt: skip
    """Send messages that were no events back to the topics that they came from, each once.

    Those alone are sent which the app's inspectors understand now. What is sent, and that it was,
    is one transaction.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        side: "malformed" or "unknown".
        choice: which of them.
        dry_run: say only what would be sent.
        why: for the record.

    Returns:
        What was sent, and what was not.

    Raises:
        CannotAnswer: there is no such topic.
        TopicMissing: no worker of the topology has run yet.
    """
    topology = app.engine.topology
    sources = {topic: each for each in topology.sources.values() for topic in each.topics}
    producer = AIOKafkaProducer(
        **connection(app), transactional_id=f"{app.conf.id}-replay-{side}", acks="all"
    )
    try:
        if not dry_run:
            await producer.start()  # another one that does the same at this moment is shut out
        async with DurableState(app) as durable:
            done = await _done(durable, side)
            partition = TopicPartition(topic_of(app, side), 0)
            span = (await durable.span([partition]))[partition]
            sent, still, before, foreign = list[SideRecord](), list[SideRecord](), 0, 0
            async for record in durable.records(partition, span.first, span.end):
                found = side_record(side, record)
                if not choice.takes(found):
                    continue
                if record.offset in done:
                    before += 1
                elif found.came[0] not in sources:
                    foreign += 1
                elif (known := _understood(sources[found.came[0]], found)) is None:
                    still.append(found)
                elif len(sent) < _MOST:
                    sent.append(known)
            made = SentAgain(side, sent, still, before, foreign, dry_run, uuid4().hex)
            if sent and not dry_run:
                await _send(producer, topology, made, durable.now, why)
        return made
    finally:
        await wait_for_stop(producer.stop())


async def _done(durable: DurableState, side: str) -> set[int]:
    """The offsets of what was sent again before, by the audit topic."""
    partition = TopicPartition(durable.topology.audit_topic, 0)
    span = (await durable.span([partition]))[partition]
    done = set[int]()
    async for record in durable.records(partition, span.first, span.end):
        body = body_of(record)
        if body.get("name") == f"{NAME} {side}":
            done.update(body["facts"]["offsets"])
    return done


def _understood(source: Source, found: SideRecord) -> SideRecord | None:
    """The record with the stream and the sequence that an inspector finds now."""
    try:
        event = source.inspect(_own(found))
    except Malformed:
        return None
    if event is None:
        return None
    held = {name: getattr(found, name) for name in ("offset", "when", "view", "reason", "came")}
    return SideRecord(**held, stream=event[0], sequence=event[1], record=found.record)


def _own(found: SideRecord) -> Record:
    """The message as it came, without the reason."""
    message = original(found.record)  # its key is still the record's
    headers = list(message.headers)
    if headers and headers[-1][0] == REASON:
        headers.pop()
    return Record(
        *(message.topic, message.partition, message.offset, found.record.key, message.value),
        headers,
        message.timestamp,
    )


async def _send(producer: Any, topology: Any, made: SentAgain, now: int, why: str) -> None:
    record = {
        "id": made.id,
        "name": f"{NAME} {made.side}",
        "view": "",
        "who": who(),
        "why": why,
        "given": now,
        "when": now,
        "done": True,
        "message": str(made).partition("\n")[0],
        "facts": {"offsets": [each.offset for each in made.sent]},
    }
    async with producer.transaction():
        for each in made.sent:
            message = _own(each)
            headers = [*message.headers, (REPLAY, made.id.encode())]
            await producer.send(
                message.topic, message.value, key=message.key, partition=message.partition,
                timestamp_ms=message.timestamp, headers=headers,
            )  # fmt: skip
        value = orjson.dumps(record)
        await producer.send(topology.audit_topic, value, key=made.side.encode(), partition=0)
