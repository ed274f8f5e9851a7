"""What is measured on: a PostgreSQL server, a broker, and the processes of relay and feed."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition
from sqlalchemy import Engine

from checkout.postgres import Postgres
from sequitur.cli.running import TOKEN
from sequitur.local.broker import Broker
from sequitur.local.process import spawn
from stores.db.engines import open_engine
from stores.kafka_topics import make_topics
from stores.outbox.log import MessageLog
from stores.outbox.message import Position

SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB", "max_prepared_transactions": "32"}
"""Of the server; all else is as it comes, so commits wait for the disk."""
PARTITIONS = 4
CONTENT = 200
"""Bytes of a message."""


class Stalled(RuntimeError):
    """Something went on no more; the text says how far it came."""


class HasAddress(Protocol):
    """A broker."""

    @property
    def address(self) -> str: ...


class Stage:
    """A server and a broker; each measurement has a database and a topic of its own."""

    def __init__(self, server: Postgres, broker: HasAddress, folder: Path) -> None:
        self.server, self.broker, self.folder = server, broker, folder
        self._number = 0

    def database(self, word: str) -> str:
        """The URL of a new database."""
        self._number += 1
        return self.server.new_database(f"{word}_{self._number}_{uuid4().hex[:8]}")

    def topic(self, word: str) -> str:
        """A new topic, which the broker lists."""
        self._number += 1
        name = f"{word}-{self._number}-{uuid4().hex[:8]}"
        kafka = {"bootstrap_servers": self.broker.address}
        asyncio.run(make_topics(kafka, {name: PARTITIONS}, {}))
        return name

    @contextmanager
    def ends(self, topic: str) -> Iterator[Callable[[], int]]:
        """Looks up the offsets of a topic's ends, all partitions together."""
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": "bench"})
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        try:
            yield lambda: sum(
                consumer.get_watermark_offsets(partition, timeout=10)[1] for partition in partitions
            )
        finally:
            consumer.close()

    @contextmanager
    def process(self, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process of ours, ended in order afterwards."""
        with (self.folder / f"{name}.log").open("ab") as log:
            environment = os.environ | {TOKEN: "the token of the bench"}
            started = spawn([sys.executable, "-m", *command], output=log, env=environment)
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(30)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()

    def relay(self, url: str) -> tuple[str, ...]:
        """The command of a relay of the log at `url`."""
        return ("sequitur", "relay", "kafka", "--database", url, "--broker", self.broker.address)


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Server and broker, in a folder, for as long as it takes."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        server = stack.enter_context(Postgres(SETTINGS))
        yield Stage(server, stack.enter_context(Broker(folder / "broker")), folder)


def is_empty(engine: Engine, log: MessageLog, behind: int = 0) -> bool:
    """Whether all of the log was acknowledged, of the messages with ids above `behind`."""
    with engine.connect() as connection:
        return not log.read_after(connection, Position(behind), limit=1).messages


def new_log(url: str, **settings: Any) -> tuple[Engine, MessageLog]:
    """The engine of a database, and the log in it."""
    return open_engine(url, **settings), MessageLog()


def until(done: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition. Raises Stalled."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise Stalled(f"{what} not within {seconds:.0f} s")
        time.sleep(0.05)
