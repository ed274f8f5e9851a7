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
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from checkout.postgres import Postgres
from sequitur.cli.running import TOKEN
from sequitur.cli.signals import check_interrupted
from sequitur.local.broker import Broker
from sequitur.local.home import LocalError
from sequitur.local.ports import HOST, free_port
from sequitur.local.process import spawn
from soak.ended import ended
from soak_delivery.part import INBOX, LOG, SEEN, make, seen
from stores.db.engines import open_engine
from stores.inbox.commands import counts
from stores.inbox.inbox import Inbox
from stores.outbox.log import MessageLog
from warehouse import stock
from warehouse.orders import TOPIC, Orders

LEASE = 2.0
RESOLVED = 240.0
"""Seconds within which what is in doubt has to be resolved."""
PARTITIONS = 3
PRODUCERS = ("producer 1", "producer 2")
RELAYS = ("relay 1", "relay 2")
CONSUMERS = ("consumer 1", "consumer 2")
RECEIVER = "receiver"
PARTS = (*PRODUCERS, *RELAYS, RECEIVER, *CONSUMERS)
ORDERS_SERVER, WAREHOUSE_SERVER = "orders database", "warehouse database"
LOG_SERVER, INBOX_SERVER = "log database", "inbox database"
WITHIN = {LOG_SERVER: ORDERS_SERVER, INBOX_SERVER: WAREHOUSE_SERVER}
"""What is in another one's database, unless it is apart."""
SIDES = {"producers": (ORDERS_SERVER, LOG, LOG_SERVER),
         "consumers": (WAREHOUSE_SERVER, INBOX, INBOX_SERVER)}  # fmt: skip
"""Who decides in which database, and the name and database of who takes part, if it is apart."""


