"""Where Faust is subclassed: its consumer keeps the group membership and leaves the data alone.

Why: Faust's data path loses events on a restart with table recovery and makes tasks and futures
for each event, and its exactly-once mode neither fences nor commits tables with outputs.
What stays Faust's: the worker and its CLI, agents, assignment, co-partitioning, table declarations,
timers, commands, web. `tests/topology/faust/worker/test_seams.py` fails if an upgrade moves what is
relied on here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka.structs import OffsetAndMetadata
from faust.tables.manager import TableManager as FaustTableManager
from faust.tables.recovery import Recovery as FaustRecovery
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from topology.faust.worker.former_member import leave_if_changed


class Consumer(driver.Consumer):
    """The group consumer; the partitions that the engine runs stay paused in it for good."""

    _subscribed = False

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe; the first time without what this instance read in another version."""
        topics = set(topics)
        if not self._subscribed:
            self._subscribed = True
            coordinator = self._thread._ensure_consumer()._coordinator
            await self._thread.call_thread(
                leave_if_changed,
                coordinator,
                self.app.assignor,
                topics,
                str(self.app.conf.broker[0]),
            )
        await super().subscribe(topics)

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        engine = self.app.engine  # type: ignore[attr-defined]
        super().resume_partitions({tp for tp in tps if not engine.owns(tp.topic)})

    def verify_event_path(self, now: float, tp: TP) -> None:
        if not self.app.engine.owns(tp.topic):  # type: ignore[attr-defined]
            super().verify_event_path(now, tp)

    def pause_for_engine(self, tps: Iterable[TP]) -> None:
        """Keep aiokafka from prefetching what nobody will take from this consumer."""
        consumer = self._thread._ensure_consumer()
        engine = self.app.engine  # type: ignore[attr-defined]
        mine = [tp for tp in consumer.assignment() if engine.owns(tp.topic)]
        if mine:
            consumer.pause(*mine)

    async def commit_noted(self, offsets: Mapping[TP, OffsetAndMetadata]) -> None:
        """Commit offsets with their metadata, which Faust's own commit leaves empty."""
        thread = self._thread

        async def commit() -> None:
            consumer = thread._ensure_consumer()
            assigned = consumer.assignment()
            mine = {tp: noted for tp, noted in offsets.items() if tp in assigned}
            if mine:
                await consumer.commit(mine)

        await thread.call_thread(commit)

    async def is_member(self) -> bool:
        """Whether the group's coordinator confirms it, by a heartbeat of this assignment."""
        thread = self._thread

        async def beat() -> bool:
            coordinator = thread._ensure_consumer()._coordinator
            return bool(await coordinator._do_heartbeat())

        return bool(await thread.call_thread(beat))

    def touch(self) -> None:
        """Count as a poll: a consumer that never fetches would be taken for stuck and leave."""
        consumer = self._thread._consumer
        if consumer is not None:
            with consumer._fetcher._subscriptions.fetch_context():
                pass


class Transport(driver.Transport):
    """Faust's Kafka transport with that consumer."""

    Consumer = Consumer


class Recovery(FaustRecovery):
    """Faust's recovery, told that the engine restores its tables itself."""

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        engine, app = self._engine, self.app
        app.consumer.pause_for_engine(assigned)  # type: ignore[attr-defined]
        changelogs = self.tables._changelogs
        hidden = {topic: changelogs.pop(topic) for topic in list(changelogs) if engine.owns(topic)}
        try:
            await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
        finally:
            changelogs.update(hidden)

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """Other tables are restored: start the engine's partitions, then say that all is ready."""
        assigned = self.app.consumer.assignment()
        await self._wait(self._engine.assign(assigned))
        await super().on_recovery_completed(generation_id)

    async def _resume_streams(self, generation_id: int = 0) -> None:
        """Without tables, as in a topology that only routes, this is all that Faust does."""
        if not self.tables:
            await self._wait(self._engine.assign(self.app.consumer.assignment()))
        await super()._resume_streams(generation_id)

    @property
    def _engine(self) -> Any:
        return self.app.engine  # type: ignore[attr-defined]


class TableManager(FaustTableManager):
    """Faust's table manager with that recovery."""

    @property
    def recovery(self) -> Recovery:
        if self._recovery is None:
            self._recovery = Recovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery  # type: ignore[return-value]

    async def on_stop(self) -> None:
        await self.app.engine.stop()  # type: ignore[attr-defined]
        await super().on_stop()
