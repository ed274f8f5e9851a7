"""Views with workers on the real broker: side by side in work, in order when committed."""

import random
import re
import signal
from collections import defaultdict
from functools import partial
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Message
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.topology.faust.worker.ordered.test_processes import has_ended
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import asyncio, os, time
from pathlib import Path
from topology import Emit, Inspector, Topology, Upsert, key
from topology.faust import compile

prefix, folder = os.environ["PREFIX"], Path(__file__).parent
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream=key(), sequence="seq", kind="kind"), keyed=True,
    partitions=2,
)
commit, scope = os.environ.get("COMMIT", "stream"), os.environ.get("SCOPE", "partition")
work = dict(workers=16, commit=commit, scope=scope)


def note(event):
    with (folder / "calls").open("a") as calls:
        calls.write(f"{event.idempotency_key} {event.stream} {event.sequence}\\n")


async def done(event):
    note(event)
    while event.kind == "Gate" and not (folder / "gate").exists():
        await asyncio.sleep(0.02)
    await asyncio.sleep(event.content.get("ms", 0) / 1000)


if os.environ.get("RUN_IN") in ("threads", "processes"):
    @topology.view("board", of=source, run_in=os.environ["RUN_IN"], **work)
    def board(event, state):
        note(event)
        with (folder / "pids").open("a") as pids:
            pids.write(f"{os.getpid()}\\n")
        time.sleep(event.content.get("ms", 0) / 1000)
        state["seen"] = state.get("seen", 0) + 1
        yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence, **state})
        yield Emit(prefix + ".out", event.stream, {"seq": event.sequence})
else:
    @topology.view("board", of=source, **work)
    async def board(event, state):
        await done(event)
        state["seen"] = state.get("seen", 0) + 1
        yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence, **state})
        yield Emit(prefix + ".out", event.stream, {"seq": event.sequence})

@topology.parallel("copy", topic=prefix + ".plain", partitions=2, workers=8, commit="stream")
async def copy(event):
    await asyncio.sleep(len(event.content) / 1000)
    yield Emit(prefix + ".copied", event.message.key, event.content)

