"""The processes of a soak between two databases, and how they are started, killed and compared."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from apps.local.broker import Broker
from apps.local.home import LocalError
from apps.local.kafka_probe import answers
from apps.local.ports import HOST, free_port
from apps.local.postgres import Postgres
from apps.running import TOKEN
from apps.soak_delivery.part import CURSOR, make, seen
from apps.warehouse import stock
from apps.warehouse.orders import TOPIC, Orders
from stores.cursor import Cursor
from stores.cursor_commands import counts
from stores.engines import open_engine

LEASE = 2.0
PARTITIONS = 3
PRODUCERS = ("producer 1", "producer 2")
RELAYS = ("relay 1", "relay 2")
CONSUMERS = ("consumer 1", "consumer 2")
RECEIVER = "receiver"
PARTS = (*PRODUCERS, *RELAYS, RECEIVER, *CONSUMERS)
ORDERS_SERVER, WAREHOUSE_SERVER = "orders database", "warehouse database"


class Fleet:
    """Everything of one soak, in `folder`. servers: the databases' own, by name; none for SQLite.

    broker: of the way by Kafka; without one the way is HTTP.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        broker: Broker | None = None,
        servers: dict[str, Postgres] | None = None,
    ) -> None:
        self.folder, self.seed, self.broker = folder, seed, broker
        self.servers = servers or {}
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        self._port = free_port()
        self._began = 0
        folder.mkdir(parents=True, exist_ok=True)
        self.urls = {name: self._url(name) for name in (ORDERS_SERVER, WAREHOUSE_SERVER)}

    def _url(self, name: str) -> str:
        server = self.servers.get(name)
        if server is None:
            return f"sqlite:///{self.folder}/{name.replace(' ', '-')}.sqlite"
        return server.new_database(f"soak_{self.seed}_{time.time_ns()}")

    def engine(self, name: str) -> Engine:
        """A new engine of a database."""
        return open_engine(self.urls[name])

    def begin(self) -> None:
        """Make the tables and the topic, and start all parts."""
        Orders(self.engine(ORDERS_SERVER)).make()
        make(self.engine(WAREHOUSE_SERVER))
        Cursor(self.engine(WAREHOUSE_SERVER), CURSOR)
        if self.broker is not None:
            self._make_topic(self.broker)
        for name in PARTS:
            self.start(name)

    def _make_topic(self, broker: Broker) -> None:
        admin = AdminClient({"bootstrap.servers": broker.address})
        for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            made.result()

    def start(self, name: str) -> None:
        """Start a part, or start it again."""
        self._began += 1
        environment = {**os.environ, TOKEN: f"soak-{self.seed}-0123456789"}
        if self.broker is not None:
            environment["SEQUITUR_BROKER"] = self.broker.address
        with (self.folder / f"{name.replace(' ', '-')}.log").open("ab") as log:
            self.parts[name] = subprocess.Popen(
                [sys.executable, "-m", *self._command(name)],
                env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def _command(self, name: str) -> list[str]:
        orders, warehouse = self.urls[ORDERS_SERVER], self.urls[WAREHOUSE_SERVER]
        part, kafka = "apps.soak_delivery.part", self.broker is not None
        if name in PRODUCERS:
            return [part, "produce", orders, f"{self.seed}-{name}-{self._began}"]
        if name in CONSUMERS:
            return [part, "consume", warehouse, "1" if name == CONSUMERS[0] else "20"]
        if name in RELAYS:
            way = ["kafka"] if kafka else ["http", "--to", f"http://{HOST}:{self._port}"]
            options = ["--lease", f"{LEASE}", "--acknowledged", "10", "--page", "300"]
            return ["apps.relay", *way, "--log", orders, *options]
        way = ["feed", "--topic", TOPIC] if kafka else ["serve", "--port", str(self._port)]
        return ["apps.cursor", *way, "--store", warehouse, "--cursor", CURSOR]

    def kill(self, name: str) -> None:
        """SIGKILL."""
        part = self.parts.pop(name, None)
        if part is not None:
            part.kill()
            part.wait()

    def stop(self, name: str) -> int:
        """SIGTERM; returns the exit status. Raises RuntimeError where it does not end."""
        part = self.parts.pop(name)
        part.terminate()
        try:
            return part.wait(30)
        except subprocess.TimeoutExpired:
            part.kill()
            part.wait()
            raise RuntimeError(f"{name} did not end within 30 s of SIGTERM") from None

    def pause(self, name: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later: whoever took over is not known to it."""
        part = self.parts[name]
        part.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        part.send_signal(signal.SIGCONT)

    def kill_server(self, name: str) -> None:
        """SIGKILL a database's server, and start it again."""
        server = self.servers[name]
        server.kill()
        for _ in range(20):
            # What is left of it may hold its memory for a moment.
            with suppress(LocalError):
                server.start()
                return
            time.sleep(0.5)
        server.start()

    def kill_broker(self) -> None:
        """SIGKILL the broker, and start it again."""
        assert self.broker is not None
        self.broker.kill()
        self.broker.start()
        assert answers(HOST, self.broker.port)

    def supervise(self) -> None:
        """Start what ended, as whoever runs them would: a part whose database was away ends."""
        for name, part in list(self.parts.items()):
            if part.poll() is not None:
                self.start(name)

    def settle(self, seconds: float) -> list[str]:
        """Stop the producers, wait until all is delivered, stop; returns what is wrong then."""
        for name in PRODUCERS:
            if name in self.parts:
                self.stop(name)
        until = time.monotonic() + seconds
        wrong = ["nothing was compared"]
        while wrong and time.monotonic() < until:
            self.supervise()
            time.sleep(0.3)
            try:
                wrong = self.wrong()
            except SQLAlchemyError as error:
                wrong = [str(error)]
        ended = {name: self.stop(name) for name in list(self.parts)}
        wrong = wrong or self.wrong()
        return wrong + [f"{name} ended with {status}" for name, status in ended.items() if status]

    def wrong(self) -> list[str]:
        """How the two databases differ, in words."""
        orders = Orders(self.engine(ORDERS_SERVER)).all()
        warehouse = self.engine(WAREHOUSE_SERVER)
        found = stock.differences(orders, warehouse)
        processed = seen(warehouse)
        for order, (_, _, changes) in orders.items():
            if processed.get(order) != list(range(1, changes + 1)):
                found.append(f"order {order}: 1 to {changes} were processed as {processed[order]}")
        left = counts(Cursor(warehouse, CURSOR))
        if left.messages or left.parked or left.dead:
            found.append(f"the cursor is not empty: {left}")
        if rest := self._rest():
            found.append(f"{rest} messages are in the log that were delivered")
        return found

    def _rest(self) -> int:
        orders = Orders(self.engine(ORDERS_SERVER))
        with orders.engine.connect() as connection:
            return len(orders.log.read_after(connection).messages)

    def messages(self) -> int:
        """How many were processed."""
        return sum(map(len, seen(self.engine(WAREHOUSE_SERVER)).values()))

    def close(self) -> None:
        """Kill what runs."""
        for name in list(self.parts):
            with suppress(ProcessLookupError):
                self.parts[name].send_signal(signal.SIGCONT)
            self.kill(name)
