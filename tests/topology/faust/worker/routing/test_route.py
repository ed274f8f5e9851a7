"""Routing by a worker, in a stage or by a view's verbs: once over kills, and in order."""

import random
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from tests.conftest import BrokerAddress, make_topics
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Topology
from topology.faust import compile
from topology.routing import JsonKeys, RoutedSource, Rule, RuleSet, when

prefix = os.environ["PREFIX"]
rules = RuleSet(
    7,
    sources=[RoutedSource(f"{prefix}.in", ("even", "all"), module="numbers")],
    rules=[
        Rule("even", when=(when("even", equals=1),), to=("even",)),
        Rule("all", when=(when("n", exists=True),), to=("all",)),
    ],
    destinations={"even": None, "all": None},
    modules={"numbers": JsonKeys({"n": "n", "even": "even"})},
)
topology = Topology(prefix)
to = {"even": f"{prefix}.even", "all": f"{prefix}.all"}
topology.route("numbers", rules=rules, partitions=2, to=to)
app = compile(topology, session_timeout=60, batch=50)
"""
COUNT = 3_000


def test_each_message_is_routed_once_and_in_order_over_kills(
    broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path
) -> None:
    worker = Worker(broker.address, unique("routed"), tmp_path, APP)
    prefix = worker.prefix
    # One destination has as many partitions as the source, the other has more.
    make_topics(broker.address, NewTopic(f"{prefix}.all", 3, 1))
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(COUNT):
        value = orjson.dumps({"n": number, "even": int(number % 2 == 0)})
        key = None if number % 3 else b"%d" % (number % 7)
        producer.produce(f"{prefix}.in", value, key, partition=number % 2)
    producer.produce(f"{prefix}.in", b"not JSON", partition=0)
    assert producer.flush(120) == 0
    try:
        worker.start()
        worker.wait_until(lambda: worker.count("all") >= COUNT // 10)
        worker.end(signal.SIGKILL)
        worker.start()
        every, even = worker.wait("all", COUNT), worker.wait("even", COUNT // 2)
        (malformed,) = worker.wait("malformed", 1)
        assert malformed.value() == b"not JSON"
        said = worker.run("views").stdout
        assert f"route numbers: {COUNT + 1:,} messages, of them 1 malformed" in said
        assert f"0 without a destination, {COUNT} routed" in said
        audited = worker.run("audit")
        assert audited.returncode == 1
        assert "in order, but not complete: 1 malformed\n" in audited.stdout
        assert "no gaps: " in worker.run("gaps").stdout
        assert worker.end(signal.SIGTERM) == 0
        nobody = f"route numbers: no worker has {prefix}.in/0, {prefix}.in/1"
        worker.wait_until(lambda: nobody in worker.run("views").stdout)
        done = worker.run("gaps")
        assert (done.returncode, nobody in done.stdout) == (1, True), done.stdout
    finally:
        worker.kill()
    for records, numbers in ((every, range(COUNT)), (even, range(0, COUNT, 2))):
        found = [orjson.loads(each.value() or b"")["n"] for each in records]
        assert sorted(found) == list(numbers)
        assert {dict(each.headers() or ())["sequitur-rules"] for each in records} == {b"7"}
        order: dict[object, list[int]] = defaultdict(list)
        for each, number in zip(records, found, strict=True):
            order[each.partition(), number % 2].append(number)
        assert all(each == sorted(each) for each in order.values())
    # Without a key, all of a partition go to one.
    places = {(n["n"] % 2, e.partition()) for e in every if e.key() is None
              for n in [orjson.loads(e.value() or b"")]}  # fmt: skip
    assert len(places) == 2


VERBS = """
import os
from topology import Inspector, Topology
from topology.faust import compile
from topology.routing import JsonKeys, RoutedSource, Rule, RuleSet, Transformation, when

prefix = os.environ["PREFIX"]
rules = RuleSet(
    7,
    sources=[RoutedSource(f"{prefix}.in", ("even",), module="numbers")],
    rules=[Rule("even", when=(when("even", equals=1),), to=("even",))],
    destinations={"even": "text"},
    modules={"numbers": JsonKeys({"even": "even"})},
    transformations=[Transformation("text", "json", "text", lambda content, _: content[2:-1])],
)
topology = Topology(prefix)
source = topology.source(f"{prefix}.in", inspector=Inspector("stream", "n"), partitions=2)
topology.view("plain", of=source).route(rules).to({"even": f"{prefix}.even"})
several = topology.view("several", of=source, workers=4, run_in="threads")
several.route(rules).to({"even": f"{prefix}.even-of-several"})
app = compile(topology, session_timeout=60, batch=50)
"""


def test_what_views_send_is_routed_in_sequence_once_over_kills(
    broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path
) -> None:
    worker = Worker(broker.address, unique("verbs"), tmp_path, VERBS)
    streams, each = 10, 100
    bodies = [
        orjson.dumps({"n": n, "stream": f"S{stream}", "even": int(n % 2 == 0)})
        for n in range(1, each + 1)
        for stream in range(streams)
    ]
    random.Random(1).shuffle(bodies)
    worker.send(*((None, body) for body in bodies))
    try:
        worker.start()
        worker.wait_until(lambda: worker.count("even") >= 20)
        worker.end(signal.SIGKILL)
        worker.start()
        found = [worker.wait(name, streams * each // 2) for name in ("even", "even-of-several")]
        worker.wait_until(lambda: worker.run("views").stdout.count(f" {streams * each // 2} ") >= 2)
        assert worker.end(signal.SIGTERM) == 0
    finally:
        worker.kill()
    for records in found:
        by_stream: dict[bytes | None, list[bytes | None]] = defaultdict(list)
        for record in records:
            by_stream[record.key()].append(record.value())
            assert dict(record.headers() or ())["sequitur-rules"] == b"7"
        assert by_stream == {
            f"S{stream}".encode(): [
                b'n":%d,"stream":"S%d","even":1' % (n, stream) for n in range(2, each + 1, 2)
            ]
            for stream in range(streams)
        }
