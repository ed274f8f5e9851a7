"""Reads a side topic: what was set aside, and why."""

from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition

from topology.diagnostics.explain.formatting import lately
from topology.diagnostics.side_topics import (
    ALL,
    SIDES,
    SideFilter,
    SideGroup,
    SideRecord,
    SideTally,
    grouped,
)
from topology.diagnostics.side_topics import side_record as read_record
from topology.faust.inspection.cannot_answer import CannotAnswer
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.kept_folds import KeptFolds, folds_of
from topology.faust.inspection.named import view_of

LIMIT = 50
"""Records that are listed unless told otherwise."""


@dataclass(frozen=True, slots=True)
class SideTopic:
    """What was found in a side topic.

    Attributes:
        side: which.
        now: the workers' clock, in milliseconds since 1970.
        count: how many records are meant.
        records: the last ones, the oldest first.
        groups: of all that are meant, the largest first.
        unseen: what was not looked at, in words.
    """

    side: str
    now: int
    count: int
    records: list[SideRecord]
    groups: list[SideGroup]
    unseen: list[str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "side": self.side,
            "now": self.now,
            "count": self.count,
            "records": [each.as_dict() for each in self.records],
            "groups": [each.as_dict() for each in self.groups],
            "unseen": self.unseen,
        }


def topic_of(app: Any, side: str) -> str:
    """The name of a side topic. Raises CannotAnswer."""
    if side not in SIDES:
        raise CannotAnswer(f"there is no side topic {side!r}; there are {', '.join(SIDES)}")
    return f"{app.engine.topology.name}.{side}"


async def side_topic(
    app: Any, side: str, choice: SideFilter = ALL, *, limit: int = LIMIT,
    scan: int | None = None,
) -> SideTopic:  # fmt: skip
    """List, count and group what a side topic has.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        side: "dead", "late", "malformed", "unknown" or "errors".
        choice: which records.
        limit: how many are listed, the last ones; all of them are counted and grouped.
        scan: offsets to read at the end of the topic; unless given, as many as take five seconds.

    Returns:
        What was found, and what was not looked at.

    Raises:
        KeyError: there is no such view.
        CannotAnswer: there is no such topic.
        TopicMissing: no worker of the topology has run yet.
    """
    topic = topic_of(app, side)
    if choice.view:
        view_of(app, choice.view)
    kept = folds_of(app)
    async with DurableState(app, scan=scan) as durable:
        if kept is not None and choice == ALL and limit <= 1:
            return await _gone_on_with(durable, kept, side, topic, limit)
        tail = await durable.end_of(topic, lambda each: choice.takes(read_record(side, each)))
        found = [read_record(side, each) for each in tail.records]
        unseen = [tail.cut] if tail.cut else []
        last = found[max(0, len(found) - limit) :]
        return SideTopic(side, durable.now, len(found), last, grouped(found), unseen)


async def _gone_on_with(
    durable: DurableState, kept: KeptFolds, side: str, topic: str, limit: int
) -> SideTopic:
    """As `side_topic`, of all records, from where the last look ended."""
    partition = TopicPartition(topic, 0)
    async with kept.reading[partition]:
        span, tally = (await durable.span([partition]))[partition], kept.sides.pop(side, None)
        if tally is None or not span.first <= tally.first or tally.end > span.end:
            tail, tally = await durable.end_of(topic), SideTally()
            tally.first = tally.end = span.end - tail.looked
            for record in tail.records:
                tally.add([read_record(side, record)])
                tally.end = record.offset + 1
        async for record in durable.records(partition, tally.end, span.end):
            tally.add([read_record(side, record)])
        tally.end = max(tally.end, span.end)  # more may have come while it was read
        kept.sides[side] = tally
    unseen = [lately(tally.end - tally.first, topic)] if tally.first > span.first else []
    last = tally.last[:limit]
    return SideTopic(side, durable.now, tally.count, last, tally.groups(), unseen)


async def side_record(app: Any, side: str, offset: int) -> SideRecord:
    """One record of a side topic.

    Args:
        app: what `compile` made.
        side: as of `side_topic`.
        offset: of the record.

    Raises:
        CannotAnswer: it is not there, or no longer.
        TopicMissing: no worker of the topology has run yet.
    """
    topic = topic_of(app, side)
    async with DurableState(app) as durable:
        partition = TopicPartition(topic, 0)
        span = (await durable.span([partition]))[partition]
        if span.first <= offset < span.end:
            async for record in durable.records(partition, offset, offset + 1):
                return read_record(side, record)
        raise CannotAnswer(
            f"{topic} has no record at offset {offset}; it has {span.first} to {span.end - 1}"
        )
