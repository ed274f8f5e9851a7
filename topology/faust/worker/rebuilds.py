"""Reads the history of streams that are to be rebuilt, while everything else goes on."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from stores.db.urls import said
from topology.engine.commit_unit import CommitUnit
from topology.engine.view_task import ViewTask
from topology.faust.kafka.clients import connected_consumer, read_range
from topology.model.ending import wait_for_stop
from topology.view_rebuild.history import Histories, History
from topology.view_rebuild.stream_rebuild import rebuild_all

if TYPE_CHECKING:
    from topology.faust.worker.captured_history import CapturedHistory

logger = get_logger(__name__)

End = Callable[[TopicPartition], Awaitable[int]]

STOP = 5.0
"""Seconds that stopping may take: the broker may be gone."""
AGAIN = 1.0
"""Seconds before a history that could not be read is read again."""


class Rebuilds:
    """The histories of one view in one partition; the requests themselves are rows of the view.

    All streams that ask are read for in one go, as far as there is room for their events. end: the
    offset behind all that a partition has. batch: events that a unit handles again, about.

    At least once, the state may have more of the input than the offset that was committed: then
    nothing is rebuilt until all has been read again that was there, or what was handled in its time
    would not be in its stream's history.
    """

    def __init__(self, app: Any, end: End, batch: int, task: ViewTask, partition: int) -> None:
        self._app = app
        once = app.engine.settings.guarantee == "exactly_once"
        self._known: int | None = 0 if once else None
        self._end = end
        self._batch = batch
        self._task = task
        view = task.view
        self._input = TopicPartition(view.of.by_stream, partition)
        self._output = TopicPartition(view.output, partition)
        self._captured = _captured(app.engine.settings.replay_log)
        self._reading: asyncio.Task[Histories] | None = None
        self._found: dict[str, History] = {}
        self._turn = False

    def poll(self, position: int) -> None:
        """Begin to read if a stream asks for it. position: the input offset that the view is at."""
        if self._known is not None and position < self._known:
            return
        if self._reading is None and not self._found and (streams := self._task.rebuilds):
            histories = Histories(self._task, streams)
            self._reading = asyncio.create_task(self._read(histories, position))

    @property
    def ready(self) -> bool:
        """Whether there is something to take, soon if not at once."""
        return bool(self._found) or (self._reading is not None and self._reading.done())

    def take(self) -> dict[str, History]:
        """The histories of the streams to rebuild in the next unit, as many as fit into a batch.

        Every other time there are none, so that what arrives has its turn.
        """
        self._turn = not self._turn
        if not self._turn:
            return {}
        if self._reading is not None and self._reading.done():
            self._found, self._reading = dict(self._reading.result().streams), None
        asking, room = set(self._task.rebuilds), self._batch
        taken: dict[str, History] = {}
        if not asking:
            if not self._task.halted:
                self._found.clear()
            return taken
        while self._found and (not taken or room > 0):
            stream, history = self._found.popitem()
            # It may have been dropped by command in between, and even have begun anew.
            if stream in asking and history.follows(self._task.state.progress(stream)):
                taken[stream] = history
                room -= len(history.events)
        return taken

    async def rebuild(self, histories: Mapping[str, History], unit: CommitUnit) -> None:
        """Handle these streams again, into a unit."""
        await rebuild_all(self._task, histories, unit)

    async def _read(self, histories: Histories, position: int) -> Histories:
        while True:
            try:
                if self._known is None:
                    self._known = await self._end(self._input)
                if position < self._known:
                    return Histories(self._task, [])
                return await self._read_all(histories, position)
            except (KafkaError, OSError) as error:
                logger.warning("no history is read, and it is tried again: %s", said(error))
                await asyncio.sleep(AGAIN)
                histories = Histories(self._task, self._task.rebuilds)

    async def _read_all(self, histories: Histories, position: int) -> Histories:
        consumer = await connected_consumer(self._app, max_partition_fetch_bytes=1 << 20)
        try:
            both = [self._input, self._output]
            consumer.assign(both)
            firsts = await consumer.beginning_offsets(both)
            # What the view has written last may be in a transaction that does not show yet.
            end = await self._end(self._output)
            first = firsts[self._input]
            whole = first == 0
            if not whole and self._captured is not None:
                of = self._task.view.of
                whole = await self._captured.read(histories, of, self._input, first)
            histories.shortened(input=not whole, output=firsts[self._output] > 0)
            for partition, until, take in (
                (self._input, position, histories.message),
                (self._output, end, histories.output),
            ):
                consumer.assign([partition])
                async for records in read_range(
                    consumer, partition, firsts[partition], until, most=1_000
                ):
                    for record in records:
                        take(record)
                    # The handlers of all other streams have their turn in between.
                    await asyncio.sleep(0)
        finally:
            await wait_for_stop(consumer.stop())
        return histories

    async def stop(self) -> None:
        """Read no more; what was asked for is asked for again by whoever has the partition next."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading], timeout=STOP)


def _captured(log: str | None) -> "CapturedHistory | None":
    """What reads a replay log, if there is one: who has none loads no client of a database."""
    if log is None:
        return None
    from topology.faust.worker.captured_history import CapturedHistory

    return CapturedHistory(log)
