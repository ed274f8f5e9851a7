"""The dead of an inbox: what is no message, and what its stream went on without; kept for a while.

Kept are the newest, as many and for as long as a read store keeps its dead records; see
`stores.sinks.dead_limit`. Those that were removed stay counted.
"""

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select

from stores.db.dialect import insert
from stores.inbox.tables import DEAD, REMOVED
from stores.sinks import DeadLimit
from stores.sinks.dead_limit import DAY


def bury(
    connection: Connection, inbox: str, lines: Sequence[dict[str, Any]], keep: DeadLimit
) -> None:
    """Put lines of one inbox among the dead, and remove what is kept no longer.

    lines: columns of DEAD; `inbox` and `at` need not be given.
    """
    if not lines:
        return
    now = int(time.time() * 1000)
    connection.execute(DEAD.insert(), [{"inbox": inbox, "at": now, **line} for line in lines])
    columns = DEAD.c
    beyond = (
        select(columns.id)
        .where(columns.inbox == inbox)
        .order_by(columns.id.desc())
        .offset(keep.rows)
        .limit(1)
    )
    gone = columns.id <= func.coalesce(beyond.scalar_subquery(), -1)
    if keep.days is not None:
        gone |= columns.at < now - int(keep.days * DAY * 1000)
    number = connection.execute(delete(DEAD).where(columns.inbox == inbox, gone)).rowcount
    if number > 0:
        added = insert(connection, REMOVED).values(inbox=inbox, removed=number)
        connection.execute(
            added.on_conflict_do_update(
                index_elements=[REMOVED.c.inbox], set_={"removed": REMOVED.c.removed + number}
            )
        )


def dead_counts(connection: Connection, inbox: str) -> tuple[int, int]:
    """(how many were put among the dead, how many of them are kept no longer)."""
    kept = select(func.count()).select_from(DEAD).where(DEAD.c.inbox == inbox)
    gone = select(REMOVED.c.removed).where(REMOVED.c.inbox == inbox)
    removed = connection.execute(gone).scalar_one_or_none() or 0
    return connection.execute(kept).scalar_one() + removed, removed
