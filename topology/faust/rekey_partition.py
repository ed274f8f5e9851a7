"""A partition of a source topic, whose messages are re-keyed by stream."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import TopicPartition

from topology.faust.partition import Partition
from topology.faust.runner import Runner, stopped
from topology.faust.shared import Shared
from topology.faust.start import start_of
from topology.faust.steps import RekeyStep
from topology.source import Source
from topology.stream_task import RekeyTask


class RekeyPartition(Partition):
    """One runner, and no state but the counts that go with the committed offset."""

    def __init__(
        self,
        source: TopicPartition,
        declared: Source,
        shared: Shared,
        crash: Callable[[BaseException], Awaitable[Any]],
    ) -> None:
        super().__init__(source, crash, shared.settings.session_timeout)
        self._declared = declared
        self._shared = shared

    async def open(self) -> list[Runner]:
        shared = self._shared
        writer = shared.writer(self.source)
        try:
            await writer.start()
            _, start, taken = await start_of(shared, self.source)
        except BaseException:
            await stopped(writer.stop())
            raise
        task = RekeyTask(shared.topology, self._declared, taken)
        step = RekeyStep(task, shared.sources[self._declared.name].do)
        return [Runner(self.source, step, writer, shared.together, start)]
