"""How a relay is doing, as its log tells: who leads, and what of each topic waits, since when."""

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, Engine, func, inspect, select

from stores.db.clock import Now
from stores.locks.lease import LEASES, PLAUSIBLE
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


def waiting(connection: Connection, log: MessageLog, topics: int = TOPICS) -> list[Waiting]:
    """What waits, of the topics with the most messages."""
    messages = MessageTables(log.name, log.schema, connection.dialect.name).messages.c
    number = func.count()
    found = (
        select(messages.topic, number, func.min(messages.captured_at))
        .group_by(messages.topic)
        .order_by(number.desc(), messages.topic)
        .limit(topics)
    )
    now = now_of(connection)
    return [
        Waiting(topic, count, max(0.0, now / 1000 - float(oldest)))
        for topic, count, oldest in connection.execute(found)
    ]


@dataclass(frozen=True, slots=True)
class Status:
    """lines: to show. well: whether a relay leads; or none has yet, and nothing waits for one."""

    lines: list[str]
    well: bool


def status(engine: Engine, log: MessageLog, lease: str, seconds: float = 0.0) -> Status:
    """How it is now. Raises SQLAlchemyError where the database or the log is not there."""
    has_leases = inspect(engine).has_table(LEASES.name)
    with engine.connect() as connection:
        leader, leads = _leader(connection, lease, seconds) if has_leases else (NOBODY, False)
        found = waiting(connection, log, TOPICS + 1)
    lines = [f"{lease}: {leader}"]
    for topic, count, oldest in found[:TOPICS]:
        waits = counted(count, "message waits", "messages wait")
        lines.append(f"topic {printable(topic)}: {waits}, the oldest for {oldest:.0f} s")
    if found[TOPICS:]:
        lines.append("and more topics, with no more messages each")
    if not found:
        lines.append("nothing waits")
    return Status(lines, leads or (leader == NOBODY and not found))


def _leader(connection: Connection, lease: str, seconds: float) -> tuple[str, bool]:
    """Who it is, in words, and whether that one leads now. seconds: for which leases are taken."""
    line = select(LEASES.c.holder, LEASES.c.epoch, LEASES.c.until).where(LEASES.c.name == lease)
    holder, epoch, until = connection.execute(line).one_or_none() or ("", 0, 0)
    if not epoch:
        return NOBODY, False
    # One that says more was written before the clock was set back, maybe by somebody who is gone.
    left = until - now_of(connection)
    leads = 0 <= left <= max(PLAUSIBLE, 4 * seconds) * 1000
    does = "leads" if leads else "led, and no relay leads now"
    return f"{printable(holder)} {does}, in turn {epoch}", leads
