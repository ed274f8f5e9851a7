"""The views' tables on this worker: opened per partition, brought up to date from the changelog."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from mode import get_logger

from stores.view_state import Store, TableError, ViewTable
from topology.faust.kafka.clients import connected_consumer, read_range
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.disk.in_thread import aside
from topology.faust.worker.disk.table_freshness import (
    deletions_kept,
    in_step_of,
    in_step_row,
    too_long,
    written_too_late,
)
from topology.faust.worker.disk.writing import write
from topology.faust.worker.left_out import left_out
from topology.model.ending import wait_for_stop

logger = get_logger(__name__)

T = TypeVar("T")

ASKED = 60.0
"""Seconds for which a topic's settings are remembered."""
STOP = 10.0
"""Seconds that closing all tables may take."""


class Named(Protocol):
    """What has a table: a view, or the second stage of one."""

    @property
    def name(self) -> str: ...


class Tables:
    """Holds a table per view and partition, in the worker's view-state store."""

    def __init__(self, app: Any, store: Store) -> None:
        self.app = app
        self.store = store
        self._open: dict[tuple[str, int], ViewTable] = {}
        self._spoilt: set[tuple[str, int]] = set()
        self._at_work: dict[tuple[str, int], asyncio.Future[Any]] = {}
        self._deletions: dict[str, tuple[float, float]] = {}
        self.restoring: dict[TopicPartition, tuple[ViewTable, int]] = {}
        """Changelog → the table that is brought to its end now, and the end."""

    def table(self, view: str, partition: int) -> ViewTable | None:
        """The open table, or None if this worker does not have the partition."""
        return self._open.get((view, partition))

    def partitions(self, view: str) -> list[int]:
        """The partitions of a view that are open here."""
        return sorted(p for name, p in list(self._open) if name == view)

    def held(self, view: str) -> list[int]:
        """And those that a thread works on, for somebody who may have been cancelled."""
        return sorted({p for name, p in {*list(self._open), *self._busy} if name == view})

    async def restore(self, views: Sequence[Named], partition: int) -> dict[str, ViewTable]:
        """Open the views' tables of a partition and bring them to the changelog's end.

        Call it only after the partition's writer has started: until then an earlier owner could
        still add to the changelog.
        """
        tables = {view.name: await self.opened(view.name, partition) for view in views}
        consumer = await connected_consumer(self.app, max_partition_fetch_bytes=8 << 20)
        try:
            for view in views:
                changelog = TopicPartition(self.app.engine.changelogs[view.name], partition)
                try:
                    await self._catch_up(consumer, view.name, tables[view.name], changelog)
                finally:
                    self.restoring.pop(changelog, None)
        finally:
            await wait_for_stop(consumer.stop())
        return tables

    async def opened(self, view: str, partition: int) -> ViewTable:
        """The table, opened if it was not, and claimed."""
        at = view, partition
        table = await self._aside(at, partial(self._open_now, at))
        await self._aside(at, table.claim)
        if at in self._spoilt:
            await self._aside(at, table.clear)
            self._spoilt.discard(at)
        return table

    def _open_now(self, at: tuple[str, int]) -> ViewTable:
        """The table, also where nobody waits for it any more: who opens it next takes this one."""
        table = self._open.get(at)
        if table is None:
            table = self._open[at] = self.store.table(*at)
        return table

    async def _aside(self, at: tuple[str, int], work: Callable[[], T]) -> T:
        """Do work of a table in a thread, one thing after the other: that of who was cancelled
        goes on, and is waited for."""
        while (before := self._at_work.get(at)) is not None and not before.done():
            await asyncio.wait([before])
        doing = self._at_work[at] = asyncio.ensure_future(aside(work))
        doing.add_done_callback(_noted)
        return await asyncio.shield(doing)

    async def _catch_up(
        self, consumer: AIOKafkaConsumer, view: str, table: ViewTable, changelog: TopicPartition
    ) -> None:
        clear = partial(self._aside, (view, changelog.partition), table.clear)
        consumer.assign([changelog])
        first = (await consumer.beginning_offsets([changelog]))[changelog]
        end = (await consumer.end_offsets([changelog]))[changelog]
        # What is deleted from now on stays there for longer than this takes.
        offset, now = table.offset, wall()
        kept, noted = await self._kept(changelog.topic), in_step_of(table)
        # What one transaction wrote last ends with a marker. More than that is somebody else's.
        moved = offset is not None and end - offset > 1
        if offset is not None and not first <= offset <= end:
            logger.warning(
                "the table %s stands at offset %d of %s, which has %d to %d: it is rebuilt",
                table.name, offset, changelog, first, end,
            )  # fmt: skip
            await clear()
            offset = None
        elif offset is None:
            await clear()
        elif moved and too_long(noted, now, kept):
            self._tell_of_deletions(table, changelog, kept)
            await clear()
            offset = None
        start = first if offset is None else offset
        if start >= end:
            if offset is None:
                await write(table, [in_step_row(now)], end)
            return
        self.restoring[changelog] = table, end
        began, told, rows = time.monotonic(), time.monotonic(), 0
        # One that is caught up is in step at the end only; whoever goes on goes by what it said.
        stamp = [in_step_row(now)] if offset is None else []
        async for records in read_range(consumer, changelog, start, end):
            if moved and offset is not None and written_too_late(noted, latest(records), kept):
                self._tell_of_deletions(table, changelog, kept)
                await clear()
                await self._catch_up(consumer, view, table, changelog)
                return
            if records:
                read = [(r.key, r.value) for r in records if not left_out(r)]
                await write(table, [*read, *stamp], records[-1].offset + 1)
                rows += len(records)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                logger.info(
                    "restoring %s: %d rows, at offset %s of %d", changelog, rows, table.offset, end
                )
        await write(table, [in_step_row(now)], end)
        took = max(time.monotonic() - began, 1e-9)
        logger.info(
            "restored %s/%d: %d rows in %.1f s (%d rows/s)",
            changelog.topic, changelog.partition, rows, took, rows / took,
        )  # fmt: skip

    def _tell_of_deletions(self, table: ViewTable, changelog: TopicPartition, kept: float) -> None:
        """A table is emptied, as it may have missed deletions."""
        logger.warning(
            "the table %s was not in step with %s for as long as deletions stay there (%.1f h), or "
            "does not say since when: it is rebuilt", table.name, changelog, kept / 3_600_000,
        )  # fmt: skip

    async def _kept(self, topic: str) -> float:
        """How long a changelog keeps deletions (ms), as it said in the last minute."""
        asked, kept = self._deletions.get(topic, (float("-inf"), 0.0))
        if time.monotonic() - asked > ASKED:
            kept = await deletions_kept(self.app, topic)
            self._deletions[topic] = time.monotonic(), kept
        return kept

    async def close(self, view: str, partition: int) -> None:
        """Close a table; the next restore opens it anew."""
        at = view, partition
        if at not in self._open and at not in self._busy:
            return

        def close() -> None:
            # In its turn: who is cancelled before leaves the table to who opens or closes it next.
            if (table := self._open.pop(at, None)) is not None:
                table.close()

        try:
            await self._aside(at, close)
        except TableError as error:
            logger.warning("%s. What is missing is read from the changelog again", error)

    @property
    def _busy(self) -> set[tuple[str, int]]:
        """Tables that a thread works on."""
        return {at for at, work in self._at_work.items() if not work.done()}

    def spoilt(self, view: str, partition: int) -> None:
        """A table cannot be read: the next restore empties it, and rebuilds it."""
        self._spoilt.add((view, partition))

    async def discard(self, view: str, partition: int) -> None:
        """Empty a table that cannot be read; the next restore rebuilds it from the changelog."""
        table = self._open.get((view, partition))
        if table is not None:
            try:
                await self._aside((view, partition), table.clear)
            except TableError as error:
                logger.warning("%s; it is emptied before it is used again", error)
                self.spoilt(view, partition)
                await self.close(view, partition)

    async def close_all(self) -> None:
        """Close what there is, but wait no longer than STOP for a disk that does not answer."""
        closing = [asyncio.create_task(self.close(*at)) for at in {*list(self._open), *self._busy}]
        if closing:
            _, late = await asyncio.wait(closing, timeout=STOP)
            if late:
                logger.warning(
                    "%d tables did not close in %.0f s: what is missing in them is read from the "
                    "changelog again", len(late), STOP,
                )  # fmt: skip
        self.store.close()


def _noted(done: "asyncio.Future[Any]") -> None:
    """What failed for somebody who was cancelled is no error that nobody looked at."""
    if not done.cancelled():
        done.exception()


def latest(records: Sequence[Any]) -> int:
    """The latest time that records have (ms)."""
    return max((record.timestamp for record in records), default=0)
