"""A partition of a source topic, whose messages are re-keyed by stream."""

import math

from aiokafka import TopicPartition

from topology.declaration.source import Source
from topology.engine.partition import Alignment, RekeyStep
from topology.engine.stream_task import RekeyTask
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.context import WorkerContext
from topology.faust.worker.partition import Crash, Partition
from topology.faust.worker.reading.alignment import AlignedReading
from topology.faust.worker.runner import Runner
from topology.faust.worker.start_offset import committed_start
from topology.model.ending import wait_for_stop


class RekeyPartition(Partition):
    """One runner, and no state but the counts that go with the committed offset."""

    def __init__(
        self, source: TopicPartition, declared: Source, context: WorkerContext, crash: Crash
    ) -> None:
        super().__init__(source, context, crash)
        self._declared = declared

    def join(self) -> None:
        """Nothing is known yet of what it brings."""
        self._alignment.note(self.source, -math.inf, wall())

    async def open(self) -> list[Runner]:
        context = self._context
        writer = context.writer(self.source)
        try:
            await writer.start()
            start = await committed_start(context, self.source)
        except BaseException:
            await wait_for_stop(writer.stop())
            raise
        taken = start.taken
        task = RekeyTask(context.topology, self._declared, taken)
        step = RekeyStep(self.source, task, context.sources[self._declared.name].do, wall)
        alignment = None
        if context.settings.read_ahead >= 0:
            group = context.group_reading(self._declared)
            alignment = AlignedReading(self._alignment, group, self.source, taken)
        else:
            taken.time = 0  # nobody is to wait for what nobody notes any longer
        runner = Runner(
            self.source, step, writer, context.shared_reader, start.offset,
            alignment=alignment, batch=context.settings.batch, committed=start.committed,
        )  # fmt: skip
        return [runner]

    @property
    def _alignment(self) -> Alignment:
        return self._context.alignment(self._declared.name)

    async def _close(self, grace: float) -> None:
        await super()._close(grace)
        self._alignment.leave(self.source)
