"""Broadcasts over a real broker: in their places, each action once, and kill -9 of both sides."""

import os
import subprocess
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
from soak.check import read
from soak.ended import stacks
from tests.conftest import BrokerAddress, make_topics
from tests.forked import spawned

pytestmark = pytest.mark.integration

ROUTER = """
[router]
name = "{name}"
site = "berlin"
broker = "{broker}"
partitions = 2

[source."{name}.in"]
rules = ["work", "halt"]

[rule.work]
when = {{ key = "halt", exists = false }}
to = "left"

[rule.halt]
when = {{ key = "halt", exists = true }}
broadcast = "site"
action = "mark"

[destination.left]
address = "{name}.left"
"""
# Of a killed listener the command has nothing to read.
LISTENER = """
name = "ear"
destination = "left"
lifetime = "600s"

[action.mark]
command = [{python}, "-c", "{code}"]
"""
CODE = "import sys; said = sys.stdin.read(); said and open({marks}, 'a').write(said + chr(10))"


def test_a_broadcast_keeps_its_place_and_triggers_once_what_is_registered_over_kill_9(
    broker: BrokerAddress, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name, file, ear = unique("caller"), tmp_path / "router.toml", tmp_path / "ear.toml"
    marks, log = tmp_path / "marks", tmp_path / "log"
    marks.touch()
    file.write_text(ROUTER.format(name=name, broker=broker.address))
    python = orjson.dumps(sys.executable).decode()
    ear.write_text(LISTENER.format(python=python, code=CODE.format(marks=repr(str(marks)))))
    make_topics(broker.address, NewTopic(f"{name}.in", 2, 1))
    producer = Producer({"bootstrap.servers": broker.address})
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SEQUITUR_DATADIR": str(tmp_path / "data"),
        "SEQUITUR_SESSION_TIMEOUT": "6s",
    }
    sent: dict[int, list[int]] = {0: [], 1: []}

    def send(halt: bool) -> None:
        partition, number = len(sent[0] + sent[1]) % 2, len(sent[0] + sent[1])
        value = {"n": number, **({"halt": True} if halt else {})}
        forged: dict[str, str | bytes | None] = {"sequitur-action": b"mark", "sequitur-rules": b"1"}
        producer.produce(f"{name}.in", orjson.dumps(value), headers=forged, partition=partition)
        sent[partition].append(number)

    def start(*words: str) -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            command = [sys.executable, "-m", "sequitur", "route", *words]
            return spawned(command, env=environment, output=out)

    def order(*words: str) -> tuple[int, str]:
        with redirect_stdout(StringIO()) as said:
            return main(["route", *words]), said.getvalue()

    def wait_until(true: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not true():
            if time.monotonic() > end:
                pytest.fail(stacks(processes[0], log) + order("status", str(file))[1])
            time.sleep(0.3)

    def status() -> str:
        return order("status", str(file))[1]

    processes = [start("serve", str(file))]
    try:
        wait_until(lambda: order("register", str(file), "far", "left", "--lifetime", "2s")[0] == 0)
        processes.append(start("listen", str(file), str(ear)))
        wait_until(lambda: "listener ear" in status())
        wait_until(lambda: "listener far" not in status())  # nobody has heard of it
        for number in range(60):
            send(halt=number % 10 in (3, 4))
        producer.flush(120)
        wait_until(lambda: marks.stat().st_size > 0)
        for process in processes:
            process.kill()
            process.wait()
        for number in range(60):
            send(halt=number % 10 in (3, 4))
        producer.flush(120)
        processes[:] = [start("serve", str(file)), start("listen", str(file), str(ear))]
        halts = {n for each in sent.values() for n in each if n % 10 in (3, 4)}

        def marked() -> list[dict[str, str]]:
            return [orjson.loads(line) for line in marks.read_text().splitlines()]

        wait_until(lambda: len({each["broadcast"] for each in marked()}) == len(halts))
        wait_until(lambda: order("audit", str(file))[0] == 0)
        found: dict[int, list[int]] = {0: [], 1: []}
        for record in read(broker.address, f"{name}.left.ear"):
            place = dict(record.headers() or ())["sequitur-origin"].decode().split("/")  # type: ignore[union-attr]
            found[int(place[1])].append(orjson.loads(record.value() or b"")["n"])
        assert found == sent
        assert {orjson.loads(each["value"])["n"] for each in marked()} == halts
        assert len(marked()) <= len(halts) + 1  # the one that was killed in the middle
        assert "120 messages consumed: 120 routed" in order("audit", str(file))[1]
        wait_until(lambda: "120 messages: 0 without a destination, 0 failed" in status())
    finally:
        for process in processes:
            process.kill()
            process.wait()
