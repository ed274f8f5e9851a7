"""A partition of a source topic, whose messages are re-keyed by stream."""

from topology.engine.partition import RekeyStep
from topology.engine.stream_task import RekeyTask
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.partition import Partition
from topology.faust.worker.runner import Runner
from topology.faust.worker.start_offset import committed_start
from topology.model.ending import wait_for_stop


class RekeyPartition(Partition):
    """One runner, and no state but the counts that go with the committed offset."""

    async def open(self) -> list[Runner]:
        context = self._context
        writer = context.writer(self.source)
        try:
            await writer.start()
            _, start, taken = await committed_start(context, self.source)
        except BaseException:
            await wait_for_stop(writer.stop())
            raise
        task = RekeyTask(context.topology, self._declared, taken)
        step = RekeyStep(self.source, task, context.sources[self._declared.name].do, wall)
        return [Runner(self.source, step, writer, context.shared_reader, start)]