class Fleet:
    """Everything of one soak, in `folder`. servers: the databases' own, by name; none for SQLite,
    and those of log and inbox only if they are apart, for two-phase commit.

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
        self.apart = LOG_SERVER in self.servers
        self.urls = {name: self._url(name) for name in (ORDERS_SERVER, WAREHOUSE_SERVER)}
        for name, other in WITHIN.items():
            self.urls[name] = self._url(name) if self.apart else self.urls[other]
        self._engines = {name: open_engine(url) for name, url in self.urls.items()}
        self._warehouse = self.engine(WAREHOUSE_SERVER)

    def _url(self, name: str) -> str:
        server = self.servers.get(name)
        if server is None:
            return f"sqlite:///{self.folder}/{name.replace(' ', '-')}.sqlite"
        return server.new_database(f"soak_{self.seed}_{time.time_ns()}")

    def engine(self, name: str) -> Engine:
        """The engine of a database."""
        return self._engines[name]

    def begin(self) -> None:
        """Make the tables and the topic, start all parts, and wait until they work."""
        Orders(self.engine(ORDERS_SERVER), apart=self.engine(LOG_SERVER)).make()
        make(self.engine(WAREHOUSE_SERVER))
        Inbox(self.engine(INBOX_SERVER), INBOX)
        if self.broker is not None:
            self._make_topic(self.broker)
        for name in PARTS:
            self.start(name)
        if not self.progress(300):
            raise RuntimeError(f"nothing was delivered; see the logs in {self.folder}")

    def _make_topic(self, broker: Broker) -> None:
        admin = AdminClient({"bootstrap.servers": broker.address})
        for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            made.result()

    def start(self, name: str) -> None:
        """Start a part, or start it again."""
        self._began += 1
        environment = {**os.environ, TOKEN: f"soak-{self.seed}-0123456789"}
        environment["PYTHONFAULTHANDLER"] = "1"  # see soak.ended
        if self.broker is not None:
            environment["SEQUITUR_BROKER"] = self.broker.address
        with self._log(name).open("ab") as log:
            command = [sys.executable, "-m", *self._command(name)]
            self.parts[name] = spawn(command, env=environment, output=log)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.log"

    def _command(self, name: str) -> list[str]:
        orders, log = self.urls[ORDERS_SERVER], self.urls[LOG_SERVER]
        warehouse, inbox = self.urls[WAREHOUSE_SERVER], self.urls[INBOX_SERVER]
        part, kafka = "soak_delivery.part", self.broker is not None
        if name in PRODUCERS:
            return [part, "produce", orders, log, f"{self.seed}-{name}-{self._began}"]
        if name in CONSUMERS:
            return [part, "consume", warehouse, inbox, "1" if name == CONSUMERS[0] else "20"]
        if name in RELAYS:
            way = ["kafka"] if kafka else ["http", "--to", f"http://{HOST}:{self._port}"]
            options = ["--lease", f"{LEASE}s", "--ack-timeout", "10s", "--batch", "300"]
            return ["sequitur", "relay", *way, "--database", log, *options]
        way = ["feed", "--topic", TOPIC] if kafka else ["serve", "--port", str(self._port)]
        return ["sequitur", "inbox", *way, "--database", inbox, "--name", INBOX]

    def kill(self, name: str) -> None:
        """SIGKILL."""
        part = self.parts.pop(name, None)
        if part is not None:
            part.kill()
            part.wait()

    def stop(self, name: str) -> int:
        """SIGTERM; returns the exit status. Raises RuntimeError where it does not end."""
        part = self.parts.pop(name)
        listens = _takes_sigterm(part.pid)
        part.terminate()
        status = ended(part, 240, self._log(name))
        # One that has hardly begun does not listen to signals yet, and has nothing to end.
        return 0 if not listens and status == -signal.SIGTERM else status

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
        for _ in range(200):
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

    def supervise(self) -> None:
        """Start what ended, as whoever runs them would: a part whose database was away ends."""
        check_interrupted()
        for name, part in list(self.parts.items()):
            if part.poll() is not None:
                self.start(name)

    def settle(self, seconds: float) -> list[str]:
        """Stop the producers, wait until all is delivered, stop; returns what is wrong then."""
        for name in PRODUCERS:
            if name in self.parts:
                self.stop(name)
        if self.apart:
            # Nobody is left to resolve it: a producer may have been stopped when a server was away.
            self.resolve("producers", RESOLVED)
        until = time.monotonic() + seconds
        wrong = ["nothing was compared"]
        while wrong and time.monotonic() < until:
            self.supervise()
            time.sleep(0.3)
            try:
                wrong = self.wrong()
            except SQLAlchemyError as error:
                wrong = [str(error)]
        statuses = {name: self.stop(name) for name in list(self.parts)}
        wrong = wrong or self.wrong()
        if self.apart:
            sides = [side for side in SIDES if not self.resolve(side, RESOLVED)]
            wrong += [f"what {side} did is still in doubt" for side in sides]
        return wrong + [
            f"{name} ended with {status}" for name, status in statuses.items() if status
        ]

    def wrong(self) -> list[str]:
        """How the two databases differ, in words."""
        orders = Orders(self.engine(ORDERS_SERVER)).all()
        warehouse = self.engine(WAREHOUSE_SERVER)
        found = stock.differences(orders, warehouse)
        processed = seen(warehouse)
        for order, (_, _, changes) in orders.items():
            came = processed.get(order, [])
            if came != list(range(1, changes + 1)):
                found.append(f"order {order}: of 1 to {changes} came {came}")
        left = counts(Inbox(self.engine(INBOX_SERVER), INBOX))
        if left.messages or left.parked or left.dead:
            found.append(f"the inbox is not empty: {left}")
        if rest := self._rest():
            found.append(f"{rest} messages are in the log that were delivered")
        return found

    def _rest(self) -> int:
        with self.engine(LOG_SERVER).connect() as connection:
            return len(MessageLog().read_after(connection).messages)

    def resolve(self, side: str, seconds: float) -> bool:
        """Resolve by command what a side left in doubt; whether nothing is in doubt any more."""
        deciding, name, server = SIDES[side]
        databases = ["--decisions", self.urls[deciding], "--participant"]
        command = ["sequitur", "two-phase", "resolve", *databases, f"{name}={self.urls[server]}"]
        until = time.monotonic() + seconds
        with (self.folder / "resolve.log").open("ab") as log:
            while time.monotonic() < until:
                done = subprocess.run(
                    [sys.executable, "-m", *command], stdout=log, stderr=subprocess.STDOUT
                )
                if done.returncode == 0:
                    return True
        return False

    def messages(self) -> int:
        """How many were processed; -1 while the database is away."""
        with suppress(SQLAlchemyError), self._warehouse.connect() as connection:
            return connection.execute(select(func.count()).select_from(SEEN)).scalar_one()
        return -1

    def progress(self, seconds: float) -> bool:
        """Wait until more messages are processed than now; whether there were."""
        before, until = self.messages(), time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.05)
            if self.messages() > max(before, 0):
                return True
            self.supervise()
        return False

    def close(self) -> None:
        """Kill what runs."""
        for name in list(self.parts):
            with suppress(ProcessLookupError):
                self.parts[name].send_signal(signal.SIGCONT)
            self.kill(name)
        for engine in self._engines.values():
            engine.dispose()


def _takes_sigterm(pid: int) -> bool:
    """Whether a process has a handler of SIGTERM by now; not known but on Linux."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, caught = line.partition(":")
            if name == "SigCgt":
                return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)
    return False
