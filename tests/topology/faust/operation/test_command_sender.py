"""Where a command goes: to the partition that has its stream."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from topology import Inspector, Topology, TopologyTestDriver
from topology.declaration.lanes import joined_lane
from topology.engine.commands.command import Command, CommandResult, decode_command
from topology.engine.commands.execute import execute
from topology.engine.commit_unit import CommitUnit
from topology.faust.operation import command_sender
from topology.faust.operation.command_sender import CommandSender, operate, partitions_of


def test_a_lane_is_where_its_stream_is() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector("id", "n"), partitions=16)
    topology.view("plain", of=source, handler=lambda event: None)
    topology.view("lanes", of=source, handler=lambda event: None, lane="currency")
    plain, lanes = (topology.views[name] for name in ("plain", "lanes"))
    for stream in ("a", "north|17", "%"):
        (where,) = partitions_of(plain, stream)
        assert {tuple(partitions_of(lanes, joined_lane(stream, c))) for c in ("EUR", "", "|")} == {
            (where,)
        }
    assert partitions_of(lanes, None) == list(range(16))


def records(values: Iterable[bytes | None]) -> list[Any]:
    return [SimpleNamespace(value=value, offset=n) for n, value in enumerate(values)]


class Audit:
    """An audit topic, read in one go."""

    def __init__(self, *values: bytes | None) -> None:
        self.values = values

    async def getmany(self, timeout_ms: int) -> dict[str, list[Any]]:
        await asyncio.sleep(0)
        return {"audit": records(self.values)}


async def test_an_answer_is_found_among_what_others_wrote_to_the_audit_topic() -> None:
    orders = CommandSender(None, ())
    answer = b'{"id": "7", "done": true, "message": "is done", "facts": {}}'
    rubbish = (None, b"", b"{", b"[]", b"7", b'{"id": []}', b"\xff", b'{"name": "blocked"}')
    orders._consumer = Audit(*rubbish, answer)
    await orders._answers({"7": 1}, 60)
    assert list(orders._found["7"].values()) == [CommandResult(True, "is done", {}, "")]


async def test_a_partition_that_answers_again_after_a_crash_answers_for_no_other_one() -> None:
    def answer(partition: int, done: bool) -> bytes:
        found = {"id": "7", "partition": partition, "done": done, "message": "", "facts": {}}
        return orjson.dumps(found)

    orders = CommandSender(None, ())
    orders._consumer = Audit(answer(0, True), answer(0, False))
    # It comes again and again, and whoever waits gives up on the others all the same.
    await asyncio.wait_for(orders._answers({"7": 2}, 0.01), 60)
    assert not orders._is_answered("7", {"7": 2})
    orders._consumer = Audit(answer(1, False))
    await orders._answers({"7": 2}, 60)
    assert [each.done for each in orders._found["7"].values()] == [True, False]


class Partitions:
    """Orders that are carried out at once: by a driver for each partition, as a worker would."""

    drivers: dict[int, TopologyTestDriver]

    def __init__(self, app: Any, views: Any) -> None:
        (self.view,) = views

    async def __aenter__(self) -> "Partitions":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def give(self, commands: list[Command], **_: float) -> list[CommandResult]:
        (command,) = commands
        (number,) = partitions_of(self.view, command.stream)
        task = self.drivers[number]._runner.view(self.view.name)
        return [execute(task, command, CommitUnit("", number, now=1))]


@pytest.mark.parametrize("name", ["a|b", "a|b|EUR", "a%7Cb|EUR", "a%7Cb"])
@pytest.mark.parametrize("force", [False, True])
async def test_a_command_finds_a_stream_with_a_bar_in_whichever_partition_it_is(
    name: str, force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector("id", "n"), partitions=16)
    topology.view("board", of=source, handler=lambda event: None, lane="lane")
    view, app = topology.views["board"], SimpleNamespace(engine=SimpleNamespace(topology=topology))
    Partitions.drivers = {number: TopologyTestDriver(topology) for number in range(16)}
    monkeypatch.setattr(command_sender, "CommandSender", Partitions)
    streams = ("a|b", "a", "b")
    places = [partitions_of(view, joined_lane(stream, ""))[0] for stream in streams]
    assert len(set(places)) == 3
    for stream, number in zip(streams, places, strict=True):
        Partitions.drivers[number].pipe("orders", {"id": stream, "n": 2, "lane": "EUR"})

    done = await operate(app, Command("skip", "board", name, 1, force=force))
    assert done.done, done.message
    assert Partitions.drivers[places[0]].last("board", "a|b") in (1, 2)
    for stream, number in list(zip(streams, places, strict=True))[1:]:
        assert Partitions.drivers[number].last("board", stream) == 0
    none = await operate(app, Command("skip", "board", "c|d", 1))
    assert not none.done
    assert "has no stream 'c|d'" in none.message
    assert (await operate(app, Command("skip", "board", "c|d", 1, force=True))).done


class Broker:
    """Both clients of a sender, and a worker of each partition that does what it is told or not."""

    def __init__(self, *does: bool) -> None:
        self._does = does
        self._answers: list[bytes] = []

    async def send(
        self, topic: str, value: bytes, *, key: bytes, partition: int
    ) -> "asyncio.Future[None]":
        told = {"id": decode_command(value).id, "done": self._does[partition], "facts": {}}
        self._answers.append(orjson.dumps({**told, "message": f"partition {partition} is at it"}))
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        taken.set_result(None)
        return taken

    async def getmany(self, timeout_ms: int) -> dict[str, list[Any]]:
        found, self._answers = self._answers, []
        return {"audit": records(found)}


@pytest.mark.parametrize("name", ["halt", "cancel"])
async def test_what_is_told_to_a_view_is_done_when_all_its_partitions_have_done_it(
    name: str,
) -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector("id", "n"), partitions=3, keyed=True)
    topology.view("board", of=source, handler=lambda event: None)
    for does, done in (((True,) * 3, True), ((False,) * 3, False), ((True, False, True), False)):
        sender = CommandSender(None, [topology.views["board"]])
        sender._consumer = sender._producer = Broker(*does)
        (result,) = await sender.give([Command(name, "board")])
        assert result is not None
        assert result.done is done
        # Of a stream, one partition has what there is to do.
        (result,) = await sender.give([Command("redrive", "board", "a")])
        assert result is not None
        assert result.done is any(does)

    (result,) = await sender.give([Command(name, "board")])
    assert result is not None
    assert result.message == (
        f"{name} is done in 2 of 3 partitions; in others: partition 1 is at it"
    )
