"""Send malformed and unknown messages again, once an inspector understands them."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson
from aiokafka import TopicPartition

from topology.declaration.source import Source
from topology.diagnostics.records import body_of
from topology.diagnostics.side_topics import ALL, SideFilter, SideRecord, side_record
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.side_topics import topic_of
from topology.faust.operation.command_sender import who
from topology.faust.operation.recorded_sends import RecordedSends, in_parts
from topology.model.counted import counted
from topology.model.errors import Malformed
from topology.model.event import Record
from topology.model.origin_headers import REASON, original
from topology.model.printable import printable

REPLAY = "sequitur-replay"
"""The header by which others tell a message that was sent again."""
NAME = "replay"
_MOST = 100_000
"""Messages that are sent at a time, as they are in memory meanwhile."""
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
        left: how many more of them an inspector understands now: they are for the next time.
        id: of its records in the audit topic.
    """

    side: str
    sent: list[SideRecord]
    still: list[SideRecord]
    before: int
    foreign: int
    dry_run: bool
    left: int = 0
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
            "left": self.left,
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
            (self.left, "more to send: give the command again"),
        ):
            if number:
                lines.append(f"  {number} {words}")
        return "\n".join(lines)


async def replay_messages(
    app: Any, side: str, choice: SideFilter = ALL, *, dry_run: bool = False, why: str = ""
) -> SentAgain:  # fmt: skip
    """Send messages that were no events back to the topics that they came from, each once.

    Those alone are sent which the app's inspectors understand now. What is sent, and that it was,
    is one transaction, or several of 10,000 messages.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        side: "malformed" or "unknown".
        choice: which of them.
        dry_run: say only what would be sent.
        why: for the record.

    Returns:
        What was sent, and what was not.

    Raises:
        CannotAnswer: there is no such topic, or the broker does not take them.
        TopicMissing: no worker of the topology has run yet.
    """
    topology = app.engine.topology
    sources = {topic: each for each in topology.sources.values() for topic in each.topics}
    async with AsyncExitStack() as stack:
        sends: RecordedSends | None = None
        if not dry_run:  # another one that does the same at this moment is shut out
            sends = await stack.enter_async_context(RecordedSends(app, f"{NAME}-{side}"))
        durable = await stack.enter_async_context(DurableState(app))
        done = await _done(durable, side)
        partition = TopicPartition(topic_of(app, side), 0)
        span = (await durable.span([partition]))[partition]
        sent, still, before, foreign, left = list[SideRecord](), list[SideRecord](), 0, 0, 0
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
            else:
                left += 1
        made = SentAgain(side, sent, still, before, foreign, dry_run, left, uuid4().hex)
        if sent and sends is not None:
            await _send(sends, topology.audit_topic, made, durable.now, why)
    return made


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


async def _send(
    sends: RecordedSends, audit_topic: str, made: SentAgain, now: int, why: str
) -> None:
    record = {
        "id": made.id,
        "name": f"{NAME} {made.side}",
        "view": "",
        "who": who(),
        "why": why,
        "given": now,
        "when": now,
        "done": True,
    }
    for end, part in in_parts(made.sent):
        every = counted(len(made.sent), f"{made.side} message")
        record["message"] = f"{end:,} of {every} sent again"
        record["facts"] = {"offsets": [each.offset for each in part]}
        told = Record(audit_topic, 0, 0, made.side.encode(), orjson.dumps(record), (), now)
        await sends.send([*(_again(each, made.id) for each in part), told])


def _again(found: SideRecord, id: str) -> Record:
    message = _own(found)
    message.headers = [*message.headers, (REPLAY, id.encode())]
    return message
