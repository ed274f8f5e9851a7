"""What capture costs a producer.

Writers, each a process of its own, insert orders into PostgreSQL, one a transaction, with and
without capturing a message in it; then the same by two-phase commit, with the log in another
database of the server.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import Any

from sqlalchemy import Connection, create_engine, make_url, text

from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.two_phase.coordinator import Coordinator

STREAMS = 100_000
"""Streams that the writers share; they seldom want the same one at the same time."""
CONTENT = b'{"customer": 17, "lines": [{"item": "bolt", "pieces": 40}]}' + b" " * 141
"""200 bytes, as of an order."""
_INSERT = text("INSERT INTO orders (stream, content) VALUES (:stream, :content)")
_TABLE = "CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, stream text, content bytea)"


@dataclass(frozen=True, slots=True)
class Rate:
    """Transactions per second of all writers. form: `none`, `one` or `two` databases captured."""

    writers: int
    form: str
    per_second: float


def captures(url: str, log_url: str, writers: int, form: str, seconds: float) -> Rate:
    """Measure writers that insert an order per transaction, for so many seconds.

    form: `none` captures nothing, `one` into the log in the same database, `two` into that in
    `log_url`, by two-phase commit.
    """
    prepare(url, log_url)
    spawning = get_context("spawn")
    barrier, results = spawning.Barrier(writers), spawning.SimpleQueue()
    processes = [
        spawning.Process(
            target=_write, args=(url, log_url, form, number, seconds, barrier, results), daemon=True
        )
        for number in range(writers)
    ]
    for process in processes:
        process.start()
    rates = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return Rate(writers, form, sum(rates))


def prepare(url: str, log_url: str) -> None:
    """Make the tables that the writers need."""
    for each in (url, log_url):
        engine = _engine(each)
        with engine.begin() as connection:
            connection.execute(text(_TABLE))
            MessageLog().create(connection)
        engine.dispose()


def _engine(url: str) -> Any:
    return create_engine(make_url(url).set(drivername="postgresql+psycopg"))


def _write(
    url: str, log_url: str, form: str, number: int, seconds: float, barrier: Barrier, results: Any
) -> None:
    engine, outbox = _engine(url), Outbox(MessageLog())
    if form == "two":
        coordinator = Coordinator(engine, {"log": _engine(log_url)})
        transaction: Callable[[], AbstractContextManager[tuple[Connection, ...]]] = (
            coordinator.transaction
        )
    else:

        @contextmanager
        def transaction() -> Iterator[tuple[Connection, ...]]:
            with engine.begin() as connection:
                yield (connection,)

    def order(count: int) -> None:
        stream = f"order-{(number * 7919 + count * 104_729) % STREAMS}"
        with transaction() as connections:
            connections[0].execute(_INSERT, {"stream": stream, "content": CONTENT})
            if form != "none":
                outbox.capture(connections[-1], "orders", stream, "Placed", CONTENT)

    for count in range(20):  # until statements are prepared
        order(count)
    barrier.wait(120)
    done, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        order(done + 20)
        done += 1
    results.put(done / took)
