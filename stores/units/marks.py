"""Results in SQL: a mark in the database says which messages are done.

The mark is written in the transaction of the result. So a message that comes again, because its
acknowledgement was not heard, changes nothing; and a consumer that lost a message to another one
cannot commit beside it.
"""

from typing import Protocol

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    delete,
    select,
)

from stores.db.advisory_locks import AdvisoryLock
from stores.db.dialect import begin_writing, insert
from stores.db.missing_tables import create_missing

MARKS = Table(
    "sequitur_unit_marks",
    MetaData(),
    Column("subscriber", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("member", Integer, primary_key=True),
    Column("offset", BigInteger, primary_key=True, autoincrement=False),
)
FLOORS = Table(
    "sequitur_unit_mark_floors",
    MARKS.metadata,
    Column("subscriber", Text, primary_key=True),
    Column("destination", Text, primary_key=True),
    Column("member", Integer, primary_key=True),
    # Below it everything is complete, and marks are kept no longer.
    Column("floor", BigInteger, nullable=False),
)


class Marked(Protocol):
    """A delivery, as far as marks are concerned."""

    @property
    def group(self) -> str:
        """The subscriber."""
        ...

    @property
    def destination(self) -> str:
        """The topic."""
        ...

    member: int
    offset: int

    def check(self) -> None:
        """Raises DeliveryLost."""
        ...


def create_marks(connection: Connection) -> None:
    """Create the table if it is not there.

    Args:
        connection: in a transaction.
    """
    create_missing(connection, MARKS.metadata, AdvisoryLock.UNIT_MARKS)


def mark(connection: Connection, delivery: Marked) -> bool:
    """Mark a message as done, in the transaction of its result; call it before anything else.

    Args:
        connection: in a transaction, which the caller commits.
        delivery: the message.

    Returns:
        Whether it is done for the first time. If not, leave the result alone, and acknowledge:
        `await delivery.done(recovered=True)`.

    Raises:
        DeliveryLost: the message is not held any more; roll back.
    """
    delivery.check()
    begin_writing(connection)
    member = {
        "subscriber": delivery.group,
        "destination": delivery.destination,
        "member": delivery.member,
    }
    marking = insert(connection, MARKS).values(**member, offset=delivery.offset)
    # Not by the count of rows: of an INSERT, SQLAlchemy does not know it in PostgreSQL.
    marked = marking.on_conflict_do_nothing().returning(MARKS.c.offset)
    if connection.execute(marked).scalar_one_or_none() is None:
        return False
    # Looked at behind the mark: who was stopped before it may find that marks were forgotten since.
    floor = connection.execute(select(FLOORS.c.floor).filter_by(**member)).scalar_one_or_none()
    if floor is None or delivery.offset >= floor:
        return True
    connection.execute(delete(MARKS).filter_by(**member, offset=delivery.offset))
    return False


def forget_marks(
    connection: Connection, subscriber: str, destination: str, member: int, position: int
) -> int:
    """Delete marks that nothing can ask for any more.

    Args:
        connection: in a transaction.
        subscriber: the group.
        destination: the topic.
        member: the partition.
        position: the offset below which everything is complete; see `UnitConsumer.positions`.

    Returns:
        How many there were.
    """
    begin_writing(connection)
    of = {"subscriber": subscriber, "destination": destination, "member": member}
    new = insert(connection, FLOORS).values(**of, floor=position)
    higher = {"floor": position}
    connection.execute(
        new.on_conflict_do_update(
            index_elements=list(of), set_=higher, where=FLOORS.c.floor < position
        )
    )
    old = delete(MARKS).filter_by(**of).where(MARKS.c.offset < position)
    return connection.execute(old).rowcount
