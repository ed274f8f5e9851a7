"""Work that is given up ends: nothing runs beside what comes after it."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from topology.faust.worker.channel import WorkChannel


def channel_of() -> WorkChannel:
    schema: Any = SimpleNamespace(update=lambda **_: None, key_type=None, value_type=None)
    return WorkChannel(None, "in", schema=schema)


async def actor(channel: WorkChannel) -> None:
    """Does what an agent of a view does."""
    while True:
        await (await channel.queue.get()).run()


class Handler:
    """Takes its events one by one, each in some turns of the loop; and how many do so at once."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.handled: list[int] = []
        self.running = self.most = 0

    async def step(self, turns: int = 1_000_000) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for number in range(turns):
                self.handled.append(number)
                self.begun.set()
                await asyncio.sleep(0)
        finally:
            self.running -= 1


async def ended(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_step_that_is_given_up_does_not_run_beside_the_one_that_follows() -> None:
    channel, handler = channel_of(), Handler()
    actors = [asyncio.create_task(actor(channel)) for _ in range(2)]
    given_up = asyncio.create_task(channel.do(handler.step))
    await handler.begun.wait()
    await ended(given_up)
    assert handler.running == 0, "whoever gave it up has waited for it"
    before = len(handler.handled)
    await channel.do(lambda: handler.step(3))
    assert (handler.most, handler.handled[before:]) == (1, [0, 1, 2])
    for each in actors:
        await ended(each)


async def test_a_step_that_is_given_up_before_it_begins_never_does() -> None:
    channel, handler = channel_of(), Handler()
    given_up = asyncio.create_task(channel.do(handler.step))
    await asyncio.sleep(0)
    await ended(given_up)
    acting = asyncio.create_task(actor(channel))
    await channel.do(lambda: handler.step(1))
    assert handler.handled == [0]
    await ended(acting)


async def test_a_step_that_is_given_up_costs_its_view_no_actor() -> None:
    channel, handler = channel_of(), Handler()
    acting = asyncio.create_task(actor(channel))
    for _ in range(3):
        given_up = asyncio.create_task(channel.do(asyncio.Event().wait))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await ended(given_up)
    await channel.do(lambda: handler.step(2))
    assert handler.handled == [0, 1]
    assert not acting.done()
    await ended(acting)


async def test_work_that_ends_as_cancelled_ends_its_agent_no_more_than_any_other() -> None:
    """A client that is cut off may end so by itself."""

    async def cut_off() -> None:
        raise asyncio.CancelledError

    channel, handler = channel_of(), Handler()
    acting = asyncio.create_task(actor(channel))
    with pytest.raises(asyncio.CancelledError):
        await channel.do(cut_off)
    await channel.do(lambda: handler.step(1))
    assert handler.handled == [0]
    await ended(acting)
