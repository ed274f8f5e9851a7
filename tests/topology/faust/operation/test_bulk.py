"""One command for many streams, and commands that wait: listed, taken back, too old."""

import signal
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.topology.faust.operation import test_operator
from tests.topology.faust.operation.test_operator import event
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = test_operator.APP


class CommandRecord:
    """Commands of an app, with the status that is expected of each."""

    def __init__(self, worker: Worker, mended: Path) -> None:
        self._worker, self._mended = worker, mended

    def __call__(self, status: int, *words: str) -> str:
        found = self._worker.run(*words, MENDED=str(self._mended))
        assert found.returncode == status, found
        return found.stdout + found.stderr

    def json(self, status: int, *words: str) -> Any:
        found = self._worker.run(*words, "--json", MENDED=str(self._mended))
        assert found.returncode == status, found
        return orjson.loads(found.stdout)


def test_many_streams_are_redriven_unparked_and_skipped_at_once(
    worker: Worker, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    worker.start(MENDED=str(mended))
    told = CommandRecord(worker, mended)
    worker.send(*(event(f"s{n}", 1, "Bad") for n in range(12)), event("good", 1))
    worker.send(*(event(f"s{n}", 2) for n in range(12)), event("x\x1b[31m", 1, "Bad"))
    worker.wait("careful-out", 1)
    worker.wait("parked", 25)

    listed = told(1, "parked")
    assert "13 parked streams, with 25 waiting events" in listed
    assert listed.count("ValueError: not yet") == 13
    assert "\x1b" not in listed
    older = told(0, "parked", "--older-than", "1d")
    assert older == "no such stream is parked; 13 others are\n"
    assert len(told.json(1, "parked", "--reason", "not yet")["streams"]) == 13
    assert "13 parked streams in 1 group" in told(1, "parked", "--group")
    assert len(told.json(1, "parked", "--stream", "s3")["streams"]) == 1

    dry = told(0, "redrive", "--all", "--view", "careful", "--dry-run")
    assert "stream s3: 0 events would be released; sequence 1 would fail" in dry
    assert "redrive: 13 of 13 streams would be done (0 released, 12 waiting)" in dry
    dry = told(0, "unpark", "--reason", "not yet", "--dry-run")
    assert "unpark: 13 of 13 streams would be done (13 dead, 12 released)" in dry
    assert told(1, "parked", "--view", "careful").count("not yet") == 13

    some = told.json(1, "unpark", "--reason", "not yet", "--limit", "3")
    assert (some["done"], some["refused"], some["more"]) == (3, 0, 10)
    assert some["facts"] == {"dead": 3, "released": 3}
    worker.wait("dead", 3)
    mended.touch()
    done = told(0, "redrive", "--all")
    assert "redrive: 10 of 10 streams done (19 released)" in done
    worker.wait("careful-out", 1 + 3 + 19)
    none = told(0, "redrive", "--all")
    assert none == "no stream was chosen\nredrive: 0 of 0 streams done\n"
    audited = [orjson.loads(r.value() or b"") for r in worker.records("audit")]
    assert len({each["id"] for each in audited if each["name"] == "redrive"}) == 13 + 10

    worker.send(*(event(f"g{n}", 2) for n in range(4)), event("g9", 3))
    worker.wait("in", 12 + 1 + 12 + 1 + 5)
    skip = ("skip", "--all", "--view", "careful", "--dry-run")
    worker.wait_until(lambda: "of 5 streams" in worker.run(*skip, MENDED=str(mended)).stdout)
    dry = told(1, *skip)
    assert "skip: 4 of 5 streams would be done (4 skipped, 0 dead), 1 refused" in dry
    assert "skip: 5 of 5 streams done" in told(0, "skip", "--all", "--view", "careful", "--force")
    worker.wait("careful-out", 23 + 5)

    worker.send(event("h", 2))
    worker.wait_until(lambda: "of 1 stream would" in worker.run(*skip, MENDED=str(mended)).stdout)
    assert worker.end(signal.SIGTERM) == 0
    worker.send(event("h", 1))
    left = told(1, "skip", "--all", "--view", "careful", "--force")
    assert "skip: 0 of 0 streams done\n1 stream was left out: what is missing may lie in" in left


def test_commands_that_wait_are_listed_taken_back_and_grow_too_old(
    worker: Worker, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    worker.start(MENDED=str(mended))
    told = CommandRecord(worker, mended)
    worker.send(event("a", 1))
    worker.wait("careful-out", 1)
    assert told(0, "halt", "patient") == "view patient is halted\n"
    assert "view patient is halted already: by " in told(0, "halt", "patient")
    assert "view patient goes on" in told(0, "resume", "patient")
    assert told(0, "resume", "patient") == "view patient is not halted: it goes on\n"
    assert worker.end(signal.SIGTERM) == 0

    waits = told(2, "halt", "careful", "--timeout", "1s")
    assert "does a worker run? The command waits for 600 s" in waits
    assert "2 partitions answered in 1 s" in waits
    told(2, "halt", "patient", "--timeout", "1s", "--expires", "1s")
    told(2, "drop", "a", "--view", "careful", "--timeout", "1s")
    listed = told.json(0, "commands")
    assert [each["state"] for each in listed] == ["carried out"] * 4 + ["waits"] * 3
    assert "drop a" in told(0, "commands", "--view", "careful")
    id = next(e["id"] for e in listed if e["name"] == "halt" and e["view"] == "careful" and e["state"] == "waits")  # fmt: skip  # noqa: E501
    assert "no command waits whose id begins with 'zz'" in told(2, "cancel", "zz")
    told(2, "cancel", id[:10], "--timeout", "1s")
    time.sleep(1)

    worker.start(MENDED=str(mended))
    worker.wait_until(lambda: all(e["state"] != "waits" for e in told.json(0, "commands")))
    worker.send(event("a", 1), event("b", 1))
    worker.wait("careful-out", 3)
    worker.wait("patient-out", 2)
    (one,) = told.json(0, "commands", "--stream", "a")
    assert f"id: {one['id']}\ncommand: drop a\n" in told(0, "commands", one["id"][:8])
    found = {(e["name"], e["view"]): e["state"] for e in told.json(0, "commands")[4:]}
    assert found == {
        ("halt", "careful"): "cancelled",
        ("halt", "patient"): "expired",
        ("drop", "careful"): "carried out",
        ("cancel", "careful"): "carried out",
    }
    assert worker.end(signal.SIGTERM) == 0
