"""The shop's two sides: customers send, and the storehouse works off what they sent."""

import orjson
from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, Text, insert, update

from stores.units import UnitConsumer, UnitDelivery, UnitProducer, create_marks, mark

ORDERS = Table(
    "bookshop_orders",
    MetaData(),
    Column("number", Text, primary_key=True),
    Column("book", Text, nullable=False),
    Column("copies", Integer, nullable=False),
    Column("status", Text, nullable=False),
)


class UnknownOrder(LookupError):
    """A cancellation whose order is not there: it has overtaken it."""


async def order(shop: UnitProducer, number: str, book: str, copies: int) -> None:
    """A customer orders copies of a book."""
    content = {"kind": "order", "number": number, "book": book, "copies": copies}
    await shop.unit(number).send(orjson.dumps(content))


async def cancel(shop: UnitProducer, number: str) -> None:
    """A customer cancels an order, maybe by another producer than the one that ordered."""
    await shop.unit(number).send(orjson.dumps({"kind": "cancel", "number": number}))


def create_tables(engine: Engine) -> None:
    """Create what is not there."""
    with engine.begin() as connection:
        ORDERS.metadata.create_all(connection)
        create_marks(connection)


def handle(connection: Connection, message: bytes) -> None:
    """What a message does to the storehouse. Raises UnknownOrder."""
    content = orjson.loads(message)
    if content.pop("kind") == "order":
        connection.execute(insert(ORDERS).values(**content, status="packed"))
        return
    cancelled = (
        update(ORDERS).where(ORDERS.c.number == content["number"]).values(status="cancelled")
    )
    if connection.execute(cancelled).rowcount == 0:
        raise UnknownOrder(f"order {content['number']} is not there to be cancelled")


async def work(storehouse: UnitConsumer, engine: Engine) -> None:
    """Work messages off until cancelled: each result and its mark in one transaction."""

    async def one(delivery: UnitDelivery) -> None:
        with engine.begin() as connection:
            if fresh := mark(connection, delivery):
                handle(connection, delivery.value)
        await delivery.done(recovered=not fresh)

    await storehouse.run(one)
