"""A machine that was suspended: its leases went on, though its monotonic clock stood still."""

import asyncio
import time
from typing import Any

import pytest

from stores.units.errors import SendRefused
from stores.units.paths.leader import PathLeader
from tests.stores.units.one_process import one_member
from tests.stores.units.test_routes import Service, routes_of


def suspend(monkeypatch: pytest.MonkeyPatch, seconds: float = 3600.0) -> None:
    """What a process sees that wakes after so long."""
    real = time.clock_gettime

    def gettime(clock: int) -> float:
        return real(clock) + (seconds if clock == time.CLOCK_BOOTTIME else 0)

    monkeypatch.setattr(time, "clock_gettime", gettime)


async def test_a_producer_that_was_suspended_does_not_go_by_its_old_routes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service()
    service.lease = 600.0
    routes = await routes_of(service)
    try:
        old = await routes.acquire("u")
        old.release()
        on_its_way: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        watched = (await routes.acquire("v")).watch(on_its_way)
        suspend(monkeypatch)
        new = await routes.acquire("u")
        new.release()
        on_its_way.set_result("there")
        with pytest.raises(SendRefused, match="after this producer's lease"):
            await watched
        assert new is not old
    finally:
        await routes.close()


async def test_neither_a_consumer_nor_an_owner_that_was_suspended_goes_by_its_old_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_member(monkeypatch) as member:
        link, arrivals = member.link()
        member.arrive(b"1")
        assert (await arrivals.next()).held
        remaining, valid = member.owner.remaining, link.valid
        suspend(monkeypatch)
        assert (remaining > 0, valid) == (True, True)
        assert (member.owner.remaining > 0, link.valid) == (False, False)


async def test_a_path_service_that_was_suspended_counts_the_leases_of_its_producers_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = PathLeader("d", {}, 10.0, "http://h")
    times: list[float] = []

    async def ask() -> None:
        def question(_: Any, now: float) -> dict[str, Any]:
            times.append(now)
            raise RuntimeError

        leader._asked.append((question, asyncio.get_running_loop().create_future()))
        with pytest.raises(RuntimeError):
            await leader._step()

    await ask()
    suspend(monkeypatch)
    await ask()
    assert times[1] - times[0] > 3599
