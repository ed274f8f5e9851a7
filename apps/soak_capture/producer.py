"""A producer: orders in its own table, a message for each of an order's streams."""

import json
import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from uuid import uuid4

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    Table,
    Text,
    create_engine,
    insert,
    make_url,
    select,
)
from sqlalchemy.exc import DBAPIError

from stores.db.sqlite_engine import begin_immediate
from stores.message import Message
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import START, Draft
from stores.two_phase.coordinator import Coordinator
from stores.two_phase.decision_log import TwoPhaseError

THREADS = 4
PLACED = Table("placed", MetaData(), Column("id", Text, primary_key=True), Column("streams", Text))

Transaction = Callable[[], AbstractContextManager[tuple[Connection, ...]]]
"""Begins a transaction; gives the connection of the shop, and that of the log where it is apart."""


def engine_of(url: str) -> Engine:
    if url.startswith("sqlite"):
        return begin_immediate(create_engine(url))
    parsed = make_url(url).set(drivername="postgresql+psycopg")
    return create_engine(parsed, pool_size=THREADS + 1, connect_args={"connect_timeout": 60})


def make_tables(shop: Engine, log: Engine) -> None:
    PLACED.metadata.create_all(shop)
    MessageLog().create(log)


def in_one(shop: Engine, step: Callable[[str], None]) -> Transaction:
    """Transactions of one database, with steps as those of two have."""

    @contextmanager
    def transaction() -> Iterator[tuple[Connection, ...]]:
        with shop.begin() as connection:
            step("begun")
            yield (connection,)
            step("worked")
        step("decided")

    return transaction


def place(transaction: Transaction, chance: random.Random, step: Callable[[str], None]) -> None:
    """Make an order, or change one's mind."""
    outbox, id = Outbox(MessageLog()), uuid4().hex
    streams = [f"s{chance.randrange(6)}" for _ in range(chance.randrange(1, 4))]
    drafts = [Draft("orders", stream, "Placed", {"order": id}) for stream in streams]
    with transaction() as connections:
        connections[0].execute(insert(PLACED).values(id=id, streams=json.dumps(streams)))
        step("updated")
        outbox.capture_many(connections[-1], drafts)
        step("captured")
        if chance.random() < 0.1:
            raise LookupError("changed one's mind")


def place_many(
    transaction: Transaction, seed: int, step: Callable[[str], None], orders: int
) -> None:
    """Make orders in threads; databases that are away are tried again."""

    def work(thread: int) -> None:
        chance = random.Random(seed * 100 + thread)
        for _ in range(orders // THREADS):
            with suppress(LookupError, DBAPIError, TwoPhaseError):
                place(transaction, chance, step)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def differences(shop: Engine, log: Engine) -> list[str]:
    """Where the shop and the log do not agree; both have to be at rest."""
    with shop.connect() as connection:
        rows = connection.execute(select(PLACED.c.id, PLACED.c.streams)).all()
    placed = Counter((id, stream) for id, streams in rows for stream in json.loads(streams))
    with log.connect() as connection:
        messages = _all(connection)
        last = {
            stream: MessageLog().last(connection, "orders", stream)
            for stream in {message.stream for message in messages}
        }
    captured = Counter((json.loads(m.content)["order"], m.stream) for m in messages)
    found = [f"not captured: {one}" for one in placed - captured]
    found += [f"invented: {one}" for one in captured - placed]
    for stream, end in last.items():
        numbers = [message.sequence for message in messages if message.stream == stream]
        if numbers != [*range(1, end + 1)]:
            found.append(f"stream {stream} has {numbers} of {end}")
    return found


def _all(connection: Connection) -> list[Message]:
    found: list[Message] = []
    page = MessageLog().read_after(connection, START)
    while page.messages:
        found += page.messages
        page = MessageLog().read_after(connection, page.position)
    return found


def killer(at: str) -> Callable[[str], None]:
    """Ends this process at the so-manieth step, or the first of a name."""
    steps = count(1)

    def step(done: str) -> None:
        if at in (str(next(steps)), done):
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def _coordinator(shop: Engine, log: Engine, step: Callable[[str], None]) -> Coordinator:
    """One that is made as soon as the database of the decisions answers."""
    while True:
        try:
            return Coordinator(shop, {"log": log}, step=step)
        except DBAPIError:
            time.sleep(0.1)


def quiet() -> None:
    """Databases are away all the time here, and what is in doubt is no news."""
    logging.getLogger("stores.two_phase").setLevel(logging.ERROR)


def produce(form: str, shop_url: str, log_url: str, seed: int, kill: str, orders: int) -> None:
    """Make so many orders, by `one` database or `two`; SIGKILL at the so-manieth step.

    kill: the number of the step, or the name of one, which is the first of that name.
    """
    quiet()
    step = killer(kill)
    shop = engine_of(shop_url)
    if form == "one":
        transaction = in_one(shop, step)
    else:
        transaction = _coordinator(shop, engine_of(log_url), step).transaction
    place_many(transaction, seed, step, orders)
