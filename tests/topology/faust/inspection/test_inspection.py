"""explain, gaps, views and suggest-timeouts: with a worker at work, and without any."""

import asyncio
import shlex
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import orjson
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.topology.faust.worker_process import Worker
from topology.diagnostics.explain import Account, Ledger, Missing
from topology.engine.intake import IntakeCounts
from topology.faust.inspection import (
    SuggestedTimeouts,
    ViewCounts,
    explain,
    gaps,
    suggest_timeouts,
    views,
)

T = TypeVar("T")

pytestmark = pytest.mark.integration

APP = """
import os
from topology import Emit, Inspector, Topology, park, redeliver, retry, skip
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq", kind="kind"), name="in",
    partitions=2, keyed=os.environ.get("KEYED") == "yes",
)

@topology.view("careful", of=source, buffer=4, error=park(), full=redeliver(delay=600, limit=9))
def careful(event):
    if event.kind == "Bad":
        raise ValueError("not yet")
    yield Emit(prefix + ".careful-out", event.stream, event.content)

@topology.view("patient", of=source, error=retry(9, backoff=600), gap=skip(after=900))
def patient(event):
    if event.kind == "Bad":
        raise ValueError("not yet")
    yield Emit(prefix + ".patient-out", event.stream, event.content)

if os.environ.get("MORE") == "yes":
    for name in ("more", "apart"):
        def handler(event, name=name):
            yield Emit(f"{prefix}.{name}-out", event.stream, event.content)

        async def awaited(event):
            return list(handler(event, "apart"))

        topology.view(name, of=source, handler=handler if name == "more" else awaited)

app = compile(topology, group=prefix, session_timeout=20)
"""


def event(stream: str, seq: int, kind: str = "Ok") -> tuple[bytes, bytes]:
    return stream.encode(), orjson.dumps({"id": stream, "seq": seq, "kind": kind})


