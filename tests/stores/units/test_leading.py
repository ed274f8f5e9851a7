"""A path service leads while its group says so, and only once at a time."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import ProducerFenced

from stores.units.paths import leading
from stores.units.paths.leader import PathLeader
from stores.units.paths.leading import Candidate
from stores.units.paths.settings import PathSettings


def candidate_with(leader: Any, monkeypatch: pytest.MonkeyPatch) -> Candidate:
    monkeypatch.setattr(leading, "PathLeader", leader)
    settings = PathSettings(("d",), {}, "a-token-of-16-characters")
    found = Candidate(settings, "d", "http://h", dict[str, PathLeader]())
    found._consumer = SimpleNamespace(pause=lambda *_: None)
    return found


async def test_a_leader_that_swallowed_its_end_does_not_lead_beside_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[asyncio.Event] = []

    class Deaf:
        def __init__(self, *_: object) -> None:
            begun.append(asyncio.Event())
            self.fenced = begun[-1]

        async def run(self) -> None:
            try:
                await self.fenced.wait()
            except asyncio.CancelledError:  # as a client does
                await self.fenced.wait()
                raise ProducerFenced from None

    monkeypatch.setattr(leading, "AGAIN", 0.01)
    candidate = candidate_with(Deaf, monkeypatch)
    places: list[Any] = ["d.paths/0"]
    await candidate.on_partitions_assigned(places)
    await asyncio.sleep(0.01)
    await candidate.on_partitions_assigned([])
    await asyncio.sleep(0.01)
    await candidate.on_partitions_assigned(places)
    await asyncio.sleep(0.01)
    begun[0].set()  # by the next, which has the same transactional id
    async with asyncio.timeout(60):
        while len(begun) < 2:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    led = len(begun)
    assert candidate._leading is not None
    candidate._leading.cancel()
    for each in begun:
        each.set()
    assert led == 2


async def test_services_that_fence_each_other_wait_longer_until_the_group_assigns_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = list[float]()

    class Fenced:
        def __init__(self, *_: object) -> None: ...

        async def run(self) -> None:
            raise ProducerFenced

    async def pause(assigned: Any, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            await assigned
        else:
            assigned.close()
            await asyncio.sleep(0.001)
            raise TimeoutError

    monkeypatch.setattr("stores.units.paths.leading.asyncio.wait_for", pause)
    candidate = candidate_with(Fenced, monkeypatch)
    places: list[Any] = ["d.paths/0"]
    async with asyncio.timeout(60):
        for count in (4, 7):
            await candidate.on_partitions_assigned(places)
            while len(pauses) < count:
                await asyncio.sleep(0.01)
    assert pauses[:7] == [1.0, 2.0, 4.0, 8.0, 1.0, 2.0, 4.0]
    assert candidate._leading is not None
    candidate._leading.cancel()
