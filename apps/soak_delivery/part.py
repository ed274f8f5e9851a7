"""The two parts of the soak that are its own: who places orders, and who works off the inbox.

python -m soak_delivery.part produce ORDERS-URL LOG-URL SEED
python -m soak_delivery.part consume WAREHOUSE-URL INBOX-URL BATCH

Where the two URLs differ, it is by two-phase commit.
"""

import logging
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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

from sequitur.cli.signals import take_signals
from stores.db.engines import open_engine
from stores.inbox.consumer import NAP, run_consumer
from stores.inbox.inbox import Inbox
from stores.inbox.two_phases import two_phase_batch
from stores.message import Message
from stores.two_phase.coordinator import Coordinator
from stores.two_phase.decision_log import TwoPhaseError
from warehouse import stock
from warehouse.orders import ORDERS, Orders

INBOX, LOG = "warehouse", "log"
"""Names: of the inbox, and of it and the log as they take part in two-phase commit."""
STREAMS = 120
"""Orders at most; each has many changes."""
PAUSE = 0.004
"""Seconds between transactions of one producer, so that a backlog ends."""
ITEMS = ("bolts", "nuts", "washers")

Transaction = Callable[[], AbstractContextManager[tuple[Connection, ...]]]
"""Begins a transaction: a connection of the orders, and one of the log if that is apart."""

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


def trade(orders: Orders, transaction: Transaction, chance: random.Random) -> None:
    """One transaction with up to three orders, some of which are rolled back."""
    with transaction() as connections:
        # In one order, so that two producers do not lock each other out.
        for number in sorted(chance.sample(range(STREAMS), chance.randrange(1, 4))):
            _trade(orders, connections, f"A-{number:03}", chance)
        if chance.random() < 0.1:
            raise Declined


def _trade(
    orders: Orders, connections: tuple[Connection, ...], order: str, chance: random.Random
) -> None:
    connection, apart = connections[0], connections[-1]
    # Who updates it locks it: another producer may be placing the same one.
    there = update(ORDERS).where(ORDERS.c.id == order).values(id=order)
    if connection.execute(there).rowcount == 0:
        orders.place(connection, order, chance.choice(ITEMS), chance.randrange(1, 100), apart)
    elif chance.random() < 0.1:
        orders.cancel(connection, order, apart)
    else:
        orders.change(connection, order, chance.randrange(1, 100), apart)


def seen(engine: Engine) -> dict[str, list[int]]:
    """Stream → the sequences that were processed, in the order of processing."""
    found: dict[str, list[int]] = {}
    with engine.connect() as connection:
        rows = connection.execute(select(SEEN.c.stream, SEEN.c.sequence).order_by(SEEN.c.id))
        for stream, sequence in rows:
            found.setdefault(stream, []).append(sequence)
    return found


def produce(url: str, log_url: str, seed: str, stopped: Event) -> None:
    """Trade until it is told to stop."""
    engine, log_engine = open_engine(url), open_engine(log_url)
    orders, chance = Orders(engine, apart=log_engine), random.Random(seed)

    @contextmanager
    def in_one() -> Iterator[tuple[Connection, ...]]:
        with engine.begin() as connection:
            yield (connection,)

    transaction: Transaction = in_one
    if url != log_url:
        transaction = Coordinator(engine, {LOG: log_engine}).transaction
    while not stopped.wait(PAUSE):
        try:
            trade(orders, transaction, chance)
        except Declined:
            pass
        except (SQLAlchemyError, TwoPhaseError) as error:
            _tell(error)
            stopped.wait(0.2)


def consume(url: str, inbox_url: str, batch: int, stopped: Event) -> None:
    """Deliver until it is told to stop."""
    inbox = Inbox(open_engine(inbox_url), INBOX, backoff=0.2, attempts=20)
    if url == inbox_url:
        run_consumer(inbox, handle, stopped, batch=batch)
        return
    # The warehouse decides: what is processed is there before the stream's next message is free.
    coordinator = Coordinator(open_engine(url), {INBOX: inbox.engine})
    while not stopped.is_set():
        try:
            with two_phase_batch(inbox, coordinator, batch) as (messages, connections):
                for message in messages:
                    handle(connections[0], message)
            if not messages:
                stopped.wait(NAP)
        except (SQLAlchemyError, TwoPhaseError) as error:
            _tell(error)
            stopped.wait(0.2)
        except Exception:
            logging.exception("a message failed")


def _tell(error: Exception) -> None:
    logging.warning("%s", str(getattr(error, "orig", error)).splitlines()[:1])


def main() -> int:
    """Returns the exit status."""
    what, url, other, third = sys.argv[1:]
    stopped = Event()
    take_signals(stopped)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    if what == "produce":
        produce(url, other, third, stopped)
    else:
        consume(url, other, int(third), stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