class Looks:
    """The functions that the commands are, on the worker's app."""

    def __init__(self, worker: Worker, monkeypatch: pytest.MonkeyPatch, keyed: str = "no") -> None:
        monkeypatch.setenv("PREFIX", worker.prefix)
        monkeypatch.setenv("SEQUITUR_BROKER", worker.broker)
        monkeypatch.setenv("KEYED", keyed)
        self._source = (worker.folder / "app.py").read_text()

    def _run(self, look: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        names: dict[str, Any] = {"__name__": "app"}
        exec(self._source, names)
        return asyncio.run(look(names["app"], *args, **kwargs))

    def explain(self, stream: str, view: str) -> Account:
        (found,) = self._run(explain, stream, view)
        return found

    def gaps(self, **limits: int) -> Ledger:
        return self._run(gaps, **limits)

    def views(self) -> ViewCounts:
        return self._run(views)

    def received(self) -> list[int]:
        """How many events each view has received."""
        return [view.counts.received for view in self.views().views]

    def suggest_timeouts(self, *candidates: float, limit: int = 1000) -> SuggestedTimeouts:
        return self._run(suggest_timeouts, "in", limit=limit, candidates=candidates)


def corrupted(worker: Worker, view: str, counts: dict[str, int]) -> None:
    """A row of counts as no worker would write it."""
    producer = Producer({"bootstrap.servers": worker.broker})
    topic = f"{worker.prefix}-{view}-changelog"
    assert topic in producer.list_topics().topics
    producer.produce(topic, orjson.dumps(counts), b"c", partition=0)
    producer.flush()


def test_streams_are_explained_while_a_worker_is_at_work_and_after_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(worker, monkeypatch)
    worker.start()
    worker.send(event("a", 1), event("a", 3), event("b", 1), event("b", 2, "Bad"), event("b", 3))
    worker.send(event("a", 30), event("c", 1), (b"x", b"nonsense"), event("c", 1))
    worker.wait("careful-out", 3)
    worker.wait("patient-out", 3)
    worker.wait_until(lambda: worker.count("careful.redeliver") == 1)
    worker.wait_until(lambda: looks.received() == [8, 8])

    a = looks.explain("a", "careful")
    assert (a.situation, a.place.last, a.place.waits) == ("waiting", 1, (3,))
    assert a.place.missing == (Missing(2, 2, 1), Missing(4, 29, 26))
    assert a.context.newest is not None
    assert (a.context.newest.sequence, a.context.newest.topic) == (30, f"{worker.prefix}.in")
    assert [away.sequence for away in a.context.redelivering] == [30]
    assert "one" in (a.context.owner or "")
    assert (a.context.lag, a.context.unread, a.context.unkeyed) == (0, 0, 0)
    patient = looks.explain("a", "patient")
    assert patient.place.since is not None
    assert patient.next[1].when == patient.place.since + 900_000
    parked = looks.explain("b", "careful")
    assert (parked.situation, parked.place.parked) == ("parked", 2)
    assert parked.context.failure == "ValueError: not yet"
    retried = looks.explain("b", "patient")
    assert (retried.situation, retried.place.attempts) == ("retrying", 1)
    in_order = looks.explain("c", "patient")
    assert in_order.situation == "in order"
    assert in_order.context.newest is not None
    assert in_order.context.newest.sequence == 1
    assert looks.explain("nobody", "careful").situation == "unknown"
    ledger = looks.gaps(limit=1)
    assert (ledger.streams, len(ledger.gaps), ledger.gaps[0].stream) == (2, 1, "a")
    tallies = looks.views()
    assert tallies.adds_up
    assert [view.came_low for view in tallies.views] == [8, 8]
    taken = tallies.sources[0].taken
    assert taken is not None
    assert replace(taken, held=0, passed=0) == IntakeCounts(9, 1, 0)
    assert tallies.views[0].counts.parked == 2

    assert worker.run("halt", "careful").returncode == 0
    worker.send(event("c", 2), event("a", 4))
    worker.wait("patient-out", 4)
    worker.wait_until(lambda: looks.received() == [8, 10])
    halted = looks.explain("c", "careful")
    assert halted.causes[0].startswith("view careful is halted")
    assert (halted.context.unread, halted.place.last) == (1, 1)
    tallies = looks.views()
    assert tallies.adds_up
    assert tallies.views[0].apart == (0, 1)

    for stream in ("c", "a"):
        # Nothing is to be skipped before all that came is read, which the first remedy sees to.
        if stream == "a":
            worker.wait_until(lambda: not looks.explain("a", "careful").context.unread)
        line = shlex.split(looks.explain(stream, "careful").remedies[-1].command)
        assert line[:3] == ["faust", "-A", "app"]
        assert worker.run(*line[3:]).returncode == 0, line
    worker.wait("careful-out", 6)
    worker.send(event("a", 2))
    worker.wait_until(lambda: worker.count("late") == 1)
    late = looks.explain("a", "careful")
    assert (late.place.last, late.context.late[0].sequence, late.situation) == (
        4,
        2,
        "redelivering",
    )

    assert worker.end(signal.SIGTERM) == 0
    worker.send(event("c", 3))
    worker.wait_until(lambda: looks.explain("c", "careful").context.owner is None)
    gone = looks.explain("c", "careful")
    assert (gone.place.last, gone.context.unkeyed) == (2, 1)
    assert gone.remedies[0].command == "faust -A app worker"
    tallies = looks.views()
    assert tallies.adds_up
    assert tallies.views[0].unassigned == (0, 1)
    corrupted(worker, "careful", {"received": 1, "processed": 2})
    assert [view.adds_up for view in looks.views().views] == [False, True]


def test_a_view_that_was_added_after_retention_adds_up(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(worker, monkeypatch)
    worker.start()
    worker.send(*(event(stream, 1) for stream in "abcdefgh"))
    worker.wait("careful-out", 8)
    worker.wait("patient-out", 8)
    assert worker.end(signal.SIGTERM) == 0
    admin = AdminClient({"bootstrap.servers": worker.broker})
    ordered = worker.wait("in.by-stream", 8)
    cuts = {number: [r for r in ordered if r.partition() == number][1] for number in (0, 1)}
    for number, record in cuts.items():
        partition = TopicPartition(record.topic() or "", number, record.offset() or 0)
        for found in admin.delete_records([partition]).values():
            assert found.result().low_watermark == partition.offset
    left = 8 - len(cuts)
    monkeypatch.setenv("MORE", "yes")
    worker.start(MORE="yes")
    worker.wait("apart-out", left)
    worker.send(event("a", 2), event("z", 1))
    worker.wait("patient-out", 10)
    worker.wait_until(lambda: looks.received() == [10, 10, left + 2, left + 2])
    tallies = looks.views()
    assert tallies.adds_up, [view.verdict for view in tallies.views]
    assert [view.came_low for view in tallies.views] == [10, 10, left + 2, left + 2]
    assert worker.end(signal.SIGTERM) == 0


def test_the_commands_say_it_as_text_and_as_json(worker: Worker) -> None:
    missing = worker.run("views")
    assert missing.returncode == 2
    assert "no worker of this topology has run" in missing.stderr
    worker.start()
    worker.send(event("a", 1), event("a", 3))
    worker.wait("careful-out", 1)
    worker.wait("patient-out", 1)

    waits = "stream a in view careful: sequence 2 is missing, and 1 event waits behind"
    worker.wait_until(lambda: waits in worker.run("explain", "a").stdout)
    told = worker.run("explain", "a")
    assert told.returncode == 1, told
    assert "faust -A app skip a 2 --view patient" in told.stdout
    told = worker.run("explain", "a", "--view", "careful", "--json")
    assert orjson.loads(told.stdout)[0]["missing"] == [{"first": 2, "last": 2, "count": 1}]
    told = worker.run("explain", "nobody")
    assert told.returncode == 1
    assert "has seen nothing of it" in told.stdout
    assert worker.run("explain", "a", "--view", "none").returncode == 2
    told = worker.run("gaps", "--limit", "1")
    assert told.returncode == 1, told
    assert "2 streams with gaps, 2 missing, 1 more not shown" in told.stdout
    assert len(orjson.loads(worker.run("gaps", "--json").stdout)["gaps"]) == 2
    told = worker.run("views")
    assert told.returncode == 0, told
    assert "view careful adds up: 2 events came, 2 in its places" in told.stdout
    told = worker.run("suggest-timeouts", "--after", "60s", "--json")
    found = orjson.loads(told.stdout)
    assert found["suggestions"][-1]["waiting"] == 0
    assert found["times"].startswith("times: when the workers wrote to")
    assert worker.end(signal.SIGTERM) == 0
    corrupted(worker, "careful", {"received": 1, "processed": 2})
    told = worker.run("views", "--json")
    assert told.returncode == 1
    assert orjson.loads(told.stdout)["adds_up"] is False


def test_a_keyed_source_is_looked_for_in_all_partitions(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(worker, monkeypatch, keyed="yes")
    worker.start(KEYED="yes")
    # The key is not the stream: the partition cannot be told from the stream's name.
    for n in range(1, 9):
        worker.send((b"k", event(f"s{n}", 1)[1]), (b"k", event(f"s{n}", 3)[1]))
    worker.wait("patient-out", 8)
    for n in range(1, 9):
        found = looks.explain(f"s{n}", "patient")
        assert (found.situation, found.place.last) == ("waiting", 1)
        assert found.context.newest is not None
        assert found.context.newest.sequence == 3
    tallies = looks.views()
    assert tallies.adds_up
    assert tallies.sources[0].taken is None
    assert worker.end(signal.SIGTERM) == 0


def test_timeouts_are_suggested_from_what_is_recorded(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(worker, monkeypatch, keyed="yes")
    worker.start(KEYED="yes")
    start = 1_700_000_000_000
    producer = Producer({"bootstrap.servers": worker.broker})
    for at, sequence in ((0, 1), (100, 3), (1600, 2)):
        for n in range(20):
            key, value = event(f"s{n}", sequence)
            producer.produce(f"{worker.prefix}.in", value, key, timestamp=start + at)
    producer.flush()
    worker.wait("patient-out", 60)
    found = looks.suggest_timeouts(1.0, 60.0)
    assert (found.looked, found.lasted, found.whole) == (60, 1600, True)
    short, least, *_, long = found.suggestions
    assert (short.after, short.wrong) == (1.0, 20)
    assert least.after == pytest.approx(1.5, abs=0.01)
    assert (least.wrong, long.after, long.wrong) == (0, 60.0, 0)
    assert found.adaptive == 30
    assert "message.timestamp.type of" in found.times
    assert "is CreateTime" in found.times
    assert any("redeliver" in note for note in found.notes["careful"])
    part = looks.suggest_timeouts(limit=20)
    assert not part.whole
    assert part.looked <= 20
    assert worker.end(signal.SIGTERM) == 0
