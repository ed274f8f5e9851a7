"""The router as a process: it routes as its file says, takes orders, and is audited."""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from sequitur.cli.main import main
from sequitur.local.process import spawn
from soak.check import read
from soak.ended import ended, stacks
from tests.conftest import BrokerAddress, make_topics

pytestmark = pytest.mark.integration

ROUTER = """
[router]
name = "{name}"
broker = "127.0.0.1:1"
partitions = 2
trails = "topic"
trail_function = "no_keys:no_keys"

[source."{name}.in"]
rules = ["maker"]

[rule.maker]
key = "maker"
keymap = "makers"
[rule.maker.outbound]
x = "left"
y = "right"

[keymap.makers]
file = "makers.csv"

[transformation.upper]
reads = "json"
writes = "upper"
function = "no_keys:upper"

[destination.left]
address = "{name}.left"
[destination.right]
address = "{name}.right"
"""
FUNCTIONS = """
def no_keys(trail):
    trail["trail"]["keys"] = "hidden"
    return trail if trail["outcome"] == "routed" else None

def upper(content, message):
    return content.upper()
"""


def sequitur(*words: str) -> tuple[int, str]:
    with redirect_stdout(StringIO()) as said:
        return main(["route", *words]), said.getvalue()


def test_a_router_of_a_file_routes_takes_orders_and_is_audited(
    broker: BrokerAddress,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, file = unique("router"), tmp_path / "router.toml"
    file.write_text(ROUTER.format(name=name))
    login = tmp_path / "client.properties"
    login.write_text("security.protocol=PLAINTEXT\nclient.id=router\n")
    kafka = ["--broker", broker.address, "--kafka-properties", str(login)]
    (tmp_path / "makers.csv").write_text("key,tag\nm0,x\nm1,y\n")
    (tmp_path / "no_keys.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    make_topics(broker.address, NewTopic(f"{name}.in", 2, 1))
    producer, count = Producer({"bootstrap.servers": broker.address}), 0

    def send(messages: int) -> None:
        nonlocal count
        for number in range(count, count + messages):
            value = orjson.dumps({"n": number, "maker": f"m{number % 3}"})
            producer.produce(f"{name}.in", value, partition=number % 2)
        assert producer.flush(120) == 0
        count += messages

    def records(topic: str) -> list[bytes]:
        try:
            return [each.value() or b"" for each in read(broker.address, f"{name}.{topic}")]
        except KeyError:
            return []

    def wait_until(true: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not true():
            if time.monotonic() > end:
                pytest.fail(stacks(process, log) + order("audit")[1])
            time.sleep(0.3)

    def order(verb: str, *words: str) -> tuple[int, str]:
        return sequitur(verb, str(file), *words, *kafka)

    assert order("reload")[0] == 2  # nothing to give orders to
    log = tmp_path / "log"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "SEQUITUR_DATADIR": str(tmp_path / "data"),
    }
    with log.open("ab") as out:
        command = [sys.executable, "-m", "sequitur", "route", "serve", str(file), *kafka]
        process = spawn(command, env=environment, output=out)
    try:
        send(300)
        wait_until(lambda: len(records("left")) == len(records("right")) == 100)
        wait_until(lambda: order("audit")[0] == 0)
        said = order("audit")[1]
        assert "300 messages consumed: 200 routed, 100 without a destination, 0 failed" in said
        assert f"{name}.left: 100" in said

        assert order("register", "old", "left", "--format", "nothing")[0] == 1
        assert order("register", "old", "left", "--format", "upper")[0] == 0
        listed = order("formats")[1]
        assert "upper: old; upper" in listed
        assert order("trails", "all", "--every", "2", "--reason", "a look")[0] == 0
        assert "a look" in order("status")[1]
        send(30)
        wait_until(lambda: len(records("left.old")) == 10)
        assert all(each == each.upper() for each in records("left.old"))
        assert {*records("left.old")} < {*map(bytes.upper, records("left"))}
        trails = [orjson.loads(each) for each in records("router.trails")]
        assert trails
        assert {each["trail"]["keys"] for each in trails} == {"hidden"}
        assert {each["outcome"] for each in trails} == {"routed"}
        assert order("unregister", "old")[0] == 0
        assert "nobody uses upper" in order("formats")[1]

        # Nothing is clean over what failed, is there twice, or comes of nothing.
        producer.produce(f"{name}.in", b"not JSON", partition=0)
        producer.flush(120)
        wait_until(lambda: records("malformed") == [b"not JSON"])
        (failed,) = read(broker.address, f"{name}.malformed")
        assert b"failed: " in dict(failed.headers() or ())["sequitur-trail"]  # type: ignore[operator]
        status, said = order("audit")
        assert status == 1
        assert "1 failed" in said
        (one, *_) = read(broker.address, f"{name}.left")
        producer.produce(f"{name}.left", one.value(), headers=one.headers())
        producer.flush(120)
        assert "is 2 times in" in order("audit")[1]
        process.send_signal(signal.SIGTERM)
        assert ended(process, 240, log) == 0
        assert order("status")[0] == 1
        send(1)
        assert "no process runs" in order("audit")[1]
    finally:
        process.kill()
        process.wait()
