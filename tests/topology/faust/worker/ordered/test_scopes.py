"""What is in one order: a partition, a topic, or all topics of a source; two workers, and kills."""

import random
import signal
from collections import defaultdict
from collections.abc import Callable

import orjson
import pytest
from confluent_kafka import Message

from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import asyncio, os, random
from topology import Emit, Inspector, Topology
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
by_stream = Inspector(stream="id", sequence="seq")
one = topology.source(prefix + ".in", inspector=by_stream, partitions=2)
several = topology.source([prefix + ".b", prefix + ".c"], inspector=by_stream, partitions=2)


def declare(scope, source, plain=False):
    async def handler(event, state):
        await asyncio.sleep(random.random() / 100)
        state["seen"] = state.get("seen", 0) + 1
        yield Emit(f"{prefix}.out-{scope}", event.stream, [event.sequence, state["seen"]])

    work = {} if plain else dict(workers=8, commit="arrival", scope=scope)
    topology.view(scope, of=source, handler=handler, **work)


declare("partition", one, plain=bool(os.environ.get("PLAIN")))
declare("topic", one)
declare("global", several)
app = compile(topology, group=prefix, session_timeout=6)
"""
SCOPES = ("partition", "topic", "global")


def place(record: Message) -> tuple[str, int]:
    body = orjson.loads(record.value() or b"")
    if isinstance(body, dict):
        return body["id"], body["seq"]
    stream = record.key()
    assert isinstance(stream, bytes)
    assert body[0] == body[1], "a state that missed an event, or saw one twice"
    return stream.decode(), body[0]


def events(
    chance: random.Random, topic: str, last: dict[str, int], number: int
) -> list[tuple[bytes, bytes]]:
    found = []
    for _ in range(number):
        name = f"{topic}{chance.randrange(20)}"
        last[name] += 1
        found.append((name.encode(), orjson.dumps({"id": name, "seq": last[name]})))
    return found


def test_each_scope_commits_in_its_order_of_arrival_over_kills_of_two_workers(
    worker: Worker, create_topics: Callable[[dict[str, int]], None]
) -> None:
    create_topics({f"{worker.prefix}.{name}": 2 for name in "bc"})
    chance, last = random.Random(1), {name: defaultdict[str, int](int) for name in "abc"}
    second, sent = worker.another("two"), 0

    def send() -> None:
        nonlocal sent
        for name in "abc":
            worker.send(*events(chance, name, last[name], 150), topic={"a": "in"}.get(name, name))
        sent += 150

    def done() -> int:
        return min(worker.count(f"out-{scope}") for scope in SCOPES)

    send()
    worker.start()
    second.start()
    try:
        worker.wait_until(lambda: done() > 40)
        send()
        assert worker.end(signal.SIGKILL) == -signal.SIGKILL
        worker.wait_until(lambda: done() > 200)
        send()
        worker.start()
        assert second.end(signal.SIGKILL) == -signal.SIGKILL
        for scope in SCOPES:
            out = worker.wait(f"out-{scope}", sent * (2 if scope == "global" else 1))
            arrived = worker.records(f"{scope}.arrivals")
            assert {r.partition() for r in arrived} == ({0, 1} if scope == "partition" else {0})
            # Each partition of the outputs has its part of the order in which all arrived.
            order = [place(record) for record in arrived]
            for number in {record.partition() for record in out}:
                found = [place(record) for record in out if record.partition() == number]
                mine = set(found)
                assert found == [each for each in order if each in mine], (scope, number)
        assert worker.end(signal.SIGTERM) == 0
        # Without its workers it is another view.
        worker.start(PLAIN="yes")
        assert worker.process is not None
        assert worker.process.wait(150) != 0
        assert "view 'partition' ran with workers, and has none" in worker.log_file.read_text()
    finally:
        second.kill()
