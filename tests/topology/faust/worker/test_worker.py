"""A worker on the real broker: its command line, bad input, gaps, and errors it must name."""

import signal

import orjson
import pytest
from confluent_kafka import Message

from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Emit, Inspector, Topology, Upsert, key, skip
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream=key(), sequence="seq", kind="kind"), keyed=True,
    partitions=int(os.environ.get("PARTITIONS", "2")),
)

@topology.view("board", of=source, gap=skip(after=float(os.environ.get("AFTER", "2"))))
def board(event, state):
    state["seen"] = state.get("seen", 0) + 1
    if event.kind == "Boom":
        raise ValueError("boom")
    yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence, **state})

app = compile(topology, group=prefix, session_timeout=60)
"""


def event(stream: str, seq: object, kind: str = "Ok") -> tuple[bytes, bytes]:
    return stream.encode(), orjson.dumps({"seq": seq, "kind": kind})


def sequences(records: list[Message]) -> list[int]:
    return [orjson.loads(record.value() or b"")["sequence"] for record in records]


def test_agents_and_tables_have_stable_names(worker: Worker) -> None:
    agents = worker.run("agents")
    assert f"@{worker.prefix}.view.board" in agents.stdout, agents.stderr
    tables = worker.run("tables")
    assert "board" in tables.stdout


def test_bad_input_is_counted_and_crashes_nothing(worker: Worker) -> None:
    deep = b"[" * 100_000
    bad: list[tuple[bytes | None, bytes | None]] = [
        (b"a", b"\xff\xfe\x00"), (b"a", b""), (b"a", None), (b"a", deep), (None, b'{"seq": 1}'),
        (b"\xff", b'{"seq": 1, "kind": "Ok"}'), (b"a", b"7"), (b"a", b'{"seq": "x", "kind": 1}'),
        (b"a", b'{"seq": null, "kind": 1}'), (b"a", b'{"seq": 0, "kind": "Ok"}'),
        (b"a", b'{"seq": 1e400, "kind": 1}'), (b"a", b'{"seq": 99999999999999999999, "kind": 1}'),
        (b"a", b'{"seq": 1, "kind": {}}'), (b"a", b"x" * 900_000),
    ]  # fmt: skip
    worker.start()
    worker.send(*bad, event("a", 1), event("a", 2, "Boom"), event("a", "3"))
    assert sequences(worker.wait("board", 2)) == [1, 3]
    malformed = worker.wait("malformed", len(bad))
    assert all(dict(record.headers() or ())["sequitur-reason"] for record in malformed)
    failure = orjson.loads(worker.wait("errors", 1)[0].value() or b"")
    assert (failure["stream"], failure["sequence"], failure["done"]) == ("a", 2, "advance")
    assert "ValueError: boom" in failure["traceback"]
    # What the failed event did to the stream's state is undone.
    assert orjson.loads(worker.wait("board", 2)[1].value() or b"")["changes"][0]["values"] == {
        "seq": 3,
        "seen": 2,
    }
    assert worker.end(signal.SIGTERM) == 0


def test_a_gap_keeps_its_deadline_over_a_kill_and_what_comes_later_is_late(worker: Worker) -> None:
    worker.start(AFTER="600")
    worker.send(event("a", 1), event("a", 3))
    assert sequences(worker.wait("board", 1)) == [1]
    worker.end(signal.SIGKILL)
    worker.start(AFTER="2")  # from when the gap was found on
    assert sequences(worker.wait("board", 2)) == [1, 3]
    worker.send(event("a", 2), event("a", 2), event("a", 4))
    assert sequences(worker.wait("board", 3)) == [1, 3, 4]
    late = worker.wait("late", 1)[0]
    headers = dict(late.headers() or ())
    assert (headers["view"], headers["sequence"]) == (b"board", b"2")
    assert str(headers["sequitur-origin"]).startswith(f"b'{worker.prefix}.in/0/2/")


def test_a_gap_is_not_given_up_for_what_came_while_the_worker_was_away(worker: Worker) -> None:
    worker.start(AFTER="600")
    worker.send(event("a", 1), event("a", 3))
    worker.wait("board", 1)
    worker.end(signal.SIGKILL)
    worker.send(*(event(f"s{n % 50}", n // 50 + 1) for n in range(3_000)))
    worker.send(event("a", 2))
    # It is over by then; and what has come is read in several steps.
    worker.start(AFTER="0.1", SEQUITUR_BATCH="500")
    found = worker.wait("board", 3_003)
    assert sequences([r for r in found if r.key() == b"a"]) == [1, 2, 3]


def test_a_topic_with_other_partitions_is_named_with_the_remedy(worker: Worker) -> None:
    refused = worker.run("worker", "--without-web", PARTITIONS="3")
    assert refused.returncode != 0
    text = refused.stdout + refused.stderr
    assert f"topic '{worker.prefix}.in' has 2 partitions" in text
    assert "set source(partitions=2)" in text
