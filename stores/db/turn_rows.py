"""Which turns of a partition are committed in a database, and perhaps not yet in Kafka.

A transaction that commits at its event's turn writes a row of what the event puts out, and makes
sure that the partition is still its owner's. Whoever takes the partition over finds the rows of
what Kafka has not got, and needs to run nothing of it again. Rows that Kafka is past are deleted
with a later turn, and when the partition is opened.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    delete,
    select,
    update,
)

from stores.db.advisory_locks import AdvisoryLock
from stores.db.dialect import begin_writing, insert
from stores.db.missing_tables import create_missing

_metadata = MetaData()
turns = Table(
    "sequitur_turns",
    _metadata,
    Column("view", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("effects", LargeBinary, nullable=False),
)
OWNER = -1
"""The position of the row that says whose the partition is."""


class TakenOver(ConnectionError):
    """Somebody else has the partition since: nothing of this owner is committed any more."""


@dataclass(frozen=True, slots=True)
class TurnRows:
    """The rows of one partition, as its owner writes them; each takes a connection's transaction.

    view: `topology.view`. owner: no other run of any process has the same.
    """

    view: str
    topic: str
    partition: int
    owner: bytes

    def take_over(self, connection: Connection, is_done: Callable[[int], bool]) -> dict[int, bytes]:
        """Become the owner. Returns offset → effects of the turns that are not done in Kafka.

        A commit of the last owner that is under way is waited for.
        """
        begin_writing(connection)
        create_missing(connection, _metadata, AdvisoryLock.TURNS)
        added = insert(connection, turns).values(**self._place(OWNER), effects=self.owner)
        key = ["view", "topic", "partition", "position"]
        connection.execute(
            added.on_conflict_do_update(index_elements=key, set_={"effects": self.owner})
        )
        found = connection.execute(
            select(turns.c.position, turns.c.effects).where(*self._mine, turns.c.position >= 0)
        )
        left = {position: bytes(effects) for position, effects in found}
        done = [position for position in left if is_done(position)]
        self._delete(connection, done)
        return {position: effects for position, effects in left.items() if position not in done}

    def add(
        self, connection: Connection, effects: Mapping[int, bytes], obsolete: Iterable[int]
    ) -> None:
        """Write down what turns put out, and delete rows that Kafka is past.

        Raises:
            TakenOver: the partition is somebody else's; the transaction is to be rolled back.
        """
        mine = update(turns).where(
            *self._mine, turns.c.position == OWNER, turns.c.effects == self.owner
        )
        if connection.execute(mine.values(effects=self.owner)).rowcount != 1:
            raise TakenOver(f"{self.view}: {self.topic}-{self.partition} is taken over")
        self._delete(connection, obsolete)
        rows = [{**self._place(offset), "effects": each} for offset, each in effects.items()]
        connection.execute(insert(connection, turns), rows)

    def clear(self, connection: Connection) -> None:
        """Delete all rows of turns: their log is not there any more."""
        connection.execute(delete(turns).where(*self._mine, turns.c.position >= 0))

    def _delete(self, connection: Connection, offsets: Iterable[int]) -> None:
        if found := list(offsets):
            connection.execute(delete(turns).where(*self._mine, turns.c.position.in_(found)))

    @property
    def _mine(self) -> tuple[Any, ...]:
        place = self._place(0)
        return tuple(turns.c[name] == place[name] for name in ("view", "topic", "partition"))

    def _place(self, position: int) -> dict[str, str | int]:
        return {
            "view": self.view, "topic": self.topic, "partition": self.partition,
            "position": position,
        }  # fmt: skip
