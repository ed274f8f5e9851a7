"""A recovery that does not end at its server ends in the group, and its outcome can be awaited."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stores.replay.recovering import RecoveringConsumer, RecoveryEnded
from stores.replay.recovering.group_log import GroupLog, partition_key, request_key
from stores.replay.recovering.replay_server import ReplayServer
from stores.replay.recovering.switch import PartitionSwitch

Answer = tuple[int, dict[str, Any]]


class Group:
    """Of one member, in memory."""

    def __init__(self) -> None:
        self.log = GroupLog()

    async def read(self) -> None: ...

    async def read_to_end(self) -> None: ...

    async def say(self, request: str, step: str, said: Mapping[str, Any]) -> None:
        self.log.fold(request_key(request, step), orjson.dumps(said))


@asynccontextmanager
async def server(answer: list[Answer]) -> AsyncIterator[str]:
    """A replay server that gives the last of these answers: its URL."""

    async def recovery(_: web.Request) -> web.Response:
        status, said = answer[-1]
        return web.json_response(said, status=status)

    app = web.Application()
    app.add_routes([web.get("/recoveries/{id}", recovery)])
    async with TestServer(app) as running:
        yield str(running.make_url(""))


def state(name: str, why: str = "", *gone: str) -> Answer:
    said = {"id": "x", "topics": {}, "through_router": False, "gone": gone}
    return 200, {**said, "state": name, "why": why}


@asynccontextmanager
async def member(answers: list[Answer]) -> AsyncIterator[tuple[RecoveringConsumer, Group, str]]:
    """A member of a group, which has one partition that stopped for the recovery `r`."""
    consumer, group = RecoveringConsumer(["t"], "billing", {}), Group()
    topic = consumer._group
    consumer._group = consumer._care._group = group  # type: ignore[assignment]
    async with server(answers) as url:
        await _run(group, url)
        yield consumer, group, url
    consumer._group = topic
    await consumer.__aexit__()


async def _run(group: Group, url: str) -> None:
    await group.say("r", "asked", {"topics": ["t"]})
    running = {"recovery": "x", "server": url, "topics": {}, "through_router": False}
    await group.say("r", "running", {**running, "positions": {"t": {"0": 5}}})
    stop(group, PartitionSwitch(position=5))


def stop(group: Group, switch: PartitionSwitch) -> PartitionSwitch:
    switch.stop("r")
    group.log.fold(partition_key(("t", 0)), orjson.dumps(switch.to_json()))
    return switch


def leave(group: Group) -> None:
    switch = stop(group, PartitionSwitch(position=5))
    switch.leave()
    group.log.fold(partition_key(("t", 0)), orjson.dumps(switch.to_json()))


async def test_what_the_server_does_not_know_ends_and_what_it_only_refuses_to_say_does_not() -> (
    None
):
    answers: list[Answer] = [(401, {"error": "a token is wanted"})]
    async with member(answers) as (consumer, group, _):
        request = group.log.requests["r"]
        await consumer._care.ask(request)
        assert request.ended is None
        answers.append((404, {"error": "there is no recovery 'x'"}))
        await consumer._care.ask(request)
        with pytest.raises(RecoveryEnded, match="there is no recovery"):
            await consumer.recovered("r")


async def test_what_is_paused_ends_when_nobody_resumes_it() -> None:
    paused = state("paused", "it is too large")
    answers = [paused]
    async with member(answers) as (consumer, group, _):
        request = group.log.requests["r"]
        await consumer._care.ask(request)
        consumer._care._paused["r"] -= 601
        answers.append(state("running"))
        await consumer._care.ask(request)
        answers.append(paused)
        await consumer._care.ask(request)
        assert request.ended is None, "it had been resumed"
        consumer._care._paused["r"] -= 601
        await consumer._care.ask(request)
        with pytest.raises(RecoveryEnded, match="paused: it is too large"):
            await consumer.recovered("r")


async def test_what_was_read_is_not_said_to_have_ended_early_by_whoever_hears_of_it_late() -> None:
    answers = [state("closed", "the consumers have read it")]
    async with member(answers) as (consumer, group, url):
        leave(group)
        await consumer._care.ask(group.log.requests["r"])
        await consumer.recovered("r")
        consumer._care.whole["r"] = ReplayServer(url), "x"
        answers.append(state("closed", "", "t/0: 3 to 7"))
        with pytest.raises(RecoveryEnded, match="t/0: 3 to 7"):
            await consumer.recovered("r")
