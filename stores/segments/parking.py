"""Streams that are set aside: a message that failed, and all later ones.

They are rows in SQL, in the order in which they came, durable with the positions behind them. When
a stream is let go, they go on in order, before whatever comes meanwhile. `PARKED` has what could
not be routed, of an inbound topic; `REFUSED` what a destination refused, of a pair.
"""

from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    select,
    update,
)

from stores.db.advisory_locks import AdvisoryLock
from stores.db.dialect import begin_writing
from stores.db.missing_tables import create_missing
from stores.segments.message import InboundMessage, OutboundMessage
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
REFUSED = Table(
    "sequitur_parked_refusals",
    PARKED.metadata,
    Column("router", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("transport", Text, primary_key=True),
    Column("segment", BigInteger, primary_key=True, autoincrement=False),
    Column("behind", BigInteger, primary_key=True, autoincrement=False),
    Column("partition", Integer, nullable=False),
    Column("stream", Text, nullable=False),
    Column("message", LargeBinary, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text),
    Column("release", Text),
    Column("went_segment", BigInteger),
    Column("went_behind", BigInteger),
)
"""segment, behind: the place behind it in its segment. reason: of what was refused, and of what is
the first now. release: as in `PARKED`. went: the place behind the record with which it goes out."""
_PAIR = ("router", "topic", "transport", "partition", "stream")
Index("sequitur_refused_streams", *(REFUSED.c[n] for n in _PAIR))
RETRY, WITHOUT = "retry", "without"
MOST = 256_000_000
"""Bytes of a topic, or of a pair, that are parked, at most."""
BEHIND = "it is behind a parked message of its stream, and there is no room to park it"
_LONG, _REASON = 200, 4_000


def stream_of(message: InboundMessage) -> str:
    """By what a message is parked with others: its stream, else its key, else its partition."""
    if message.stream is None and message.key is None:
        return "-"
    text = _said(message)
    return f"={text}" if _is_short(text) else _digest(text)


def stream_at(message: OutboundMessage) -> tuple[int, str]:
    """By what a message that was refused is parked: its partition, and its stream at its
    destination; of one without a stream and a key, all that came of its partition."""
    parts = message.id.split("/")  # as `identify` makes them
    known = len(parts) == 5 and parts[0] != "stream" and parts[2].isdecimal()
    where = message.destination.replace("%", "%25").replace("=", "%3D")
    nobody = message.stream is None and message.key is None
    text = f"{where}-" if nobody else f"{where}={_said(message)}"
    return int(parts[2]) if known else 0, text if _is_short(text) else _digest(text)


@dataclass(frozen=True, slots=True)
class ParkedUnits:
    """A stream that is parked.

    Attributes:
        topic: the source.
        partition: of the source.
        stream: as `stream_of` names it.
        since: when what failed was parked last, in milliseconds since 1970.
        position: of what failed; of what was refused, in its segment.
        waiting: how many messages are parked, that one included.
        reason: why it failed.
        transport: whose destination refused it; "": it could not be routed.
    """

    topic: str
    partition: int
    stream: str
    since: int
    position: int
    waiting: int
    reason: str
    transport: str = ""


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
        found: list[ParkedUnits] = []
        with self.engine.connect() as connection:
            for table, *places in (
                (PARKED, PARKED.c.number, PARKED.c.position),
                (REFUSED, REFUSED.c.segment, REFUSED.c.behind),
            ):
                of = [table.c[name] for name in _PAIR if name in table.c]
                mine = table.c.router == self._router
                sizes = select(*of, func.count()).where(mine).group_by(*of)
                waiting = {row[:-1]: row[-1] for row in connection.execute(sizes)}
                heads = select(*of, table.c.at, table.c.reason, places[-1]).order_by(*places)
                heads = heads.where(mine, table.c.reason.is_not(None))
                for *key, at, reason, position in connection.execute(heads):
                    if count := waiting.pop(tuple(key), 0):  # else it is not its stream's first
                        more = at, position, count, reason, *key[2:-2]
                        found.append(ParkedUnits(key[1], *key[-2:], *more))
        return sorted(found, key=lambda each: each.since)

    def let_go(self, parked: ParkedUnits, order: str, who: str) -> None:
        """Have the owner of its topic route a stream again, or publish it.

        Args:
            parked: the stream.
            order: RETRY, or WITHOUT for what failed to go to errors.
            who: says so, and why.
        """
        of = {"router": self._router} | {n: getattr(parked, n) for n in _PAIR[1:]}
        if parked.transport:
            line = update(REFUSED).filter_by(**of, behind=parked.position)
            line = line.where(REFUSED.c.reason.is_not(None))
        else:
            del of["transport"]
            line = update(PARKED).filter_by(**of, position=parked.position)
            line = line.where(PARKED.c.reason.is_not(None))
        with self.engine.begin() as connection:
            begin_writing(connection)
            connection.execute(line.values(release=f"{order} {printable(who, 1_000)}"))

    def mine(self, topic: str, transport: str | None = None) -> dict[str, str]:
        """What rows of a topic, or of a pair, have."""
        of = {"router": self._router, "topic": topic}
        return of if transport is None else of | {"transport": transport}


def _said(message: InboundMessage | OutboundMessage) -> str:
    if message.stream is not None:
        return message.stream
    return (message.key or b"").decode("utf-8", "backslashreplace")


def _is_short(text: str) -> bool:
    return len(text) <= _LONG and "\0" not in text and _is_text(text)


def _digest(text: str) -> str:
    return f"#{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(reason: str | None) -> str | None:
    """A reason as it is kept."""
    return None if reason is None else (printable(reason, _REASON) or "?")
