"""`faust -A app audit` beside a live worker: clean, comparable, and sure of what was changed."""

import signal
import time

import orjson
import pytest
from confluent_kafka import Producer

from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Emit, Inspector, Topology, Upsert, park, redeliver, skip
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq", kind="kind"), partitions=2,
    name="in",
)

@topology.view("board", of=source, gap=skip(after=2))
def board(event, state):
    state["seen"] = state.get("seen", 0) + 1
    if event.kind == "Boom":
        raise ValueError("boom")
    yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence, **state})
    yield Emit(prefix + ".elsewhere", event.stream, {"seq": event.sequence})

@topology.view("careful", of=source, accepts={"Ok", "Boom"}, error=park(), buffer=2,
               full=redeliver(delay=0.3))
def careful(event):
    if event.kind == "Boom":
        raise ValueError("boom")
    yield Upsert("careful", key={"id": event.stream}, values={"seq": event.sequence})

app = compile(topology, group=prefix, session_timeout=60)
"""


def event(stream: str, seq: int, kind: str = "Ok") -> tuple[bytes, bytes]:
    return str(seq % 3).encode(), orjson.dumps({"id": stream, "seq": seq, "kind": kind})


def send_disorder(worker: Worker) -> None:
    """Thirty streams; of each 4 is late, 7 fails, 9 passes one view by, 11 never comes."""
    for stream in (f"s{n}" for n in range(30)):
        numbers = [1, 2, 3, 5, 6, 8, 7, 5, 9, 10, 12, 13]
        kinds = {7: "Boom", 9: "Other"}
        worker.send(*(event(stream, seq, kinds.get(seq, "Ok")) for seq in numbers))
    worker.send((b"x", b"{"), (b"x", b'{"id": "s1"}'), (None, None), event("s1", 0))


def test_a_run_is_clean_while_it_lasts_and_when_it_is_over(worker: Worker) -> None:
    refused = worker.run("audit")
    assert refused.returncode == 2
    assert "no worker of this topology has run here yet" in refused.stderr

    worker.start()
    send_disorder(worker)
    # How many outputs there are by now is a matter of time: gaps are given up meanwhile.
    while worker.count("board") < 30 * 3:
        assert worker.process is not None
        assert worker.process.poll() is None
        time.sleep(0.3)
    early = worker.run("audit", "--patience", "30s")
    # Nothing is violated; four messages are malformed, and that is bad news.
    assert early.returncode == 1, early.stdout + early.stderr
    assert "violation" not in early.stdout
    assert "in order, but not complete: " in early.stdout
    # 4 and 11 are given up; 7 fails in the one view and is parked in the other, which waits for 4.
    worker.wait("board", 30 * 10)
    worker.send(*(event(f"s{n}", 4) for n in range(30)))
    worker.wait("late", 30)
    worker.wait("careful", 30 * 6)

    saved = worker.folder / "saved.json"
    told = worker.run("audit", "--save", str(saved))
    assert told.returncode == 1, told.stdout + told.stderr
    assert "violation" not in told.stdout
    *_, verdict, unproved = told.stdout.splitlines()
    assert verdict.startswith("in order, but not complete: ")
    assert " 30 failed, 30 late, " in verdict
    assert "4 malformed" in verdict
    assert unproved.startswith("not proved: what handlers made of the events")
    assert "source in: 394 messages read\n  390 events, 4 malformed, 0 unknown" in told.stdout
    assert worker.end(signal.SIGTERM) == 0

    again = worker.run("audit", "--json", "--compare", str(saved))
    assert again.returncode == 1, again.stdout + again.stderr
    report = orjson.loads(again.stdout)
    assert (report["sound"], report["clean"]) == (True, False)
    (alone,) = orjson.loads(worker.run("audit", "--json", "--view", "board").stdout)["views"]
    assert alone["name"] == "board"
    unknown = worker.run("audit", "--view", "bord")
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (2, 1)
    assert report["differences"] == []
    board, careful = report["views"]
    places = {"processed": 300 - 30 + 30, "failed": 30, "late": 30, "skipped": 60, "duplicate": 30}
    places["processed"] = 390 - 30 - 30 - 30
    for place, number in places.items():
        assert board["counted"][place] == number, (place, board)
    assert careful["counted"]["parked"] > 0
    assert board["counted"]["written"] == board["found"]["written"] == 300


def test_what_was_tampered_with_is_found_and_differs(worker: Worker) -> None:
    worker.start()
    worker.send(event("a", 1), event("b", 1), event("a", 2), (b"x", b"{"))
    worker.wait("board", 3)
    worker.wait("malformed", 1)
    worker.wait("careful", 3)
    saved = worker.folder / "saved.json"
    assert "violation" not in worker.run("audit", "--save", str(saved)).stdout
    assert worker.end(signal.SIGTERM) == 0
    told = worker.run("audit", "--contents")
    assert "violation" not in told.stdout, told.stdout
    assert "--contents" not in told.stdout

    last = next(r for r in reversed(worker.wait("board", 3)) if r.key() == b"a")
    producer = Producer({"bootstrap.servers": worker.broker})
    value = (last.value() or b"").replace(b"2", b"9")
    headers: list[tuple[str, str | bytes | None]] = [("view", b"board"), ("sequence", b"9")]
    where = last.partition()
    assert where is not None
    producer.produce(f"{worker.prefix}.board", value, b"a", where, headers=headers)
    producer.flush()

    told = worker.run("audit", "--compare", str(saved))
    assert told.returncode == 1
    assert "view board, stream a sequence 9" in told.stdout
    assert "the first one" in told.stdout
    assert "view board, stream a: 3 outputs up to sequence 9 here, 2 up to 2" in told.stdout
    report = orjson.loads(worker.run("audit", "--json").stdout)
    assert not report["clean"]
    assert report["violations"][0]["sequence"] == 9

    # A body that was changed, as the audit without the contents cannot know.
    first = next(r for r in worker.wait("board", 4) if r.key() == b"b")
    value = (first.value() or b"").replace(b'"seq":1', b'"seq":7')
    where = first.partition()
    assert where is not None
    headers = [("view", b"board"), ("sequence", b"2")]
    value = value.replace(b'"sequence":1', b'"sequence":2')
    producer.produce(f"{worker.prefix}.board", value, b"b", where, headers=headers)
    producer.flush()
    report = orjson.loads(worker.run("audit", "--json", "--contents").stdout)
    assert ("b", 2) in [(each["stream"], each["sequence"]) for each in report["violations"]]
