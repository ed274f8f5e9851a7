"""Topologies whose handlers run in processes, which import them from here."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from topology import Batch, Delete, Emit, Event, Inspector, Topology, Upsert, key, park

NOTES = "SEQUITUR_TEST_NOTES"


def note(text: str) -> None:
    with Path(os.environ[NOTES]).open("a") as file:
        file.write(text + "\n")


def notes() -> list[str]:
    path = Path(os.environ[NOTES])
    return path.read_text().splitlines() if path.exists() else []


plain = Topology("plain")


@plain.parallel(
    "work", topic="in", workers=2, commit="arrival", run_in="processes", time_limit=60.0
)
def work(event: Event) -> Iterator[Emit]:
    what = orjson.loads(event.content)
    note(f"{what} {os.getpid()} {event.idempotency_key}")
    first = notes().count("") == 0 and sum(line.startswith(f"{what} ") for line in notes()) == 1
    if what == "hangs" and first:
        while True:
            time.sleep(0.01)
    if what == "late" and first:
        time.sleep(600)
        note("late effects")
    if what == "exits" and first:
        os._exit(3)
    if what == "killed" and first:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "forks":
        if os.fork() == 0:
            return  # it comes back as if it had handled the event too
        os.wait()
    if what == "leaves" and first:
        if os.fork() == 0:
            note(f"child {os.getpid()}")
            time.sleep(600)
        while not any(line.startswith("child") for line in notes()):
            time.sleep(0.01)
        os._exit(3)
    if what == "raises":
        raise ValueError("boom")
    if what == "hurried":
        while not event.hurry.is_set():
            time.sleep(0.005)
        what = "was hurried"
    if what == "nonsense":
        yield 7  # type: ignore[misc]
    yield Emit("out", event.message.key, what, (("h", b"\xff"),))
    yield Emit("out2", b"\xfe", b"\x00\xff")


forever = Topology("forever")


@forever.parallel("work", topic="in", workers=2, run_in="processes", commit="stream")
def hang(event: Event) -> list[Emit]:
    note(f"{os.getpid()}")
    time.sleep(600)
    return []


orders = Topology("orders")
source = orders.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)


parks = Topology("parks")


@parks.view(
    "sums",
    of=parks.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True),
    workers=2, commit="stream", run_in="processes", error=park(),
)  # fmt: skip
def parked_sums(event: Event, state: dict[str, Any]) -> Iterator[Emit]:
    if event.content.get("fails") and "mended" not in notes():
        raise ValueError("boom")
    state["sum"] = state.get("sum", 0) + event.content["n"]
    yield Emit("out", event.stream, state["sum"])


@orders.view("sums", of=source, workers=2, commit="stream", run_in="processes")
def sums(event: Event, state: dict[str, Any]) -> Iterator[Upsert | Delete | Emit]:
    state["sum"] = state.get("sum", 0) + event.content["amount"]
    yield Upsert("sums", {"id": event.stream}, {"sum": state["sum"]})
    yield Emit("out", event.stream, [event.stream, event.sequence, state["sum"]])


versions = Inspector(stream=key(), sequence="version")
versioned = orders.with_inspectors({"in": versions})


batched = Topology("batched")


@batched.parallel(
    "work", topic="in", workers=1, commit="stream", run_in="processes", batch=Batch(10, "any")
)
def many(events: list[Event], states: dict[str, Any]) -> Iterator[tuple[Event, Emit]]:
    for event in events:
        state = states[event.stream]
        state["n"] = state.get("n", 0) + 1
        yield event, Emit("out", event.stream, [event.stream, state["n"]])
