"""Broadcasts of units of work: to each listener on each transport, over kill -9; and reloads."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest
from aiokafka.errors import KafkaError
from confluent_kafka.cimpl import NewTopic

from sequitur.cli.main import main
from sequitur.route import agreed_rules, listen_command
from sequitur.route.agreed_rules import AgreedRules
from sequitur.route.loading import load_units
from sequitur.route.replay_way import registered
from soak.check import read
from stores.segments import InboundMessage, SegmentError
from tests.conftest import BrokerAddress, make_topics
from tests.forked import spawned
from topology.declaration.route import Route
from topology.faust.kafka.topics import Topic
from topology.model.errors import DeclarationError
from topology.routing import Agreement, Endpoint, Listening, RuleSet, broadcast_of

ROUTER = """
[router]
name = "NAME"
site = "berlin"
[units]
ledger = "sqlite:///FOLDER/ledger.db"
errors = { transport = "disk", destination = "errors" }
lease = 1.0
batch = { count = 10, idle = 0.01 }
control = "kafka"
[transport.disk]
kind = "files"
[transport.kafka]
kind = "kafka"
broker = "BROKER"
[source.lines]
place = "lines.txt"
rules = ["work", "halt"]
[keymap.makers]
file = "makers.csv"
[rule.work]
when = { key = "maker", exists = true }
key = "maker"
keymap = "makers"
outbound = "makers"
[outbound.makers]
big = { to = "right" }
[rule.halt]
when = { key = "halt", exists = true }
broadcast = "site"
action = "mark"
[destination.right]
[destination.left]
transport = "kafka"
address = "NAME.left"
"""
EAR = """
name = "ear"
destination = "left"
lifetime = "600s"
[action.mark]
command = [{python}, "-c", "{code}"]
"""
CODE = "import sys; said = sys.stdin.read(); said and open({marks}, 'a').write(said + chr(10))"


def written(folder: Path, broker: str = "127.0.0.1:9", name: str = "shop") -> Path:
    text = ROUTER.replace("FOLDER", str(folder)).replace("BROKER", broker).replace("NAME", name)
    (folder / "makers.csv").write_text("maker,tag\nboeing,big\n")
    path = folder / "router.toml"
    path.write_text(text)
    return path


def test_each_listener_of_the_scope_gets_a_broadcast_at_an_address_of_its_own(
    tmp_path: Path,
) -> None:
    routing = load_units(written(tmp_path)).routing
    own = Listening(30, "s", actions=("mark",))
    listeners = [
        Endpoint("ear", "left", None, own),
        Endpoint("far", "right", None, Listening(30, "s")),
        Endpoint("oslo", "left", None, Listening(30, "s", site="oslo")),
    ]
    routing._by_topic["lines"] = routing._rules.with_endpoints(7, listeners)
    made = routing.route(InboundMessage("lines", 0, 5, 6, b'{"halt": 1}'))
    assert [(each.transport, each.destination) for each in made] == [
        ("kafka", "shop.left.ear"),
        ("disk", "right.far"),
    ]
    told = [broadcast_of(each.headers) for each in made]
    assert told == [("berlin/shop/lines/0/5", ("mark",)), ("berlin/shop/lines/0/5", ())]
    queued = InboundMessage("lines", 0, 5, 6, b'{"halt": 1}', stream="a/b", sequence=3)
    ids = {
        broadcast_of(routing.route(each)[0].headers)
        for at in (5, 6)
        for each in [
            InboundMessage(
                *("lines", 0, at, at + 1, b'{"halt": 1}'),
                stream=queued.stream,
                sequence=3,
                replayable=False,
            )
        ]
    }
    assert ids == {("berlin/shop/stream/lines/a%2Fb/3", ("mark",))}, "wherever a queue has it"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('control = "kafka"', "", "set control in"),
        ('control = "kafka"', 'control = "disk"', "give a transport of Kafka: kafka"),
        ('control = "kafka"', 'control = "none"', "give a transport of Kafka: kafka"),
    ],
)
def test_a_broadcast_without_a_control_topic_is_refused(
    old: str, new: str, reason: str, tmp_path: Path
) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DeclarationError, match=reason):
        load_units(path)


@pytest.mark.parametrize("servers", ["there:9092", "127.0.0.1:9"])
async def test_a_destination_in_another_kafka_than_control_has_no_listeners(
    servers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By another name, it may be the same one."""
    path, ear = written(tmp_path), tmp_path / "ear.toml"
    far = f'[transport.far]\nkind = "kafka"\nbroker = "{servers}"\n[source'
    text = path.read_text().replace("[source", far, 1)
    path.write_text(text.replace('transport = "kafka"\naddress', 'transport = "far"\naddress'))
    ear.write_text(f'name = "ear"\ndestination = "left"\nstate = "sqlite:///{tmp_path}/done"\n')
    heard, made = list[str](), list[str]()

    async def create(_: object, topics: list[Topic], __: int) -> None:
        made.append(topics[0].name)

    async def one(*_: object) -> int:
        return 1

    def run(start: Any) -> int:
        heard.append(start.__self__._topic)
        return 0

    monkeypatch.setattr(listen_command, "run_until_stopped", run)
    monkeypatch.setattr(agreed_rules, "RouterProcess", Registered)
    monkeypatch.setattr(agreed_rules, "create_topics", create)
    monkeypatch.setattr(agreed_rules, "partition_count", one)
    routing, same = load_units(path).routing, servers == "127.0.0.1:9"
    await routing.prepare("lines", False)
    await routing.stop()
    assert ("shop.left.ear" in made) == same
    words = ["route", "listen", str(path), str(ear)]
    assert await asyncio.to_thread(main, words) == (0 if same else 2)
    said = (
        "destination 'left' is in transport 'far', and a listener hears by that of control, 'kafka'"
    )
    assert (said in caplog.text) != same
    ear.write_text(f'topic = "copied"\n{ear.read_text()}')
    assert await asyncio.to_thread(main, words) == 0
    assert heard == (["shop.left.ear"] if same else []) + ["copied.ear"]


