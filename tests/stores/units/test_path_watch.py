"""What the leader of paths knows of subscribers before it deletes a path."""

import asyncio
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from stores.units.kafka.row_log import row_key
from stores.units.paths import watch
from stores.units.routing import PathMap, SubscriberProgress


class Rows:
    """A consumer of the topic of rows that gets one record at a time, when the test says so."""

    def __init__(self, *groups: str) -> None:
        value = orjson.dumps({"position": 10, "done": ""})
        self.records = [
            SimpleNamespace(key=row_key(each, 0, ("position",)), value=value) for each in groups
        ]
        self.read, self.may_read = 0, asyncio.Semaphore(0)

    def assign(self, _: object) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def seek_to_beginning(self) -> None: ...

    async def end_offsets(self, places: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, len(self.records))

    async def position(self, _: object) -> int:
        return self.read

    async def getmany(self, timeout_ms: int) -> dict[str, list[Any]]:
        await self.may_read.acquire()
        self.read += 1
        return {"at": self.records[self.read - 1 : self.read]}


async def test_no_path_is_judged_before_the_rows_of_all_subscribers_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = Rows("quick", "slow")
    cluster = SimpleNamespace(available_partitions_for_topic=lambda _: {0})

    async def partitions_for(_: str) -> set[int]:
        return {0}

    producer: Any = SimpleNamespace(
        partitions_for=partitions_for, client=SimpleNamespace(cluster=cluster)
    )
    monkeypatch.setattr(watch, "reader", lambda _: rows)
    watching = watch.MemberWatch("d", {}, producer, PathMap(["0"]), lambda: None)
    task = asyncio.create_task(watching.follow())
    rows.may_read.release()
    for _ in range(20):
        await asyncio.sleep(0)
    assert watching.progress.passed(0, 9), "the first subscriber has passed it"
    assert not watching.complete, "but another one may not have"
    rows.may_read.release()
    async with asyncio.timeout(60):
        while not watching.complete:
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_path_stays_while_a_subscriber_is_behind_or_has_parked_something() -> None:
    progress = SubscriberProgress()
    assert not progress.passed(0, 4), "the first subscriber reads from the beginning"
    progress.take("g", 0, ("position",), {"position": 5})
    assert progress.passed(0, 4)
    progress.take("h", 1, ("owner",), {"url": "http://h"})
    assert not progress.passed(0, 4), "h has not said how far it is there"
    progress.take("h", 0, ("position",), {"position": 3})
    assert progress.backlog(0, 9) == 6
    progress.take("h", 0, ("unit", "u"), {"parked": 1.0})
    progress.take("h", 0, ("message", 2), {"unit": "v"})
    progress.take("h", 0, ("position",), {"position": 9})
    assert (progress.passed(0, 4), progress.kept()) == (True, {"u", "v"})
    progress.take("h", 0, ("unit", "u"), None)
    progress.take("h", 0, ("message", 2), None)
    assert progress.kept() == set()


def test_a_subscriber_that_was_forgotten_holds_no_path() -> None:
    progress = SubscriberProgress()
    for group in ("here", "gone"):
        progress.take(group, 0, ("owner",), {"url": "http://h", "epoch": 3})
        progress.take(group, 0, ("position",), {"position": 5 if group == "gone" else 9})
        progress.take(group, 1, ("owner",), {"url": "http://h", "epoch": 3})
        progress.take(group, 1, ("position",), {"position": 5})
    assert not progress.passed(0, 7)
    for member in (0, 1):
        progress.take("gone", member, ("owner",), {"epoch": 3, "forgotten": True})
        progress.take("gone", member, ("position",), None)
    assert (progress.passed(0, 7), progress.backlog(0, 10)) == (True, 1)
    progress.take("gone", 1, ("owner",), {"url": "http://h", "epoch": 4})
    assert not progress.passed(0, 7), "it has come back"
