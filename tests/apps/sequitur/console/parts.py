"""What runs beside the worker of the console's tests: one of each kind that has a page."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from stores.db.engines import open_engine
from stores.inbox.inbox import Inbox
from stores.message import Message
from stores.outbox import MessageLog, Outbox
from stores.replay import CapturedMessage, FieldKind, ReplayLog
from stores.sinks import open_sink
from stores.units import UnitProducer
from tests.contracts.inbox.parking import fail
from tests.forked import ForkedWorker
from tests.topology.faust.worker_process import Worker
from topology import Table

SMALL = Table("small", {"stream": str}, {"seq": int, "note": str})
TIME = 1_767_225_600_000
SECRET = "a-token-of-unit-servers"
ROUTER = """
[router]
name = "{name}.router"
broker = "{broker}"
partitions = 1
parks = true

[source."{name}.routed"]
module = "gate"
rules = ["all"]

[module.gate]
format = "json"
keys = {{ gate = "gate" }}

[rule.all]
when = {{ key = "gate", equals = "A1" }}
to = "out"

[destination.out]
address = "{name}.out"
"""
SITES = """
own = "newark"
topics = ["{name}.in"]
[site.newark]
broker = "{broker}"
[site.kennedy]
broker = "127.0.0.1:9"
"""
REPLAY = """
[replay]
broker = "{broker}"
database = "sqlite:///{folder}/replay.sqlite"
site = "ewr"
[server]
port = 0
[field.tail]
path = "tail"
"""


@dataclass
class Parts:
    """words: of the console's options. processes: that run."""

    words: list[str]
    processes: list[ForkedWorker]

    def kill(self) -> None:
        for each in self.processes:
            each.kill()
            each.wait()


def parts_of(worker: Worker, folder: Path) -> Parts:
    """Start and fill them; the read store's rows come later."""
    name, places = worker.prefix, {"name": worker.prefix, "broker": worker.broker, "folder": folder}
    for file, text in (("router", ROUTER), ("sites", SITES), ("replay", REPLAY)):
        (folder / f"{file}.toml").write_text(text.format(**places))
    admin = AdminClient({"bootstrap.servers": worker.broker})
    topics = [NewTopic(f"{name}.{each}", 1, 1) for each in ("routed", "out", "units", "again")]
    for made in admin.create_topics(topics).values():
        made.result()
    worker.send((b"r", b"no JSON"), (b"r", b'{"gate": "A1"}'), topic="routed")
    kafka = {"bootstrap_servers": worker.broker}
    asyncio.run(_send_units(kafka, f"{name}.units"))
    _fill_databases(folder)
    units = ["--destination", f"{name}.units", "--group", "billing"]
    environment = {**worker.environment, "UNITS_TOKEN": SECRET, "SEQUITUR_BROKER": worker.broker}
    environment["SEQUITUR_DATADIR"] = str(folder / "router-data")
    environment["SEQUITUR_REPLAY_TOKEN"] = SECRET
    serve = [
        ["sequitur", "route", "serve", str(folder / "router.toml")],
        ["sequitur", "units", "serve", *units, "--port", "0"],
        ["sequitur", "replay", "serve", str(folder / "replay.toml")],
    ]
    processes = [ForkedWorker(words, environment, folder / f"{words[1]}.log") for words in serve]
    (folder / "store.url").write_text(f"sqlite:///{folder}/store.sqlite")
    options = {
        "--read-store": f"@{folder}/store.url",
        "--relay": f"--database sqlite:///{folder}/orders.sqlite",
        "--inbox": f"--database sqlite:///{folder}/warehouse.sqlite --name warehouse",
        "--units": " ".join(units),
        "--router": f"{folder}/router.toml",
        "--sites": f"{folder}/sites.toml",
        "--replay": f"{folder}/replay.toml",
    }
    return Parts([word for option in options.items() for word in option], processes)


async def _send_units(kafka: dict[str, str], topic: str) -> None:
    async with UnitProducer(topic, kafka) as producer:
        await producer.unit("order-7").send(b"one")


def _fill_databases(folder: Path) -> None:
    orders, log = open_engine(f"sqlite:///{folder}/orders.sqlite"), MessageLog()
    log.create(orders)
    with orders.begin() as connection:
        Outbox(log).capture(connection, "orders", "A-17", "Placed", {"item": "bolts"})
    warehouse = open_engine(f"sqlite:///{folder}/warehouse.sqlite")
    inbox = Inbox(warehouse, "warehouse", attempts=1)
    inbox.receive([Message("orders", "A-17", n, None, b"") for n in (1, 2, 5)])
    fail(inbox, 1)
    found = ReplayLog(open_engine(f"sqlite:///{folder}/replay.sqlite"), {"tail": FieldKind.TEXT})
    found.create()
    messages = [
        CapturedMessage(
            "moves", 0, n, b'{"leg": %d}' % n, time=TIME + n * 60_000, site="ewr",
            stream=f"N{n}", sequence=1, metadata={"tail": f"N{n % 2}"},
        )
        for n in range(10)
    ]  # fmt: skip
    found.append("moves", messages, {0: 10})


def fill_read_store(worker: Worker, folder: Path) -> None:
    """What a materializer would make of a view's output topic, and of what is no row change."""
    records = [
        (each.topic() or "", each.partition() or 0, each.offset() or 0, each.value())
        for each in worker.records("small")
    ]
    assert records
    topic, partition, offset, _ = records[-1]
    with open_sink(f"sqlite:///{folder}/store.sqlite", [SMALL]) as sink:
        sink.apply([*records, (topic, partition, offset + 1, b"no row change")])
