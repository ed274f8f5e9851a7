"""Independence, on the real broker: what one view does with its time is no matter of another."""

import signal
import time
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Message

from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import asyncio, os
from pathlib import Path
from topology import Emit, Inspector, Topology, key
from topology.faust import compile

prefix = os.environ["PREFIX"]
gate = Path(os.environ["GATE"])
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream=key(), sequence="seq"), keyed=True, partitions=2
)

@topology.view("quick", of=source)
def quick(event):
    yield Emit(prefix + ".quick-out", event.stream, event.content)

@topology.view("slow", of=source)
async def slow(event):
    while event.sequence > 3 and not gate.exists():
        await asyncio.sleep(0.05)
    yield Emit(prefix + ".slow-out", event.stream, event.content)

if os.environ.get("MORE"):
    @topology.view("added", of=source)
    def added(event):
        yield Emit(prefix + ".added-out", event.stream, event.content)

app = compile(topology, group=prefix, session_timeout=60)
"""

STREAMS, EACH = 10, 20


def send(worker: Worker, first: int, last: int) -> None:
    worker.send(
        *(
            (b"s%d" % stream, orjson.dumps({"seq": sequence}))
            for sequence in range(first, last + 1)
            for stream in range(STREAMS)
        )
    )


def in_sequence(records: list[Message]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for record in records:
        stream = (record.key() or b"").decode()
        found.setdefault(stream, []).append(orjson.loads(record.value() or b"")["seq"])
    return found


def every(last: int) -> dict[str, list[int]]:
    return {f"s{stream}": list(range(1, last + 1)) for stream in range(STREAMS)}


def wait_for_log(worker: Worker, text: str) -> None:
    until = time.monotonic() + 150
    while text not in (worker.folder / "log").read_text():
        assert time.monotonic() < until, (worker.folder / "log").read_text()[-4000:]
        time.sleep(0.2)


def test_a_view_that_waits_for_something_else_does_not_hold_back_the_others(
    worker: Worker, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    send(worker, 1, EACH)
    worker.start(GATE=str(gate))
    assert in_sequence(worker.wait("quick-out", STREAMS * EACH)) == every(EACH)
    # The slow one is in the midst of a batch, whose outputs are committed with its end.
    assert worker.count("slow-out") < STREAMS * EACH
    worker.end(signal.SIGKILL)
    worker.start(GATE=str(gate))
    send(worker, EACH + 1, EACH + 5)
    assert in_sequence(worker.wait("quick-out", STREAMS * (EACH + 5))) == every(EACH + 5)
    gate.touch()
    assert in_sequence(worker.wait("slow-out", STREAMS * (EACH + 5))) == every(EACH + 5)
    assert worker.end(signal.SIGTERM) == 0


def test_a_view_that_is_added_later_begins_at_the_beginning_and_catches_up(
    worker: Worker, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    send(worker, 1, EACH)
    worker.start(GATE=str(gate))
    worker.wait("quick-out", STREAMS * EACH)
    assert worker.end(signal.SIGTERM) == 0
    worker.start(GATE=str(gate), MORE="1")
    assert in_sequence(worker.wait("added-out", STREAMS * EACH)) == every(EACH)
    for partition in (0, 1):
        wait_for_log(worker, f"view added reads TopicPartition(topic='{worker.prefix}.in', "
                     f"partition={partition}) with the others again")  # fmt: skip
    send(worker, EACH + 1, EACH + 5)
    for topic in ("added-out", "quick-out", "slow-out"):
        assert in_sequence(worker.wait(topic, STREAMS * (EACH + 5))) == every(EACH + 5)
    # It stays with the others when it starts again, and repeats nothing.
    worker.end(signal.SIGKILL)
    worker.start(GATE=str(gate), MORE="1")
    send(worker, EACH + 6, EACH + 6)
    for topic in ("added-out", "quick-out", "slow-out"):
        assert in_sequence(worker.wait(topic, STREAMS * (EACH + 6))) == every(EACH + 6)
    assert worker.end(signal.SIGTERM) == 0
