"""All the way: from the producer's commit to the consumer's, at a steady rate."""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from threading import Event, Thread

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from bench.delivery.stage import CONTENT, Stage, Stalled, new_log, until
from sequitur.local.ports import free_port
from stores.inbox import two_phase_batch
from stores.inbox.inbox import Inbox
from stores.message import Message
from stores.outbox.capture import Outbox
from stores.two_phase.coordinator import Coordinator

STREAMS = 200
WARM = 5
"""Seconds before it is measured, at the same rate: what is connected and compiled by then is not
what a message waits for in the long run."""


WAYS = ("kafka", "http", "two phases")
"""How messages go. In two phases: over Kafka, with the log in another database than the producer's
rows, and the inbox in another one than the consumer's."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from commit to commit; asked, rate: transactions of one message each per second,
    as they were to be and as they came about. way: one of WAYS."""

    way: str
    messages: int
    asked: int
    rate: float
    p50: float
    p99: float
    most: float


class _Consumer(Thread):
    """Works the inbox off, a batch at a time, and notes when each was committed.

    tables: the database of the consumer's rows, where it is another one.
    """

    def __init__(self, engine: Engine, tables: Engine | None = None) -> None:
        super().__init__(daemon=True)
        self.inbox = Inbox(engine, "bench")
        self.tables = tables
        self.ended = Event()
        self.done: dict[tuple[str, int], float] = {}

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                if self.tables is not None:
                    self._deliver_in_two_phases(
                        Coordinator(self.tables, {"inbox": self.inbox.engine})
                    )
                    continue
                with self.inbox.engine.connect() as connection:
                    self._deliver(connection)
            except SQLAlchemyError:
                time.sleep(0.1)

    def _deliver(self, connection: Connection) -> None:
        while not self.ended.is_set():
            with self.inbox.batch(connection, 500) as messages:
                if messages:
                    connection.execute(_WRITE, [_row(message) for message in messages])
            self._note(messages)

    def _note(self, messages: list[Message]) -> None:
        now = time.monotonic()
        self.done.update({(m.stream, m.sequence): now for m in messages})
        if not messages:
            self.ended.wait(0.01)

    def _deliver_in_two_phases(self, coordinator: Coordinator) -> None:
        try:
            while not self.ended.is_set():
                with two_phase_batch(self.inbox, coordinator) as (messages, connections):
                    if messages:
                        connections[0].execute(_WRITE, [_row(message) for message in messages])
                self._note(messages)
        finally:
            coordinator.close()


_WRITE = text("INSERT INTO consumed VALUES (:stream, :sequence, :content)")


def _row(message: Message) -> dict[str, object]:
    content = message.content.decode()
    return {"stream": message.stream, "sequence": message.sequence, "content": content}


def latency(stage: Stage, count: int, rate: int, way: str = WAYS[0]) -> Latency:
    """Capture `count` messages at `rate` per second, deliver them by relay and inbox."""
    source, target, topic = stage.database("source"), stage.database("target"), stage.topic("lat")
    apart = way == "two phases"
    rows = stage.database("rows") if apart else source
    tables, _ = new_log(stage.database("tables") if apart else target)
    engine, log = new_log(source)
    log.create(engine)
    consumers, _ = new_log(target)
    with tables.begin() as connection:
        connection.execute(text("CREATE TABLE consumed (stream TEXT, sequence BIGINT, c TEXT)"))
    producers, _ = new_log(rows)
    with producers.begin() as connection:
        connection.execute(text("CREATE TABLE produced (n BIGINT)"))
    producers.dispose()
    consumer = _Consumer(consumers, tables if apart else None)
    inbox = ("--database", target, "--name", "bench")
    relay = stage.relay(source)
    receiver: tuple[str, ...] = ("feed", "--topic", topic, "--broker", stage.broker.address)
    if way == "http":
        port = str(free_port())
        to = f"http://127.0.0.1:{port}"
        relay = ("sequitur", "relay", "http", "--database", source, "--to", to)
        receiver = ("serve", "--port", port)
    with (
        stage.process("relay-lat", *relay),
        stage.process("inbox-lat", "sequitur", "inbox", *receiver, *inbox),
    ):
        consumer.start()
        try:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as producer:
                work = producer.submit(_produce, source, rows, topic, count, rate)
                committed, took = work.result()
            until(
                lambda: committed.keys() <= consumer.done.keys(), 120, "all messages came through"
            )
        finally:
            consumer.ended.set()
            consumer.join()
    found = sorted((consumer.done[at] - when) * 1000 for at, when in committed.items())
    for each in (engine, consumers, tables):
        each.dispose()
    if not found:
        raise Stalled("nothing was measured")
    return Latency(
        way,
        len(found),
        rate,
        len(found) / took,
        max(0.0, statistics.median(found)),
        max(0.0, found[min(len(found) - 1, int(len(found) * 0.99))]),
        max(0.0, found[-1]),
    )


def _produce(
    url: str, rows: str, topic: str, count: int, rate: int
) -> tuple[dict[tuple[str, int], float], float]:
    """Transactions at a steady rate, in two databases where the rows are not in that of the log;
    (stream, sequence) → when it was committed, and the seconds
    that all took. What is done to get warm is not among them."""
    engine, log = new_log(url)
    found: dict[tuple[str, int], float] = {}
    warm, outbox, content = min(count, WARM * rate), Outbox(log), b"x" * CONTENT
    with ExitStack() as stack:
        begin = _beginning(stack, engine, rows if rows != url else None)
        began = time.monotonic()
        for at in range(warm + count):
            if at == warm:
                found.clear()
                began = time.monotonic() - warm / rate
            time.sleep(max(0.0, began + at / rate - time.monotonic()))
            stream = f"stream-{at % STREAMS}"
            with begin() as connections:
                connections[0].execute(text("INSERT INTO produced VALUES (:n)"), {"n": at})
                sequence = outbox.capture(connections[-1], topic, stream, "Made", content)
            found[stream, sequence] = time.monotonic()
    took = time.monotonic() - began - warm / rate
    engine.dispose()
    return found, took


def _beginning(
    stack: ExitStack, log: Engine, rows: str | None
) -> Callable[[], AbstractContextManager[tuple[Connection, ...]]]:
    """What begins a transaction of the producer. rows: where they are, if not beside the log."""
    if rows is not None:
        coordinator = Coordinator(new_log(rows)[0], {"log": log})
        stack.callback(coordinator.close)
        return coordinator.transaction
    connection = stack.enter_context(log.connect())

    @contextmanager
    def begin() -> Iterator[tuple[Connection, ...]]:
        with connection.begin():
            yield (connection,)

    return begin
