"""The orders' side: each change of an order captures a message in the transaction that makes it."""

from typing import Any

from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, Text, select, update

from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog

TOPIC = "orders"
_METADATA = MetaData()
ORDERS = Table(
    "orders",
    _METADATA,
    Column("id", Text, primary_key=True),
    Column("item", Text, nullable=False),
    Column("amount", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("changes", Integer, nullable=False),
)


class Orders:
    """Orders in the database of `engine`, whose messages go into `log`.

    apart: the log's database, if it is another one. Whatever captures then takes a connection of
    each, `apart` being the log's, in one transaction by two-phase commit.
    """

    def __init__(
        self, engine: Engine, log: MessageLog | None = None, apart: Engine | None = None
    ) -> None:
        self.engine, self.log_engine = engine, apart or engine
        self.log = log or MessageLog()
        self._outbox = Outbox(self.log)

    def make(self) -> None:
        """Make the tables, and those of the log."""
        _METADATA.create_all(self.engine)
        self.log.create(self.log_engine)

    def place(
        self,
        connection: Connection,
        order: str,
        item: str,
        amount: int,
        apart: Connection | None = None,
    ) -> None:
        """Place a new order, in the connection's transaction."""
        connection.execute(
            ORDERS.insert().values(id=order, item=item, amount=amount, state="placed", changes=1)
        )
        self._tell(apart or connection, order, "Placed", {"item": item, "amount": amount})

    def change(
        self, connection: Connection, order: str, amount: int, apart: Connection | None = None
    ) -> None:
        """Order another amount."""
        self._set(connection, order, amount=amount)
        self._tell(apart or connection, order, "Changed", {"amount": amount})

    def cancel(self, connection: Connection, order: str, apart: Connection | None = None) -> None:
        """Cancel an order."""
        self._set(connection, order, amount=0, state="cancelled")
        self._tell(apart or connection, order, "Cancelled", {})

    def _set(self, connection: Connection, order: str, **values: Any) -> None:
        mine = update(ORDERS).where(ORDERS.c.id == order)
        changed = mine.values(changes=ORDERS.c.changes + 1, **values)
        if connection.execute(changed).rowcount != 1:
            raise KeyError(f"there is no order {order!r}; place it first")

    def _tell(self, connection: Connection, order: str, kind: str, content: Any) -> None:
        self._outbox.capture(connection, TOPIC, order, kind, content)

    def all(self) -> dict[str, tuple[str, int, int]]:
        """Order → item, amount and how many changes it had."""
        with self.engine.connect() as connection:
            rows = connection.execute(
                select(ORDERS.c.id, ORDERS.c.item, ORDERS.c.amount, ORDERS.c.changes)
            )
            return {order: (item, amount, changes) for order, item, amount, changes in rows}
