"""What the simulator gives the protocol of a partition: readers of the fake log, and its steps.

A coroutine that the protocol awaits here is made of a generator: each name of a step that it yields
goes through the whole protocol to whoever drives the partition.
"""

from collections.abc import Coroutine, Generator, Mapping, Sequence
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from topology.engine.commit_unit import CommitUnit
from topology.engine.view_task import ViewTask
from topology.model.event import Message, Record
from topology.testing.simulation.log_partition import TopicPartition
from topology.view_rebuild.history import Histories, History
from topology.view_rebuild.stream_rebuild import rebuild_all

if TYPE_CHECKING:
    from topology.testing.simulation.runner import PartitionRunner
    from topology.testing.simulation.starting import Starting
    from topology.testing.simulation.world import World

T = TypeVar("T")
ALL = 1 << 30


@coroutine
def awaitable(steps: Generator[str, None, T]) -> Generator[str, None, T]:
    """Steps that can be awaited."""
    return (yield from steps)


async def in_turn(*works: Coroutine[Any, Any, Any]) -> None:
    """Do what a worker does side by side."""
    try:
        for work in works:
            await work
    finally:
        for work in works:
            work.close()


def record(world: "World", place: TopicPartition, offset: int) -> Record:
    """The record at an offset, where there is one."""
    out = world.log.partition(place).records[offset]
    assert out is not None
    return Record(*place, offset, out[0], out[1], out[3], out[2])


class SideReader:
    """Reads a partition of the fake log, as far as it shows, which may not be there yet."""

    def __init__(self, world: "World", place: TopicPartition) -> None:
        self._world = world
        self._place = place
        self._at = 0

    def seek(self, offset: int) -> None:
        self._at = offset

    async def fetch(self, timeout: float) -> Sequence[Message]:
        partition = self._world.log.partitions.get(self._place)
        if partition is None or partition.end <= self._at:
            return ()
        found, self._at = partition.read(self._at, ALL)
        return [record(self._world, self._place, offset) for offset in found]

    async def position(self) -> int:
        return self._at

    async def end(self) -> int:
        partition = self._world.log.partitions.get(self._place)
        return 0 if partition is None else partition.end

    async def written(self) -> int:
        """The offset behind everything, in transactions that do not show yet too."""
        partition = self._world.log.partitions.get(self._place)
        return 0 if partition is None else len(partition.records)

    def pause(self) -> None:
        """It reads only when it is asked."""


class LoopPorts:
    """The input and the host of a partition's loop."""

    def __init__(self, runner: "PartitionRunner") -> None:
        self._runner = runner

    def seek(self, offset: int) -> None:
        self._runner.position = offset

    async def fetch(self, timeout: float) -> Sequence[Message]:
        return await awaitable(self._runner.fetch())

    async def position(self) -> int:
        return self._runner.position

    async def end(self) -> int:
        return self._runner.input.end

    def pause(self) -> None:
        """It reads only when it is asked."""

    async def commit(self, unit: CommitUnit) -> None:
        await awaitable(self._runner.commit_computed(unit))

    async def sleep(self, seconds: float) -> None:
        """Time passes when the schedule says so."""

    def caught_up(self) -> bool:
        return False

    def log_truncated(self, position: int, first: int) -> None:
        raise AssertionError(f"{self._runner.name} was at {position} and is at {first}")

    async def jumped(self, position: int, first: int) -> None:
        """Nothing is deleted before it is read."""


class ShownHistories:
    """Histories of a view's streams, read at once from what shows."""

    ready = False

    def __init__(self, runner: "Starting", task: ViewTask) -> None:
        self._runner = runner
        self._task = task

    def poll(self, position: int) -> None:
        """What is asked for is read when it is taken."""

    def take(self) -> Mapping[str, History]:
        """The history of a stream to rebuild; none if all of it does not show yet."""
        streams, runner = self._task.rebuilds, self._runner
        if not streams or runner.position < runner.known:
            return {}
        place = self._task.view.output, runner.place[1]
        output = runner.world.log.partition(place)
        if output.end < len(output.records):
            return {}
        histories = Histories(self._task, streams[:1])
        for at in runner.input.read(0, ALL, runner.position)[0]:
            histories.message(record(runner.world, runner.place, at))
        for at in output.read(0, ALL)[0]:
            histories.output(record(runner.world, place, at))
        return histories.streams

    async def rebuild(self, histories: Mapping[str, History], unit: CommitUnit) -> None:
        await rebuild_all(self._task, histories, unit)

    async def stop(self) -> None:
        """Nothing goes on meanwhile."""
