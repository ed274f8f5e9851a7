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
    begun = 0

    class Fenced:
        def __init__(self, *_: object) -> None: ...

        async def run(self) -> None:
            nonlocal begun
            begun += 1
            raise ProducerFenced

    monkeypatch.setattr(leading, "AGAIN", 0.02)
    candidate = candidate_with(Fenced, monkeypatch)
    places: list[Any] = ["d.paths/0"]
    await candidate.on_partitions_assigned(places)
    await asyncio.sleep(0.5)
    assert 2 <= begun <= 6
    before = begun
    await candidate.on_partitions_assigned(places)
    await asyncio.sleep(0.01)
    assert begun == before + 1
    assert candidate._leading is not None
    candidate._leading.cancel()