class FakeProcess:
    """A process of a router whose log is read up to `read`, and says that version 3 is decided."""

    made: ClassVar[list["FakeProcess"]] = []

    def __init__(self, kafka: object, route: Route, expiry: float, crash: Any) -> None:
        self.route, self.crash, self.read, self.member = route, crash, 0, self
        self.running, self.agreement = False, Agreement()
        self.made.append(self)

    def start(self) -> None:
        self.running = True

    async def stop(self) -> None:
        self.running = False

    def rules_for(self, topic: str, version: int) -> RuleSet:
        return self.route.rules.with_endpoints(3 if self.read >= 9 else 2, [])


async def test_who_takes_a_source_over_routes_by_no_version_before_that_of_the_one_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(_: AgreedRules) -> int:
        return 9

    async def nothing(*_: object) -> None:
        """No topic is made."""

    monkeypatch.setattr(agreed_rules, "RouterProcess", FakeProcess)
    monkeypatch.setattr(agreed_rules, "create_topics", nothing)
    monkeypatch.setattr(AgreedRules, "_end", end)
    units = load_units(written(tmp_path))
    preparing = asyncio.create_task(units.routing.prepare("lines", True))
    while not FakeProcess.made:
        await asyncio.sleep(0.01)
    (process,) = FakeProcess.made
    await asyncio.sleep(0.3)
    assert not preparing.done(), "the log is not read up to where the one ahead may have been"
    process.read = 9
    await preparing
    made = units.routing.route(InboundMessage("lines", 0, 0, 1, b'{"maker": "boeing"}'))
    assert dict(made[0].headers)["sequitur-rules"] == b"3"
    # What ends its part is told, and it takes part anew.
    await process.crash(DeclarationError("topic has lost its first records"))
    with pytest.raises(SegmentError, match="has lost its first records"):
        await units.routing.prepare("lines", False)
    assert not process.running
    await units.routing.prepare("lines", False)
    assert FakeProcess.made[-1].running
    await units.routing.stop()
    assert not FakeProcess.made[-1].running


class Registered(FakeProcess):
    """One where a listener has registered."""

    made: ClassVar[list[FakeProcess]] = []

    def rules_for(self, topic: str, version: int) -> RuleSet:
        return self.route.rules.with_endpoints(2, [Endpoint("ear", "left")])


