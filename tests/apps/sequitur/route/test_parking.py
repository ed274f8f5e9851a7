"""A router that parks what fails, over kills: listed, audited, redriven and unparked."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from sequitur.cli.main import main
from soak.check import read
from soak.ended import ended, stacks
from tests.conftest import BrokerAddress, make_topics
from tests.forked import spawned

pytestmark = pytest.mark.integration

ROUTER = """
[router]
name = "{name}"
broker = "{broker}"
partitions = 2
parks = true

[source."{name}.in"]
module = "shop_keys:keys"
rules = ["all"]

[rule.all]
to = "out"

[destination.out]
address = "{name}.out"
"""
KEYS = """
import json
from pathlib import Path

def keys(message):
    found = json.loads(message.value)
    if found.get("soon") and Path(__file__).with_name("away").exists():
        raise ValueError("what it asks is away")
    return {"n": found["n"]}
"""


def test_a_stream_that_failed_waits_in_order_until_it_is_let_go_whoever_is_killed(
    broker: BrokerAddress,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, file, log = unique("parks"), tmp_path / "router.toml", tmp_path / "log"
    file.write_text(ROUTER.format(name=name, broker=broker.address))
    (tmp_path / "shop_keys.py").write_text(KEYS)
    (tmp_path / "away").touch()
    monkeypatch.syspath_prepend(tmp_path)
    small = {"max.message.bytes": "20000"}
    topics = [NewTopic(f"{name}.in", 2, 1), NewTopic(f"{name}.out", 2, 1, config=small)]
    make_topics(broker.address, *topics)
    producer = Producer({"bootstrap.servers": broker.address})
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "SEQUITUR_DATADIR": str(tmp_path / "data"),
        "SEQUITUR_SESSION_TIMEOUT": "6s",
    }

    def send(key: str, *numbers: int, **more: object) -> None:
        for number in numbers:
            producer.produce(f"{name}.in", orjson.dumps({"n": number, **more}), key=key)
        assert producer.flush(120) == 0

    def serve() -> "subprocess.Popen[bytes]":
        with log.open("ab") as out:
            command = [sys.executable, "-m", "sequitur", "route", "serve", str(file)]
            return spawned(command, env=environment, output=out)

    def order(verb: str, *words: str) -> tuple[int, str]:
        with redirect_stdout(StringIO()) as said:
            return main(["route", verb, str(file), *words]), said.getvalue()

    def sent() -> dict[str, list[int]]:
        found = defaultdict[str, list[int]](list)
        for each in read(broker.address, f"{name}.out"):
            found[(each.key() or b"").decode()].append(orjson.loads(each.value() or b"")["n"])
        return found

    def wait_until(true: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not true():
            if time.monotonic() > end:
                pytest.fail(stacks(process, log) + str(sent()) + order("parked")[1])
            time.sleep(0.3)

    process = serve()
    try:
        send("a", 1)
        send("a", 2, soon=True)
        send("a", 3)
        send("b", 1, 2)
        wait_until(lambda: sent() == {"a": [1], "b": [1, 2]})
        wait_until(lambda: order("parked")[0] == 1)
        assert "what it asks is away" in order("parked")[1]
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = serve()
        send("a", 4)
        send("b", 3)
        wait_until(lambda: sent()["b"] == [1, 2, 3])
        wait_until(lambda: "7 messages consumed: 4 routed" in order("audit")[1])
        status, said = order("audit")
        assert status == 1, said
        assert "0 failed, 3 parked" in said
        assert "WRONG" not in said

        assert order("redrive", "=a")[0] == 1  # it fails still
        assert sent()["a"] == [1]
        (tmp_path / "away").unlink()
        assert order("redrive", "--all", "--reason", "it is back")[0] == 0
        send("a", 5)
        wait_until(lambda: sent()["a"] == [1, 2, 3, 4, 5])
        assert order("audit")[0] == 0, order("audit")[1]

        send("b", 4, body="b" * 50_000)  # Kafka refuses it
        send("b", 5)
        send("a", 6)
        wait_until(lambda: sent()["a"][-1] == 6 and order("parked")[0] == 1)
        assert order("redrive", "=b")[0] == 1
        assert "raise that, or send less" in order("parked")[1]
        assert order("unpark", "=b")[0] == 0
        assert sent()["b"] == [1, 2, 3, 5]
        assert len([*read(broker.address, f"{name}.malformed")]) == 1
        process.send_signal(signal.SIGTERM)
        assert ended(process, 240, log) == 0
    finally:
        process.kill()
        process.wait()
