"""The warehouse's side: a message and what it changes of the stock are one transaction."""

from collections import defaultdict

import orjson
from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, Text, select, update

from stores.db.dialect import insert
from stores.message import Message

_METADATA = MetaData()
RESERVED = Table(
    "reserved",
    _METADATA,
    Column("order_id", Text, primary_key=True),
    Column("item", Text, nullable=False),
    Column("amount", Integer, nullable=False),
    Column("changes", Integer, nullable=False),
)
STOCK = Table(
    "stock",
    _METADATA,
    Column("item", Text, primary_key=True),
    Column("reserved", Integer, nullable=False),
)


class OutOfOrder(RuntimeError):
    """A message came that cannot be the next one; never seen, and the reason to look for it."""


def make(engine: Engine) -> None:
    """Make the tables."""
    _METADATA.create_all(engine)


def handle(connection: Connection, message: Message) -> None:
    """Reserve what an order is for; `handle` of `stores.inbox.consumer.run_consumer`.

    It counts what it is told of each order, so that a message too many or too few would show.
    """
    content = orjson.loads(message.content)
    found = connection.execute(
        select(RESERVED.c.item, RESERVED.c.amount, RESERVED.c.changes).where(
            RESERVED.c.order_id == message.stream
        )
    ).one_or_none()
    item, before, changes = found or (content.get("item"), 0, 0)
    if message.sequence != changes + 1 or (message.kind == "Placed") != (found is None):
        raise OutOfOrder(f"order {message.stream}: {message.sequence} comes after {changes}")
    amount = int(content.get("amount", 0))
    if found is None:
        connection.execute(
            RESERVED.insert().values(order_id=message.stream, item=item, amount=amount, changes=1)
        )
    else:
        mine = update(RESERVED).where(RESERVED.c.order_id == message.stream)
        connection.execute(mine.values(amount=amount, changes=changes + 1))
    add = insert(connection, STOCK).values(item=item, reserved=amount - before)
    connection.execute(
        add.on_conflict_do_update(
            index_elements=["item"], set_={"reserved": STOCK.c.reserved + add.excluded.reserved}
        )
    )


def reserved(engine: Engine) -> dict[str, tuple[str, int, int]]:
    """Order → item, amount and how many changes came."""
    columns = RESERVED.c
    with engine.connect() as connection:
        rows = connection.execute(
            select(columns.order_id, columns.item, columns.amount, columns.changes)
        )
        return {order: (item, amount, changes) for order, item, amount, changes in rows}


def differences(orders: dict[str, tuple[str, int, int]], engine: Engine) -> list[str]:
    """How the warehouse differs from the orders, in words; empty if it does not."""
    mine, wrong = reserved(engine), []
    for order in sorted(orders.keys() | mine.keys()):
        if orders.get(order) != mine.get(order):
            wrong.append(f"order {order} is {orders.get(order)}, reserved is {mine.get(order)}")
    sums: dict[str, int] = defaultdict(int)
    for item, amount, _ in mine.values():
        sums[item] += amount
    with engine.connect() as connection:
        rows = connection.execute(select(STOCK.c.item, STOCK.c.reserved))
        stock: dict[str, int] = {item: number for item, number in rows}  # noqa: C416
    for item in sorted(sums.keys() | stock.keys()):
        if sums.get(item, 0) != stock.get(item, 0):
            wrong.append(f"of {item} {stock.get(item)} are reserved, the orders say {sums[item]}")
    return wrong
