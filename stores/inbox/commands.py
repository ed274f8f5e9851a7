"""What an operator asks of an inbox and tells it: gaps, parked streams, redrive, unpark."""

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, func, select, union, update

from stores.db.clock import Now
from stores.db.dialect import begin_writing
from stores.inbox.dead_messages import bury, dead_counts
from stores.inbox.inbox import Inbox
from stores.inbox.message import Gap, InboxError, ParkedStream, shown
from stores.inbox.tables import COMMANDS, DEAD, DELIVERIES, MESSAGES, OFFSETS, STREAMS
from topology.model.printable import printable

RECORDED = 10_000
"""Commands of an inbox that are on record, the last ones."""


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """How much there is in an inbox.

    Attributes:
        streams: that are known.
        messages: that are in the inbox.
        behind_gaps: of them, those that cannot be delivered yet.
        parked: streams that were set aside.
        dead: what was no message, and what streams went on without.
        dead_removed: of it, what is kept no longer.
    """

    streams: int
    messages: int
    behind_gaps: int
    parked: int
    dead: int
    dead_removed: int = 0


@dataclass(frozen=True, slots=True)
class InboxCommand:
    """What somebody told an inbox.

    Attributes:
        at: when (ms since 1970).
        command: `redrive` or `unpark`.
        topic: the stream's topic.
        stream: the stream's id.
        sequence: of the message that had failed.
        who: told it.
        why: the reason given.
    """

    at: int
    command: str
    topic: str
    stream: str
    sequence: int | None
    who: str
    why: str


def others(inbox: Inbox) -> list[str]:
    """Names of the inboxes beside one of which there is nothing, 20 at most; none if there is.

    Args:
        inbox: the one that was asked for.
    """
    names = [each.c.inbox for each in (STREAMS, OFFSETS, DEAD, COMMANDS)]
    mine = union(*(select(name).where(name == inbox.name) for name in names))
    every = union(*map(select, names)).order_by("inbox").limit(20)
    with inbox.engine.connect() as connection:
        if connection.execute(mine).first() is not None:
            return []
        return list(connection.execute(every).scalars())


def counts(inbox: Inbox) -> InboxCounts:
    """How much there is in an inbox.

    Args:
        inbox: the inbox.

    Raises:
        SQLAlchemyError: what the database raises.
    """
    columns = STREAMS.c
    mine = columns.inbox == inbox.name
    streams = select(
        func.count(), func.coalesce(func.sum(columns.waiting), 0), func.count(columns.parked)
    ).where(mine)
    messages = (
        select(func.count())
        .select_from(MESSAGES.join(STREAMS, columns.id == MESSAGES.c.stream_id))
        .where(mine)
    )
    with inbox.engine.connect() as connection:
        known, behind, parked = connection.execute(streams).one()
        return InboxCounts(
            known,
            connection.execute(messages).scalar_one(),
            int(behind),
            parked,
            *dead_counts(connection, inbox.name),
        )


def gaps(inbox: Inbox, limit: int = 100, skip: int = 0) -> list[Gap]:
    """The first gap of each stream that waits for something, the oldest gap first.

    Args:
        inbox: whose streams they are.
        limit: how many at most.
        skip: how many to leave out before them.
    """
    columns = STREAMS.c
    waiting = (
        select(columns.id, columns.topic, columns.stream, columns.received, columns.since)
        .where(columns.inbox == inbox.name, columns.waiting > 0)
        .order_by(columns.since, columns.id)
        .limit(limit)
        .offset(skip)
        .subquery()
    )
    found = (
        select(waiting.c.topic, waiting.c.stream, waiting.c.received, waiting.c.since)
        .add_columns(func.min(MESSAGES.c.sequence))
        .join(MESSAGES, MESSAGES.c.stream_id == waiting.c.id)
        .where(MESSAGES.c.sequence > waiting.c.received)
        .group_by(*waiting.c)
        .order_by(waiting.c.since, waiting.c.id)
    )
    with inbox.engine.connect() as connection:
        return [
            Gap(topic, stream, received + 1, lowest - 1, since)
            for topic, stream, received, since, lowest in connection.execute(found)
        ]


def parked(inbox: Inbox, limit: int = 100) -> list[ParkedStream]:
    """List the streams that were set aside, by id.

    Args:
        inbox: the inbox.
        limit: the most streams to list.
    """
    columns = STREAMS.c
    head = _head(columns.id).scalar_subquery()
    found = (
        select(columns.topic, columns.stream, head)
        .add_columns(DELIVERIES.c.attempts, columns.parked, func.count())
        .join(DELIVERIES, DELIVERIES.c.stream_id == columns.id)
        .join(MESSAGES, MESSAGES.c.stream_id == columns.id)
        .where(columns.inbox == inbox.name, columns.parked.is_not(None))
        .group_by(columns.id, columns.topic, columns.stream, DELIVERIES.c.attempts)
        .group_by(columns.parked)
        .order_by(columns.id)
        .limit(limit)
    )
    with inbox.engine.connect() as connection:
        return [ParkedStream(*row) for row in connection.execute(found)]


