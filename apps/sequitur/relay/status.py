"""How a relay is doing, as its log tells: who leads, and what of each topic waits, since when."""

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, Engine, func, inspect, select

from stores.db.clock import Now
from stores.locks.lease import LEASES
from stores.outbox import MessageLog
from stores.outbox.tables import MessageTables
from topology.model.counted import counted
from topology.model.printable import printable

NOBODY = "no relay has led yet"
TOPICS = 100
"""Topics that are shown, those with the most messages first."""


class Waiting(NamedTuple):
    """Messages of a topic that are in the log. oldest: seconds since the first was captured."""

    topic: str
    messages: int
    oldest: float


def now_of(connection: Connection) -> int:
    """The database's time (ms)."""
    return int(connection.execute(select(Now())).scalar_one())


def waiting(connection: Connection, log: MessageLog) -> list[Waiting]:
    """What waits, of the topics with the most messages."""
    messages = MessageTables(log.name, log.schema, connection.dialect.name).messages.c
    number = func.count()
    found = (
        select(messages.topic, number, func.min(messages.captured_at))
        .group_by(messages.topic)
        .order_by(number.desc(), messages.topic)
        .limit(TOPICS)
    )
    now = now_of(connection)
    return [
        Waiting(topic, count, max(0.0, now / 1000 - float(oldest)))
        for topic, count, oldest in connection.execute(found)
    ]


def status(engine: Engine, log: MessageLog, lease: str) -> Iterator[str]:
    """Lines. Raises SQLAlchemyError where the database or the log is not there."""
    has_leases = inspect(engine).has_table(LEASES.name)
    with engine.connect() as connection:
        now = now_of(connection)
        yield f"{lease}: {_leader(connection, lease, now) if has_leases else NOBODY}"
        found = waiting(connection, log)
        for topic, count, oldest in found:
            waits = counted(count, "message waits", "messages wait")
            yield f"topic {printable(topic)}: {waits}, the oldest for {oldest:.0f} s"
        if not found:
            yield "nothing waits"


def _leader(connection: Connection, lease: str, now: int) -> str:
    line = select(LEASES.c.holder, LEASES.c.epoch, LEASES.c.until).where(LEASES.c.name == lease)
    holder, epoch, until = connection.execute(line).one_or_none() or ("", 0, 0)
    if not epoch:
        return NOBODY
    does = "leads" if until >= now else "led, and no relay leads now"
    return f"{printable(holder)} {does}, in turn {epoch}"