app = compile(topology, group=prefix, session_timeout=float(os.environ.get("SESSION", "60")))
"""


def event(stream: str, seq: int, kind: str = "Ok", ms: int = 0) -> tuple[bytes, bytes]:
    return stream.encode(), orjson.dumps({"seq": seq, "kind": kind, "ms": ms})


def place(record: Message) -> tuple[str, int]:
    body = orjson.loads(record.value() or b"")
    key = record.key() or dict(record.headers() or ()).get("sequitur-key") or b""
    return key.decode() if isinstance(key, bytes) else key, body.get("seq") or body["sequence"]


def by_partition(records: list[Message]) -> dict[int, list[tuple[str, int]]]:
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for record in records:
        found[record.partition() or 0].append(place(record))
    return found


def by_stream(records: list[Message]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for record in records:
        stream, sequence = place(record)
        found[stream].append(sequence)
    return found


def mixed(streams: int, each: int, most_ms: int, seed: int) -> list[tuple[bytes, bytes]]:
    """Events of some streams, each in sequence, the streams in any order."""
    chance = random.Random(seed)
    names = [f"s{number}" for number in range(streams) for _ in range(each)]
    chance.shuffle(names)
    last: dict[str, int] = defaultdict(int)
    found = []
    for name in names:
        last[name] += 1
        found.append(event(name, last[name], ms=chance.randrange(most_ms + 1)))
    return found


def seen(records: list[Message]) -> list[tuple[int, int]]:
    changes = [orjson.loads(record.value() or b"")["changes"][0]["values"] for record in records]
    return [(values["seq"], values["seen"]) for values in changes]


def calls(worker: Worker) -> list[str]:
    return (worker.folder / "calls").read_text().splitlines()


def committed(worker: Worker, least: int) -> bool:
    return worker.count("out") >= least


def gate(worker: Worker) -> Path:
    return worker.folder / "gate"


@pytest.mark.parametrize("run_in", ["tasks", "threads"])
def test_events_are_handled_side_by_side_and_committed_in_the_order_of_arrival(
    worker: Worker, run_in: str
) -> None:
    worker.start(COMMIT="arrival", RUN_IN=run_in)
    events = mixed(20, 10, 30, seed=1)
    worker.send(*events)
    out, arrived = worker.wait("out", 200), worker.records("board.arrivals")
    assert by_partition(out) == by_partition(arrived)
    assert by_partition(worker.wait("board", 200)) == by_partition(arrived)
    assert all(seq == count for seq, count in seen(worker.records("board")))
    assert worker.end(signal.SIGTERM) == 0


def test_a_stream_that_lasts_holds_up_no_other_and_what_was_done_ahead_is_not_done_again(
    worker: Worker,
) -> None:
    worker.start(COMMIT="stream")
    worker.send(event("slow", 1, "Gate"), event("slow", 2))
    ahead = mixed(30, 5, 5, seed=2)
    worker.send(*ahead)
    worker.wait("out", 150)
    assert worker.end(signal.SIGKILL) == -signal.SIGKILL
    (worker.folder / "calls").write_text("")
    gate(worker).touch()
    worker.start(COMMIT="stream")
    out = worker.wait("out", 152)
    assert by_stream(out)["slow"] == [1, 2]
    assert [call.split()[1] for call in calls(worker)] == ["slow", "slow"]
    assert all(found == sorted(set(found)) for found in by_stream(out).values())
    assert worker.end(signal.SIGTERM) == 0


def test_an_older_event_that_is_in_work_holds_up_the_commits_of_later_ones(worker: Worker) -> None:
    worker.start(COMMIT="arrival")
    worker.send(event("slow", 1, "Gate"))
    worker.wait_until(lambda: (worker.folder / "calls").exists())
    later = [f"s{number}" for number in range(30)]
    worker.send(*(event(name, 1) for name in later))
    worker.wait_until(lambda: len(calls(worker)) >= 30 - 15)
    partition = next(
        r.partition() for r in worker.records("board.arrivals") if place(r)[0] == "slow"
    )
    assert not [record for record in worker.records("out") if record.partition() == partition]
    gate(worker).touch()
    out = worker.wait("out", 31)
    assert by_partition(out) == by_partition(worker.records("board.arrivals"))


@pytest.mark.parametrize("commit", ["arrival", "stream"])
def test_exactly_once_and_in_order_over_kills(worker: Worker, commit: str) -> None:
    chance = random.Random(3)
    events = mixed(40, 50, 10, seed=3)
    for number in range(4):
        worker.start(COMMIT=commit)
        worker.send(*events[number * 400 : (number + 1) * 400])
        least = number * 400 + chance.randrange(50, 300)
        worker.wait_until(partial(committed, worker, least))
        worker.end(signal.SIGKILL)
    worker.send(*events[1600:])
    worker.start(COMMIT=commit)
    out = worker.wait("out", 2000)
    assert all(found == list(range(1, 51)) for found in by_stream(out).values())
    assert all(seq == count for seq, count in seen(worker.wait("board", 2000)))
    if commit == "arrival":
        assert by_partition(out) == by_partition(worker.records("board.arrivals"))
    assert worker.end(signal.SIGTERM) == 0


def test_exactly_once_and_in_order_while_a_second_worker_joins_and_leaves(worker: Worker) -> None:
    second, events = worker.another("two"), mixed(40, 50, 20, seed=4)
    worker.start(COMMIT="stream", SESSION="6")
    worker.send(*events[:700])
    worker.wait_until(lambda: worker.count("out") > 100)
    try:
        second.start(COMMIT="stream", SESSION="6")
        worker.send(*events[700:1400])
        worker.wait_until(lambda: worker.count("out") > 1000)
        second.end(signal.SIGTERM)
        worker.send(*events[1400:])
        out = worker.wait("out", 2000)
    finally:
        second.kill()
    assert all(found == list(range(1, 51)) for found in by_stream(out).values())
    assert all(seq == count for seq, count in seen(worker.wait("board", 2000)))


def test_plain_code_from_a_topic_to_a_topic_keeps_each_keys_order(worker: Worker) -> None:
    chance = random.Random(5)
    sent = [(b"k%d" % chance.randrange(8), b"x" * chance.randrange(40)) for _ in range(300)]
    worker.start()
    worker.wait_until(lambda: exists(worker, "plain"))
    worker.send(*sent, (None, b"no key"), topic="plain")
    out = worker.wait("copied", 301)
    for name in {name for name, _ in sent}:
        mine = [record.value() for record in out if record.key() == name]
        assert mine == [value for key, value in sent if key == name]


def exists(worker: Worker, topic: str) -> bool:
    admin = AdminClient({"bootstrap.servers": worker.broker})
    return f"{worker.prefix}.{topic}" in admin.list_topics().topics


def test_one_order_over_all_partitions_of_a_view(worker: Worker) -> None:
    worker.start(COMMIT="arrival", SCOPE="global")
    worker.send(*mixed(20, 10, 10, seed=6))
    worker.wait("out", 200)
    arrived = [place(record) for record in worker.records("board.arrivals")]
    assert {record.partition() for record in worker.records("board.arrivals")} == {0}
    assert {record.partition() for record in worker.records("in")} == {0, 1}
    # Each partition of the outputs has its part of that order.
    for partition, found in by_partition(worker.records("out")).items():
        of_it = set(found)
        assert found == [each for each in arrived if each in of_it], partition
    assert all(seq == count for seq, count in seen(worker.wait("board", 200)))
    settings = {"COMMIT": "arrival", "SCOPE": "global"}
    worker.wait_until(lambda: worker.run("audit", **settings).returncode == 0)
    audited = worker.run("audit", **settings).stdout
    assert re.search(r"outputs +200 +200\n", audited), audited


def test_at_least_once_commits_in_order_too_and_the_commands_find_nothing_wrong(
    worker: Worker,
) -> None:
    worker.start(COMMIT="arrival", SEQUITUR_GUARANTEE="at_least_once")
    worker.send(*mixed(10, 10, 5, seed=7))
    assert by_partition(worker.wait("out", 100)) == by_partition(worker.records("board.arrivals"))
    for command in ("views", "audit"):
        # The outputs are there before what says that they are.
        worker.wait_until(
            lambda command=command: (  # type: ignore[misc]
                worker.run(command, SEQUITUR_GUARANTEE="at_least_once").returncode == 0
            )
        )


def test_at_least_once_an_event_counts_once_though_the_first_stage_takes_it_again(
    worker: Worker,
) -> None:
    worker.start(SEQUITUR_GUARANTEE="at_least_once")
    worker.send(event("a", 1))
    worker.wait("board", 1)
    limit = partial(_limit, AdminClient({"bootstrap.servers": worker.broker}))
    changelog = f"{worker.prefix}-board-changelog"
    # A unit's rows are refused, after what it sends to the arrivals topic has been acknowledged.
    # The end of a transaction is not, which takes 78 bytes.
    limit(changelog, "90")
    worker.send(event("a", 2), event("a", 3))
    worker.wait_until(lambda: worker.log_file.read_text().count("starts again") >= 3)
    limit(changelog, "1000000")
    worker.send(event("a", 4))
    assert seen(worker.wait("board", 4)) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert by_stream(worker.records("board.arrivals")) == {"a": [1, 2, 3, 4]}


def _limit(admin: AdminClient, topic: str, most: str) -> None:
    entry = ConfigEntry("max.message.bytes", most, incremental_operation=AlterConfigOpType.SET)
    of = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([of]).values():
        future.result(30)


@pytest.mark.parametrize("run_in", ["threads", "processes"])
def test_a_worker_whose_handler_hangs_ends_when_it_is_told_to(worker: Worker, run_in: str) -> None:
    worker.start(RUN_IN=run_in, SESSION="6")
    worker.send(event("a", 1), event("b", 1, ms=600_000))
    worker.wait("out", 1)
    worker.wait_until(lambda: len(calls(worker)) >= 2)
    pids = {int(line) for line in (worker.folder / "pids").read_text().split()}
    assert worker.process is not None
    assert (worker.process.pid in pids) == (run_in == "threads")
    worker.end(signal.SIGTERM)
    worker.wait_until(lambda: all(map(has_ended, pids)))
