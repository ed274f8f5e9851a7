"""How a relay is doing, as its log tells: who leads, and what of each topic waits, since when."""

from collections.abc import Iterator

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


def status(engine: Engine, log: MessageLog, lease: str) -> Iterator[str]:
    """Lines. Raises SQLAlchemyError where the database or the log is not there."""
    messages = MessageTables(log.name, log.schema, engine.dialect.name).messages.c
    number = func.count()
    waiting = (
        select(messages.topic, number, func.min(messages.captured_at))
        .group_by(messages.topic)
        .order_by(number.desc(), messages.topic)
        .limit(TOPICS)
    )
    has_leases = inspect(engine).has_table(LEASES.name)
    with engine.connect() as connection:
        now = connection.execute(select(Now())).scalar_one()
        yield f"{lease}: {_leader(connection, lease, now) if has_leases else NOBODY}"
        found = connection.execute(waiting).all()
        for topic, count, oldest in found:
            age = max(0.0, now / 1000 - float(oldest))
            waits = counted(count, "message waits", "messages wait")
            yield f"topic {printable(topic)}: {waits}, the oldest for {age:.0f} s"
        if not found:
            yield "nothing waits"


def _leader(connection: Connection, lease: str, now: int) -> str:
    line = select(LEASES.c.holder, LEASES.c.epoch, LEASES.c.until).where(LEASES.c.name == lease)
    holder, epoch, until = connection.execute(line).one_or_none() or ("", 0, 0)
    if not epoch:
        return NOBODY
    does = "leads" if until >= now else "led, and no relay leads now"
    return f"{printable(holder)} {does}, in turn {epoch}"
