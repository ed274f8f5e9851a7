"""New tables while messages flow, in two workers of which one is killed while it loads them."""

import json
import signal
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.cimpl import NewTopic

from sequitur.cli.main import main
from tests.conftest import BrokerAddress, make_topics
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import json, os, time
from pathlib import Path
from topology import Topology
from topology.faust import compile
from topology.routing import JsonKeys, Keymap, RoutedSource, Rule, RuleSet

prefix, folder = os.environ["PREFIX"], Path(__file__).parent

def table():
    if (folder / f"slow-{os.environ['SEQUITUR_INSTANCE']}").exists():
        time.sleep(600)
    return Keymap("makers", json.loads((folder / "makers.json").read_text()))

def reload(load, before):
    return rules(load.version) if before is None else before.with_keymaps(load.version, [table()])

def rules(number):
    return RuleSet(
        number,
        sources=[RoutedSource(f"{prefix}.in", ("maker",))],
        rules=[Rule("maker", key="maker", keymap="makers", outbound="to")],
        destinations={"a": None, "b": None},
        keymaps=[table()],
        outbound={"to": {"a": "a", "b": "b"}},
    )

topology = Topology(prefix)
to = {name: f"{prefix}.{name}" for name in "ab"}
topology.route("makers", rules=rules(1), partitions=2, to=to, reload=reload)
app = compile(topology, session_timeout=20, batch=20, broker_heartbeat_interval=1.0)
"""


def order(worker: Worker, *words: str) -> tuple[int, str]:
    topic = f"{worker.prefix}.makers.control"
    command, *rest = words
    with redirect_stdout(StringIO()) as said:
        status = main(["route", command, topic, *rest, "--broker", worker.broker])
    return status, said.getvalue()


def version_of(record: Message) -> int:
    return int(str(dict(record.headers() or ())["sequitur-rules"], "ascii"))  # type: ignore[arg-type]


class Feed:
    """Numbered messages to both partitions; the table says where each of two makers goes."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.count = worker, 0
        self.producer = Producer({"bootstrap.servers": worker.broker})

    def send(self, count: int) -> None:
        for number in range(self.count, self.count + count):
            value = orjson.dumps({"n": number, "maker": "x" if number % 4 < 2 else "y"})
            self.producer.produce(f"{self.worker.prefix}.in", value, partition=number % 2)
        assert self.producer.flush(120) == 0
        self.count += count

    def routed(self) -> dict[str, list[Message]]:
        return {name: self.worker.records(name) for name in "ab"}

    def all_there(self) -> bool:
        return sum(map(len, self.routed().values())) >= self.count


def versions(feed: Feed, tables: dict[int, dict[str, str]]) -> dict[int, list[int]]:
    """Version by version of each inbound partition, once all is found to be as it should."""
    seen: dict[int, tuple[int, str]] = {}
    for name, records in feed.routed().items():
        order: dict[int, list[int]] = defaultdict(list)
        for record in records:
            found, version = orjson.loads(record.value() or b""), version_of(record)
            number = found["n"]
            assert tables[version].get(found["maker"]) == name, (number, version, name)
            assert number not in seen
            seen[number] = version, name
            order[number % 2].append(number)
        assert all(each == sorted(each) for each in order.values())
    assert sorted(seen) == list(range(feed.count))
    by_partition = {place: [seen[n][0] for n in sorted(seen) if n % 2 == place] for place in (0, 1)}
    assert all(each == sorted(each) for each in by_partition.values())
    return by_partition


def test_no_message_is_routed_by_a_mix_though_a_worker_is_killed_in_the_middle_of_a_reload(
    broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path
) -> None:
    first = Worker(broker.address, unique("reload"), tmp_path, APP)
    table, old, new = tmp_path / "makers.json", {"x": "a", "y": "b"}, {"x": "b", "y": "b"}
    table.write_text(json.dumps(old))
    second, feed = first.another("two"), Feed(first)
    try:
        first.start()
        second.start()
        feed.send(400)
        first.wait_until(lambda: feed.all_there() and first.count("makers.control") > 0)
        first.wait_until(lambda: order(first, "status")[1].count("process") == 2)

        # What cannot be loaded leaves the old rules, and says so.
        table.write_text("{")
        status, said = order(first, "reload", "makers")
        assert status == 1
        assert "could not load it" in said
        assert order(first, "status")[0] == 1
        feed.send(100)
        first.wait_until(feed.all_there)

        # One of two hangs in the load, and is killed there: what uses the table waits until then.
        table.write_text(json.dumps(new))
        (tmp_path / "slow-two").touch()
        status, said = order(first, "reload", "makers", "--wait", "2s", "--reason", "a new fleet")
        assert status == 1
        assert "not decided" in said
        feed.send(300)
        assert "a new fleet" in order(first, "status")[1]
        second.end(signal.SIGKILL)
        first.wait_until(feed.all_there)
        (tmp_path / "slow-two").unlink()
        second.start()
        first.wait_until(lambda: order(first, "status")[1].count("process") == 2)
        feed.send(100)
        first.wait_until(feed.all_there)
        first.wait_until(lambda: order(first, "status")[0] == 0)
        assert first.end(signal.SIGTERM) == 0
        assert second.end(signal.SIGTERM) == 0
        assert "no process runs" in order(first, "status")[1]
    finally:
        first.kill()
        second.kill()
    highest = max(version_of(each) for records in feed.routed().values() for each in records)
    found = versions(feed, dict.fromkeys(range(highest), old) | {highest: new})
    assert all(len(set(each)) >= 2 for each in found.values())


def test_what_a_destination_refuses_fails_alone_and_the_others_go_on(
    broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path
) -> None:
    worker = Worker(broker.address, unique("refused"), tmp_path, APP)
    (tmp_path / "makers.json").write_text(json.dumps({"x": "a", "y": "b"}))
    small = NewTopic(f"{worker.prefix}.a", 1, 1, config={"max.message.bytes": "20000"})
    make_topics(broker.address, small)
    feed = Feed(worker)
    large = orjson.dumps({"n": -1, "maker": "x", "body": "b" * 50_000})
    feed.send(20)
    feed.producer.produce(f"{worker.prefix}.in", large, partition=0)
    feed.send(20)
    try:
        worker.start()
        worker.wait_until(lambda: feed.all_there() and worker.count("malformed") == 1)
        assert worker.end(signal.SIGTERM) == 0
    finally:
        worker.kill()
    (failed,) = worker.records("malformed")
    assert failed.value() == large
    reason = str(dict(failed.headers() or ())["sequitur-reason"])
    assert "larger than the topic's max.message.bytes" in reason
    assert set(versions(feed, {1: {"x": "a", "y": "b"}})) == {0, 1}