async def test_an_endpoint_s_topic_that_could_not_be_made_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = list[int]()

    async def create(_: object, topics: list[Topic], __: int) -> None:
        if topics[0].name == "shop.left.ear":
            tried.append(topics[0].partitions)
            if len(tried) == 1:
                raise KafkaError("the controller is away")

    async def three(*_: object) -> int:
        return 3

    monkeypatch.setattr(agreed_rules, "RouterProcess", Registered)
    monkeypatch.setattr(agreed_rules, "create_topics", create)
    monkeypatch.setattr(agreed_rules, "partition_count", three)
    routing = load_units(written(tmp_path)).routing
    for _ in range(2):
        await routing.prepare("lines", False)
    assert tried == [3], "not before a pause"
    monkeypatch.setattr(agreed_rules, "_AGAIN", 0.0)
    for _ in range(2):
        await routing.prepare("lines", False)
    assert tried == [3, 3], "it is there now"
    await routing.stop()


@dataclass
class Commands:
    folder: Path
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        with (self.folder / "log").open("ab") as out:
            command = [sys.executable, "-m", "sequitur", "route", *words]
            self.running.append(spawned(command, output=out))
        return self.running[-1]

    def order(self, *words: str) -> tuple[int, str]:
        with redirect_stdout(StringIO()) as said:
            return main(["route", *words]), said.getvalue()

    def wait_until(self, true: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not true():
            if time.monotonic() > end:
                pytest.fail((self.folder / "log").read_text())
            time.sleep(0.1)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    found = Commands(tmp_path)
    yield found
    for process in found.running:
        process.kill()
        process.wait()


@pytest.mark.integration
def test_a_broadcast_reaches_listeners_on_each_transport_in_its_place_over_kill_9(
    broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path, commands: Commands
) -> None:
    name, marks, ear = unique("units"), tmp_path / "marks", tmp_path / "ear.toml"
    router, python = str(written(tmp_path, broker.address, name)), orjson.dumps(sys.executable)
    marks.touch()
    ear.write_text(EAR.format(python=python.decode(), code=CODE.format(marks=repr(str(marks)))))
    make_topics(broker.address, NewTopic(f"{name}.left", 2, 1))
    assert registered({}, Path(router)) == [], "no router has run"
    lines, sent = tmp_path / "lines.txt", list[int]()

    def send(count: int, maker: str) -> None:
        with lines.open("ab") as file:
            for n in range(len(sent), len(sent) + count):
                what = {"halt": True} if n % 5 == 3 else {"maker": maker}
                file.write(orjson.dumps({"n": n, **what}) + b"\n")
                sent.append(n)

    def came(at: str) -> list[int]:
        file = tmp_path / f"{at}+lines.lines"
        return (
            [orjson.loads(line)["n"] for line in file.read_bytes().splitlines()]
            if (file.exists())
            else []
        )

    lines.touch()
    consumer = commands.start("consume", router)
    commands.start("publish", router)
    far = ("register", router, "far", "right", "--lifetime", "600s")
    commands.wait_until(lambda: commands.order(*far)[0] == 0)
    commands.start("listen", router, str(ear))
    commands.wait_until(lambda: "listener ear" in commands.order("status", router)[1])
    assert {each.name for each in registered({}, Path(router))} == {"ear", "far"}
    send(50, "boeing")
    commands.wait_until(lambda: len(came("right.far")) > 10)
    consumer.kill()
    consumer.wait()
    send(50, "boeing")
    commands.start("consume", router)
    commands.wait_until(lambda: len(came("right.far")) >= 100)
    halts = {n for n in sent if n % 5 == 3}
    assert came("right.far") == sent, "what goes to its destination, and broadcasts among that"

    def heard() -> list[int]:
        told = read(broker.address, f"{name}.left.ear")
        return [orjson.loads(each.value() or b"")["n"] for each in told]

    # Each transport publishes a series of its own: one may be behind the other.
    commands.wait_until(lambda: len(heard()) >= len(halts))
    assert sorted(heard()) == sorted(halts)
    commands.wait_until(lambda: marks.read_bytes().count(b"\n") >= len(halts))
    assert marks.read_bytes().count(b"\n") == len(halts), "each action once"
    # The tables are loaded again by all, once somebody says that they are stale.
    (tmp_path / "makers.csv").write_text("maker,tag\nboeing,big\nairbus,big\n")
    assert commands.order("reload", router, "makers", "--reason", "a new maker")[0] == 0
    send(10, "airbus")
    commands.wait_until(lambda: came("right.far") == sent)
