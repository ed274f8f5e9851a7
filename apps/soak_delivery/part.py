"""The two parts of the soak that are its own: who places orders, and who works off the cursor.

python -m apps.soak_delivery.part produce URL SEED
python -m apps.soak_delivery.part consume URL BATCH
"""

import logging
import random
import signal
import sys
from threading import Event

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from apps.warehouse import stock
from apps.warehouse.orders import ORDERS, Orders
from stores.cursor import Cursor
from stores.cursor_message import Message
from stores.cursor_work import work
from stores.engines import open_engine

CURSOR = "warehouse"
STREAMS = 120
"""Orders at most; each has many changes."""
PAUSE = 0.004
"""Seconds between transactions of one producer, so that a backlog ends."""
ITEMS = ("bolts", "nuts", "washers")

_METADATA = MetaData()
SEEN = Table(
    "seen",
    _METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("stream", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
)


class Declined(Exception):
    """Why a transaction is rolled back."""


def make(engine: Engine) -> None:
    """Make the consumer's tables."""
    stock.make(engine)
    _METADATA.create_all(engine)


def handle(connection: Connection, message: Message) -> None:
    """As the warehouse does; and each message that is processed has a line, in this order."""
    stock.handle(connection, message)
    connection.execute(SEEN.insert().values(stream=message.stream, sequence=message.sequence))


def trade(orders: Orders, chance: random.Random) -> None:
    """One transaction with up to three orders, some of which are rolled back."""
    with orders.engine.begin() as connection:
        # In one order, so that two producers do not lock each other out.
        for number in sorted(chance.sample(range(STREAMS), chance.randrange(1, 4))):
            _trade(orders, connection, f"A-{number:03}", chance)
        if chance.random() < 0.1:
            raise Declined


def _trade(orders: Orders, connection: Connection, order: str, chance: random.Random) -> None:
    # Who updates it locks it: another producer may be placing the same one.
    there = update(ORDERS).where(ORDERS.c.id == order).values(id=order)
    if connection.execute(there).rowcount == 0:
        orders.place(connection, order, chance.choice(ITEMS), chance.randrange(1, 100))
    elif chance.random() < 0.1:
        orders.cancel(connection, order)
    else:
        orders.change(connection, order, chance.randrange(1, 100))


def seen(engine: Engine) -> dict[str, list[int]]:
    """Stream → the sequences that were processed, in the order of processing."""
    found: dict[str, list[int]] = {}
    with engine.connect() as connection:
        rows = connection.execute(select(SEEN.c.stream, SEEN.c.sequence).order_by(SEEN.c.id))
        for stream, sequence in rows:
            found.setdefault(stream, []).append(sequence)
    return found


def produce(url: str, seed: str, stopped: Event) -> None:
    """Trade until it is told to stop."""
    orders, chance = Orders(open_engine(url)), random.Random(seed)
    while not stopped.wait(PAUSE):
        try:
            trade(orders, chance)
        except Declined:
            pass
        except SQLAlchemyError as error:
            logging.warning("%s", str(getattr(error, "orig", error)).splitlines()[:1])
            stopped.wait(0.2)


def main() -> int:
    """Returns the exit status."""
    what, url, third = sys.argv[1:]
    stopped = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if what == "produce":
        produce(url, third, stopped)
    else:
        cursor = Cursor(open_engine(url), CURSOR, backoff=0.2, attempts=20)
        work(cursor, handle, stopped, batch=int(third))
    return 0


if __name__ == "__main__":
    sys.exit(main())
