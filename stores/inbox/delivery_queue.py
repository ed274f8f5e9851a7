"""Delivering: a transaction in which messages leave the inbox together with what they cause."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Update,
    and_,
    any_,
    bindparam,
    case,
    cast,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)

from stores.db.clock import Now
from stores.db.dialect import begin_writing
from stores.inbox.message import shown
from stores.inbox.rows import BY_INDEX, Planning, remove
from stores.inbox.tables import DELIVERIES, MESSAGES, STREAMS
from stores.message import Message

LONGEST = 3600.0
"""Seconds, at most, until a message that failed comes again."""
VOIDS = 1_000
"""Void messages of a stream that are passed in one transaction."""

_IN_ORDER = or_(
    MESSAGES.c.epoch < STREAMS.c.epoch,
    and_(MESSAGES.c.epoch == STREAMS.c.epoch, MESSAGES.c.sequence <= STREAMS.c.received),
)
"""That a message is not behind a gap of its stream."""


@dataclass(slots=True)
class Delivery:
    """Messages that a transaction has taken out, in order per stream.

    ids: of all the streams that it has locked. heads: stream's id → its first message.
    """

    ids: list[int] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    heads: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeliveryQueue:
    """What delivering goes by; see `Inbox`. Each method runs in a transaction of the caller."""

    inbox: str
    attempts: int
    backoff: float

    def take(self, connection: Connection, limit: int, streams: int) -> Delivery | None:
        """Lock streams that nobody else delivers of, and take messages of them out.

        limit: the most messages. streams: the most streams. None if there is nothing to deliver;
        no messages if all that was found is void, or somebody else took it at this moment.
        """
        begin_writing(connection)
        ids, planning = self._lock(connection, streams)
        if not ids:
            return None
        found = Delivery(ids)
        # Who has waited longest comes first, whatever the others have: all get their turn.
        rows, damaged = self._heads(connection, ids[:1], limit)
        if len(ids) > 1 and len(rows) < limit:
            more, others = self._heads(connection, ids[1:], limit - len(rows))
            rows, damaged = rows + more, damaged | others
        for of, reason in damaged.items():
            values = {"due": None, "parked": shown(reason)}
            connection.execute(update(STREAMS).where(STREAMS.c.id == of).values(**values))
        if limit == 1 and rows and rows[0][1].void:
            # Void messages come in long runs: pass what leads, rather than one by one.
            rows = list(takewhile(_is_void, self._heads(connection, ids, VOIDS)[0]))
        for of, message in rows:
            found.heads.setdefault(of, (message.epoch, message.sequence))
            if not message.void:
                found.messages.append(message)
        if rows:
            remove(connection, [(of, m.epoch, m.sequence) for of, m in rows], planning)
        return found

    def recover(self, connection: Connection) -> int:
        """Bring forward what is due later than it can be, since the clock was set back meanwhile.

        What can be delivered is due from when it came, or is now, if others went first; only what
        has failed is due later, and not by more than its backoff. Returns how many streams that
        were; a transaction of its own.
        """
        last = min(self.backoff * 2.0 ** min(self.attempts - 1, 60), LONGEST)
        beyond = STREAMS.c.due > Now() + round(last * 1000)
        wrong = (
            select(STREAMS.c.id)
            .join(DELIVERIES, DELIVERIES.c.stream_id == STREAMS.c.id)
            .where(STREAMS.c.inbox == self.inbox, STREAMS.c.due > Now())
            .where(or_(DELIVERIES.c.attempts == 0, beyond))
            .limit(VOIDS)
            .with_for_update(of=STREAMS, skip_locked=True)
        )
        ids = connection.execute(wrong).scalars().all()
        if ids:
            begin_writing(connection)
            again = update(STREAMS).where(STREAMS.c.id.in_(ids), STREAMS.c.due > Now())
            connection.execute(again.values(due=Now()))
        return len(ids)

    def is_due(self, connection: Connection) -> bool:
        """Whether something may be there to deliver; locks nothing."""
        found = select(STREAMS.c.id).where(STREAMS.c.inbox == self.inbox, STREAMS.c.due <= Now())
        return connection.execute(found.limit(1)).first() is not None

    def _lock(self, connection: Connection, streams: int) -> tuple[list[int], Planning | None]:
        """The ids of streams, who waits longest first, and how PostgreSQL planned until now: the
        rest is by indices."""
        statement = _statements(connection.dialect.name).lock
        rows = connection.execute(statement, {"inbox": self.inbox, "streams": streams}).all()
        planning = (rows[0][1], rows[0][2]) if rows and len(rows[0]) > 1 else None
        return [row[0] for row in rows], planning

    def _heads(
        self, connection: Connection, ids: Sequence[int], limit: int
    ) -> tuple[list[tuple[int, Message]], dict[int, str]]:
        """The first messages of streams, asked anew: only now are they locked.

        And the streams at whose head is a row that is no message, with the reason; where there is
        one further behind, what is before it comes first.
        """
        statement = _statements(connection.dialect.name).heads
        rows: list[tuple[int, Message]] = []
        damaged: dict[int, str] = {}
        behind = 0
        for of, *values in connection.execute(statement, {"ids": ids, "messages": limit}):
            if of in damaged or of == behind:
                continue
            try:
                rows.append((of, _message(*values)))
            except (TypeError, ValueError) as error:
                behind = of
                if not rows or rows[-1][0] != of:
                    damaged[of] = f"its row in sequitur_inbox_messages is damaged: {error}"
        return rows, damaged

    def settle(self, connection: Connection, delivery: Delivery) -> None:
        """Say of the streams whether there is more to deliver; the last thing to do.

        The streams' lines are locked first: what is being received is seen, or sees this.
        """
        statements, ids = _statements(connection.dialect.name), {"ids": delivery.ids}
        connection.execute(statements.hold, ids).all()
        connection.execute(statements.settle, {**ids, "taken": list(delivery.heads)})

    def failed(self, connection: Connection, delivery: Delivery, reason: str) -> None:
        """Note that the one message of a delivery failed; the delivery is rolled back by now."""
        begin_writing(connection)
        ((of, head),) = delivery.heads.items()
        row = connection.execute(
            select(DELIVERIES.c.attempts).where(DELIVERIES.c.stream_id == of).with_for_update()
        ).scalar_one()
        if connection.execute(_still(of, head)).first() is None:
            return  # another consumer has delivered it meanwhile
        attempts = row + 1
        connection.execute(
            update(DELIVERIES).where(DELIVERIES.c.stream_id == of).values(attempts=attempts)
        )
        values: dict[str, Any] = {"due": None, "parked": shown(reason)}
        if attempts < self.attempts:
            wait = min(self.backoff * 2.0 ** min(attempts - 1, 60), LONGEST)
            values = {"due": Now() + round(wait * 1000)}
        stream = update(STREAMS).where(STREAMS.c.id == of, STREAMS.c.parked.is_(None))
        connection.execute(stream.values(**values))

    def later(self, connection: Connection, delivery: Delivery) -> None:
        """Let other streams go first, as a delivery failed by no fault of its one message.

        It waits for nobody: what somebody else has locked by now stays as it is.
        """
        begin_writing(connection)
        ((of, head),) = delivery.heads.items()
        free = select(STREAMS.c.id).where(STREAMS.c.id == of, STREAMS.c.due.is_not(None))
        free = free.where(exists(_still(of, head))).with_for_update(skip_locked=True)
        for id in connection.execute(free).scalars().all():
            again = update(STREAMS).where(STREAMS.c.id == id)
            connection.execute(again.values(due=Now() + round(min(self.backoff, LONGEST) * 1000)))


class _Statements(NamedTuple):
    """Built once: to build one takes longer than to run it."""

    lock: Select[Any]
    heads: Select[Any]
    hold: Select[Any]
    settle: Update


@cache
def _statements(dialect: str) -> _Statements:
    def among(column: ColumnElement[int], name: str = "ids") -> ColumnElement[bool]:
        if dialect == "postgresql":
            # An array, so that the statement is the same for any number.
            return column == any_(cast(bindparam(name), ARRAY(BigInteger)))
        return column.in_(bindparam(name, expanding=True))

    columns = MESSAGES.c
    lock: Select[Any] = (
        select(DELIVERIES.c.stream_id)
        .join(STREAMS, STREAMS.c.id == DELIVERIES.c.stream_id)
        .where(STREAMS.c.inbox == bindparam("inbox"), STREAMS.c.due <= Now())
        .order_by(STREAMS.c.due, STREAMS.c.id)
        .limit(bindparam("streams"))
        .with_for_update(of=DELIVERIES, skip_locked=True)
    )
    heads = (
        select(columns.stream_id, STREAMS.c.topic, STREAMS.c.stream, columns.sequence)
        .add_columns(columns.kind, columns.content, columns.headers)
        .add_columns(columns.epoch, columns.void)
        .join(STREAMS, STREAMS.c.id == columns.stream_id)
        .where(among(columns.stream_id), STREAMS.c.due <= Now(), _IN_ORDER)
        .order_by(columns.stream_id, columns.epoch, columns.sequence)
        .limit(bindparam("messages"))
    )
    hold: Select[Any] = (
        select(STREAMS.c.id).where(among(STREAMS.c.id)).order_by(STREAMS.c.id).with_for_update()
    )
    if dialect == "postgresql":
        names = ("enable_seqscan", "enable_bitmapscan")
        # The consumer's own statements, which come in between, are planned as they always are.
        lock = lock.add_columns(*(func.current_setting(name) for name in names))
        lock = lock.add_columns(literal_column(BY_INDEX))
        hold = hold.add_columns(literal_column(BY_INDEX))
    more = exists().where(columns.stream_id == STREAMS.c.id, _IN_ORDER)
    # What failed at another consumer meanwhile keeps its time.
    due = case(
        (~more, None),
        (STREAMS.c.due > Now(), STREAMS.c.due),
        # Nor does who was not served lose its place.
        (~among(STREAMS.c.id, "taken"), func.coalesce(STREAMS.c.due, Now())),
        else_=Now(),
    )
    settle = update(STREAMS).where(among(STREAMS.c.id), STREAMS.c.parked.is_(None))
    return _Statements(lock, heads, hold, settle.values(due=due))


def _still(of: int, head: tuple[int, int]) -> Select[tuple[int]]:
    """The first message of a delivery, if it is there still."""
    columns, (epoch, sequence) = MESSAGES.c, head
    found = select(columns.sequence).where(columns.stream_id == of)
    return found.where(columns.epoch == epoch, columns.sequence == sequence)


def _is_void(row: tuple[int, Message]) -> bool:
    return row[1].void


def _message(
    topic: str,
    stream: str,
    sequence: int,
    kind: str | None,
    content: bytes,
    headers: str | None,
    epoch: int,
    void: bool,
) -> Message:
    """The message of a row. Raises ValueError and TypeError for what SQLite may hold instead."""
    given = orjson.loads(headers) if headers else {}
    if given.__class__ is not dict or not all(value.__class__ is str for value in given.values()):
        raise ValueError("the headers are not text by name")
    if kind is not None and kind.__class__ is not str:
        raise ValueError("the kind is no text")
    if content.__class__ is not bytes:
        content = bytes(memoryview(content))
    return Message(topic, stream, sequence, kind, content, given, epoch, bool(void))