def commands(inbox: Inbox, limit: int = 100) -> list[InboxCommand]:
    """List what operators told an inbox, the last first.

    Args:
        inbox: the inbox.
        limit: the most to list.
    """
    columns = COMMANDS.c
    found = (
        select(*(columns[name] for name in InboxCommand.__slots__))
        .where(columns.inbox == inbox.name)
        .order_by(columns.id.desc())
        .limit(limit)
    )
    with inbox.engine.connect() as connection:
        return [InboxCommand(*row) for row in connection.execute(found)]


def redrive(inbox: Inbox, topic: str, stream: str, *, who: str = "", why: str = "") -> None:
    """Deliver a parked stream again, from the failed message on.

    Args:
        inbox: the inbox.
        topic: the stream's topic.
        stream: the stream's id.
        who: for the record.
        why: for the record.

    Raises:
        InboxError: no such stream is parked.
    """
    with inbox.engine.begin() as connection:
        of = _parked(connection, inbox, topic, stream)
        sequence = connection.execute(_head(of)).scalar_one_or_none()
        _release(connection, of)
        _record(connection, inbox, ("redrive", topic, stream, sequence, who, why))


def unpark(inbox: Inbox, topic: str, stream: str, *, who: str = "", why: str = "") -> int:
    """Go on with a parked stream without the failed message, which is kept among the dead.

    Args:
        inbox: the inbox.
        topic: the stream's topic.
        stream: the stream's id.
        who: for the record.
        why: for the record.

    Returns:
        The sequence of the failed message.

    Raises:
        InboxError: no such stream is parked.
    """
    with inbox.engine.begin() as connection:
        of = _parked(connection, inbox, topic, stream)
        columns = MESSAGES.c
        head = connection.execute(
            select(columns.epoch, columns.sequence, columns.kind, columns.content)
            .where(columns.stream_id == of)
            .order_by(columns.epoch, columns.sequence)
            .limit(1)
        ).one()
        epoch, sequence, kind, content = head
        reason = connection.execute(select(STREAMS.c.parked).where(STREAMS.c.id == of)).scalar_one()
        line = {
            "reason": reason,
            "topic": topic,
            "stream": stream,
            "sequence": sequence,
            "kind": None if kind is None else shown(str(kind)),
            "content": _bytes(content),
        }
        bury(connection, inbox.name, [line], inbox.receiver.keep)
        connection.execute(
            delete(MESSAGES).where(
                columns.stream_id == of, columns.epoch == epoch, columns.sequence == sequence
            )
        )
        connection.execute(
            update(DELIVERIES).where(DELIVERIES.c.stream_id == of).values(delivered=sequence)
        )
        _release(connection, of)
        _record(connection, inbox, ("unpark", topic, stream, int(sequence), who, why))
        return int(sequence)


def _record(
    connection: Connection, inbox: Inbox, said: tuple[str, str, str, int | None, str, str]
) -> None:
    """Note a command in its own transaction, and forget the oldest of too many."""
    command, topic, stream, sequence, who, why = said
    columns = COMMANDS.c
    connection.execute(
        COMMANDS.insert().values(
            inbox=inbox.name, at=int(time.time() * 1000), command=command, topic=topic,
            stream=stream, sequence=sequence, who=shown(who), why=shown(why),
        )
    )  # fmt: skip
    last = (
        select(columns.id).where(columns.inbox == inbox.name).order_by(columns.id.desc())
        .offset(RECORDED).limit(1)
    )  # fmt: skip
    for old in connection.execute(last).scalars():
        connection.execute(delete(COMMANDS).where(columns.inbox == inbox.name, columns.id <= old))


def _head(of: int | ColumnElement[int]) -> Select[Any]:
    """The sequence of a stream's first message."""
    messages = MESSAGES.alias().c
    found = select(messages.sequence).where(messages.stream_id == of)
    return found.order_by(messages.epoch, messages.sequence).limit(1)


def _bytes(content: object) -> bytes:
    """A content; of a row that was damaged, what stands there instead."""
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    return shown(repr(content)).encode()


def _parked(connection: Connection, inbox: Inbox, topic: str, stream: str) -> int:
    """The id of a parked stream, both of its lines locked, in the order that deliveries do."""
    begin_writing(connection)
    named = f"stream {printable(repr(stream))} of {printable(repr(topic))}"
    found: ColumnElement[bool] = (
        (STREAMS.c.inbox == inbox.name) & (STREAMS.c.topic == topic) & (STREAMS.c.stream == stream)
    )
    of = connection.execute(select(STREAMS.c.id).where(found)).scalar_one_or_none()
    if of is None:
        raise InboxError(f"inbox {inbox.name}: there is no {named}; see the parked ones")
    lock = select(DELIVERIES.c.stream_id).where(DELIVERIES.c.stream_id == of)
    connection.execute(lock.with_for_update()).all()
    line = select(STREAMS.c.parked).where(STREAMS.c.id == of).with_for_update()
    if connection.execute(line).scalar_one() is None:
        raise InboxError(f"inbox {inbox.name}: {named} is not parked")
    return int(of)


def _release(connection: Connection, of: int) -> None:
    connection.execute(update(DELIVERIES).where(DELIVERIES.c.stream_id == of).values(attempts=0))
    connection.execute(update(STREAMS).where(STREAMS.c.id == of).values(parked=None, due=Now()))
