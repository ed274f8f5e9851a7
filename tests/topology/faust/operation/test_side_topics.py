"""What was set aside is found by commands, and brought back: the dead in place, others again."""

import os
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import os
from pathlib import Path
import orjson
from topology import Emit, Inspected, Topology, redeliver
from topology.faust import compile

prefix = os.environ["PREFIX"]
mended = Path(os.environ["MENDED"])
topology = Topology(prefix)

def inspect(message):
    body = orjson.loads(message.value)
    if body.get("old") and not mended.exists():
        raise ValueError(f"an old format of {body['id']!r}")
    return Inspected(body["id"], body["seq"], body.get("kind"), message.value)

source = topology.source(prefix + ".in", inspector=inspect, partitions=2)

@topology.view("board", of=source, buffer=4, full=redeliver(delay=0.1, limit=2))
def board(event):
    if event.kind == "Bad":
        raise ValueError(f"no gate {event.sequence}")
    yield Emit(prefix + ".out", event.stream, event.content)

app = compile(topology, group=prefix, session_timeout=60)
"""


def event(stream: str, seq: int, **more: object) -> tuple[bytes, bytes]:
    return stream.encode(), orjson.dumps({"id": stream, "seq": seq, **more})


def test_what_was_set_aside_is_listed_grouped_shown_and_comes_back(
    worker: Worker, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    told = {"MENDED": str(mended)}
    worker.start(**told)
    far = [event("a", n) for n in (2, 3, 4, 50)]
    bad = [event("b", 1, kind="Bad"), event("c", 1, kind="Bad"), event("c", 2)]
    worker.send(*far, *bad, event("d", 1), event("d", 2, old=True), event("e", 1, old=True))
    worker.send((b"f", b"no JSON"))
    worker.wait("malformed", 3)
    worker.wait("dead", 1)
    worker.wait("errors", 2)

    def answer(*words: str) -> dict[str, object]:
        done = worker.run(*words, "--json", **told)
        assert done.returncode == 0, done
        return dict(orjson.loads(done.stdout))

    failed = answer("errors", "--group")
    assert failed["count"] == 2
    assert [group["reason"] for group in failed["groups"]] == [  # type: ignore[attr-defined]
        "ValueError: no gate … (done: advance)"
    ]
    assert answer("errors", "--stream", "c")["count"] == 1
    assert answer("errors", "--until", "1h")["count"] == 0
    one = answer("errors", "1")
    assert "Traceback" in str(one["traceback"])
    dead = answer("dead")["records"][0]  # type: ignore[index]
    assert (dead["view"], dead["stream"], dead["sequence"]) == ("board", "a", 50)
    missing = worker.run("late", "7", **told)
    assert (missing.returncode, missing.stderr.count("has no record at offset 7")) == (2, 1)

    # A message of somebody else's, which came from no source.
    producer = Producer({"bootstrap.servers": worker.broker})
    producer.produce(f"{worker.prefix}.malformed", b"{}", headers={"sequitur-origin": b"x/0/1/2"})
    producer.flush()
    before = answer("replay", "malformed")
    assert (before["sent"], len(before["still"]), before["foreign"]) == ([], 3, 1)  # type: ignore[arg-type]
    mended.touch()
    tried = answer("replay", "malformed", "--dry-run")
    assert len(tried["sent"]) == 2  # type: ignore[arg-type]
    assert answer("replay", "malformed", "--why", "a new format")["sent"] == tried["sent"]
    again = answer("replay", "malformed")
    assert (again["sent"], again["before"]) == ([], 2)
    got = [(r.key(), orjson.loads(r.value() or b"")["seq"]) for r in worker.wait("out", 4)]
    assert sorted(got) == [(b"c", 2), (b"d", 1), (b"d", 2), (b"e", 1)]
    commands = worker.run("commands", **told).stdout
    assert "replay malformed" in commands
    assert "[a new format]" in commands
    assert os.environ.get("USER", "") in commands

    worker.send(event("a", 1), *(event("a", n) for n in range(5, 50)))
    worker.wait("out", 53)
    back = worker.run("redrive-dead", "--why", "its ring has room", **told)
    assert back.returncode == 0, back
    got = [(r.key(), orjson.loads(r.value() or b"")["seq"]) for r in worker.wait("out", 54)]
    assert [seq for key, seq in got if key == b"a"] == list(range(1, 51))
    assert "[its ring has room]" in worker.run("commands", **told).stdout
