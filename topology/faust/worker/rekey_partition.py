"""A partition of a source topic, whose messages are re-keyed by stream."""

from topology.engine.stream_task import RekeyTask
from topology.faust.worker.partition import Partition
from topology.faust.worker.runner import Runner, stopped
from topology.faust.worker.start import start_of
from topology.faust.worker.steps import RekeyStep


class RekeyPartition(Partition):
    """One runner, and no state but the counts that go with the committed offset."""

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
