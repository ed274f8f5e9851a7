"""Streams of an inbound topic that are set aside: a message that failed, and all later ones.

They are rows in SQL, in the order in which they came, durable with the positions behind them. When
a stream is let go, they are routed again, in order, before whatever comes meanwhile.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    func,
    select,
    update,
)

from stores.db.advisory_locks import AdvisoryLock
from stores.db.dialect import begin_writing
from stores.db.missing_tables import create_missing
from stores.segments.message import InboundMessage
from topology.model.printable import printable

PARKED = Table(
    "sequitur_parked_messages",
    MetaData(),
    Column("router", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("partition", Integer, nullable=False),
    Column("stream", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("replayable", Integer, nullable=False),
    Column("message", LargeBinary, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text),
    Column("release", Text),
)
"""reason: of what failed, NULL of what is behind it. release: RETRY or WITHOUT, and who says so."""
Index("sequitur_parked_streams", *(PARKED.c[n] for n in ("router", "topic", "partition", "stream")))
RETRY, WITHOUT = "retry", "without"
_LONG = 200


def stream_of(message: InboundMessage) -> str:
    """By what a message is parked with others: its stream, else its key, else its partition."""
    if message.stream is None and message.key is None:
        return "-"
    text = message.stream
    if text is None:
        text = (message.key or b"").decode("utf-8", "backslashreplace")
    long = len(text) > _LONG or "\0" in text or not _is_text(text)
    return f"#{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}" if long else f"={text}"


@dataclass(frozen=True, slots=True)
class ParkedUnits:
    """A stream that is parked.

    Attributes:
        topic: the source.
        partition: of the source.
        stream: as `stream_of` names it.
        since: when what failed was parked last, in milliseconds since 1970.
        position: of what failed.
        waiting: how many messages are parked, that one included.
        reason: why it failed.
    """

    topic: str
    partition: int
    stream: str
    since: int
    position: int
    waiting: int
    reason: str


class Parking:
    """What is parked of a router's topics.

    Args:
        engine: of SQLite or PostgreSQL, from `stores.db.engines`.
        router: whose.
    """

    def __init__(self, engine: Engine, router: str = "router") -> None:
        self.engine, self._router = engine, router

    def create(self) -> None:
        """Make the table if it is not there."""
        with self.engine.begin() as connection:
            begin_writing(connection)
            create_missing(connection, PARKED.metadata, AdvisoryLock.SEGMENTS)

    def streams(self) -> list[ParkedUnits]:
        """List what is parked, the oldest first."""
        of, keys = PARKED.c, (PARKED.c.topic, PARKED.c.partition, PARKED.c.stream)
        sizes = self._mine(*keys, func.count()).group_by(*keys)
        heads = self._mine(*keys, of.at, of.position, of.reason).where(of.reason.is_not(None))
        with self.engine.connect() as connection:
            waiting = {tuple(row[:3]): row[3] for row in connection.execute(sizes)}
            rows = connection.execute(heads).all()
        found = [
            ParkedUnits(
                *(row.topic, row.partition, row.stream, row.at, row.position),
                waiting.get((row.topic, row.partition, row.stream), 0),
                row.reason,
            )
            for row in rows
        ]
        return sorted(found, key=lambda each: each.since)

    def let_go(self, parked: ParkedUnits, order: str, who: str) -> None:
        """Have the owner of its topic route a stream again.

        Args:
            parked: the stream.
            order: RETRY, or WITHOUT for what failed to go to errors.
            who: says so, and why.
        """
        at = ("topic", "partition", "stream", "position")
        head = {name: getattr(parked, name) for name in at}
        with self.engine.begin() as connection:
            begin_writing(connection)
            line = update(PARKED).filter_by(router=self._router, **head)
            line = line.where(PARKED.c.reason.is_not(None))
            connection.execute(line.values(release=f"{order} {printable(who, 1_000)}"))

    def mine(self, topic: str) -> dict[str, str]:
        """What rows of a topic have."""
        return {"router": self._router, "topic": topic}

    def _mine(self, *columns: ColumnElement[Any]) -> Select[Any]:
        return select(*columns).where(PARKED.c.router == self._router)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
