"""All the way: from the producer's commit to the consumer's, at a steady rate."""

import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from threading import Event, Thread

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from bench.delivery.stage import CONTENT, Stage, Stalled, new_log, until
from stores.inbox.inbox import Inbox
from stores.message import Message
from stores.outbox.capture import Outbox

STREAMS = 200
WARM = 5
"""Seconds before it is measured, at the same rate: what is connected and compiled by then is not
what a message waits for in the long run."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from commit to commit; asked, rate: transactions of one message each per second,
    as they were to be and as they came about."""

    messages: int
    asked: int
    rate: float
    p50: float
    p99: float
    most: float


class _Consumer(Thread):
    """Works the inbox off, a batch at a time, and notes when each was committed."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(daemon=True)
        self.inbox = Inbox(engine, "bench")
        self.ended = Event()
        self.done: dict[tuple[str, int], float] = {}

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                with self.inbox.engine.connect() as connection:
                    self._deliver(connection)
            except SQLAlchemyError:
                time.sleep(0.1)

    def _deliver(self, connection: Connection) -> None:
        while not self.ended.is_set():
            with self.inbox.batch(connection, 500) as messages:
                if messages:
                    connection.execute(_WRITE, [_row(message) for message in messages])
            now = time.monotonic()
            self.done.update({(m.stream, m.sequence): now for m in messages})
            if not messages:
                self.ended.wait(0.01)


_WRITE = text("INSERT INTO consumed VALUES (:stream, :sequence, :content)")


def _row(message: Message) -> dict[str, object]:
    content = message.content.decode()
    return {"stream": message.stream, "sequence": message.sequence, "content": content}


def latency(stage: Stage, count: int, rate: int) -> Latency:
    """Capture `count` messages at `rate` per second, deliver them by relay, Kafka and inbox."""
    source, target, topic = stage.database("source"), stage.database("target"), stage.topic("lat")
    engine, log = new_log(source)
    log.create(engine)
    consumers, _ = new_log(target)
    with consumers.begin() as connection:
        connection.execute(text("CREATE TABLE consumed (stream TEXT, sequence BIGINT, c TEXT)"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE produced (n BIGINT)"))
    consumer = _Consumer(consumers)
    feed = ("sequitur", "inbox", "feed", "--database", target, "--name", "bench",
            "--topic", topic, "--broker", stage.broker.address)  # fmt: skip
    with stage.process("relay-lat", *stage.relay(source)), stage.process("feed-lat", *feed):
        consumer.start()
        try:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as producer:
                work = producer.submit(_produce, source, topic, count, rate)
                committed, took = work.result()
            until(
                lambda: committed.keys() <= consumer.done.keys(), 120, "all messages came through"
            )
        finally:
            consumer.ended.set()
            consumer.join()
    found = sorted((consumer.done[at] - when) * 1000 for at, when in committed.items())
    engine.dispose()
    consumers.dispose()
    if not found:
        raise Stalled("nothing was measured")
    return Latency(
        len(found),
        rate,
        len(found) / took,
        max(0.0, statistics.median(found)),
        max(0.0, found[min(len(found) - 1, int(len(found) * 0.99))]),
        max(0.0, found[-1]),
    )


def _produce(
    url: str, topic: str, count: int, rate: int
) -> tuple[dict[tuple[str, int], float], float]:
    """Transactions at a steady rate; (stream, sequence) → when it was committed, and the seconds
    that all took. What is done to get warm is not among them."""
    engine, log = new_log(url)
    found: dict[tuple[str, int], float] = {}
    warm, outbox, content = min(count, WARM * rate), Outbox(log), b"x" * CONTENT
    with engine.connect() as connection:
        began = time.monotonic()
        for at in range(warm + count):
            if at == warm:
                found.clear()
                began = time.monotonic() - warm / rate
            time.sleep(max(0.0, began + at / rate - time.monotonic()))
            stream = f"stream-{at % STREAMS}"
            with connection.begin():
                connection.execute(text("INSERT INTO produced VALUES (:n)"), {"n": at})
                sequence = outbox.capture(connection, topic, stream, "Made", content)
            found[stream, sequence] = time.monotonic()
    took = time.monotonic() - began - warm / rate
    engine.dispose()
    return found, took
