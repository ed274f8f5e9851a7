"""The views' tables on this worker: opened per partition, brought up to date from the changelog."""

import asyncio
import time
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from mode import get_logger

from stores.view_table import Store, TableError, ViewTable
from topology.faust.disk.aside import aside
from topology.faust.disk.writing import write
from topology.faust.kafka import plain_consumer, read_range
from topology.view import View

logger = get_logger(__name__)

STOP = 10.0
"""Seconds that closing all tables may take."""


class Tables:
    """Holds a table per view and partition, in the worker's view-state store."""

    def __init__(self, app: Any, store: Store) -> None:
        self.app = app
        self.store = store
        self._open: dict[tuple[str, int], ViewTable] = {}
        self._spoilt: set[tuple[str, int]] = set()

    def table(self, view: str, partition: int) -> ViewTable | None:
        """The open table, or None if this worker does not have the partition."""
        return self._open.get((view, partition))

    def partitions(self, view: str) -> list[int]:
        """The partitions of a view that are open here."""
        return sorted(p for name, p in self._open if name == view)

    async def restore(self, views: list[View], partition: int) -> dict[str, ViewTable]:
        """Open the views' tables of a partition and bring them to the changelog's end.

        Call it only after the partition's writer has started: until then an earlier owner could
        still add to the changelog.
        """
        tables = {view.name: await self.opened(view.name, partition) for view in views}
        consumer = plain_consumer(self.app, max_partition_fetch_bytes=8 << 20)
        await consumer.start()
        try:
            for view in views:
                changelog = TopicPartition(self.app.engine.changelogs[view.name], partition)
                await self._catch_up(consumer, tables[view.name], changelog)
        finally:
            await consumer.stop()
        return tables

    async def opened(self, view: str, partition: int) -> ViewTable:
        """The table, opened if it was not, and claimed."""
        at = view, partition
        table = self._open.get(at)
        if table is None:
            table = self._open[at] = await aside(partial(self.store.table, view, partition))
        await aside(table.claim)
        if at in self._spoilt:
            await aside(table.clear)
            self._spoilt.discard(at)
        return table

    async def _catch_up(
        self, consumer: AIOKafkaConsumer, table: ViewTable, changelog: TopicPartition
    ) -> None:
        consumer.assign([changelog])
        first = (await consumer.beginning_offsets([changelog]))[changelog]
        end = (await consumer.end_offsets([changelog]))[changelog]
        offset = table.offset
        if offset is not None and not first <= offset <= end:
            logger.warning(
                "the table %s stands at offset %d of %s, which has %d to %d: it is rebuilt",
                table.name, offset, changelog, first, end,
            )  # fmt: skip
            await aside(table.clear)
            offset = None
        elif offset is None:
            await aside(table.clear)
        start = first if offset is None else offset
        if start >= end:
            if offset is None:
                await write(table, [], end)
            return
        began, told, rows = time.monotonic(), time.monotonic(), 0
        async for records in read_range(consumer, changelog, start, end):
            if records:
                await write(table, [(r.key, r.value) for r in records], records[-1].offset + 1)
                rows += len(records)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                logger.info(
                    "restoring %s: %d rows, at offset %s of %d", changelog, rows, table.offset, end
                )
        await write(table, [], end)
        took = max(time.monotonic() - began, 1e-9)
        logger.info(
            "restored %s/%d: %d rows in %.1f s (%d rows/s)",
            changelog.topic, changelog.partition, rows, took, rows / took,
        )  # fmt: skip

    async def close(self, view: str, partition: int) -> None:
        """Close a table; the next restore opens it anew."""
        table = self._open.pop((view, partition), None)
        if table is not None:
            try:
                await aside(table.close)
            except TableError as error:
                logger.warning("%s. What is missing is read from the changelog again", error)

    def spoilt(self, view: str, partition: int) -> None:
        """A table cannot be read: the next restore empties it, and rebuilds it."""
        self._spoilt.add((view, partition))

    async def discard(self, view: str, partition: int) -> None:
        """Empty a table that cannot be read; the next restore rebuilds it from the changelog."""
        table = self._open.get((view, partition))
        if table is not None:
            try:
                await aside(table.clear)
            except TableError as error:
                logger.warning("%s; it is emptied before it is used again", error)
                self.spoilt(view, partition)
                await self.close(view, partition)

    async def close_all(self) -> None:
        """Close what there is, but wait no longer than STOP for a disk that does not answer."""
        closing = [asyncio.create_task(self.close(*at)) for at in list(self._open)]
        if closing:
            _, late = await asyncio.wait(closing, timeout=STOP)
            if late:
                logger.warning(
                    "%d tables did not close in %.0f s: what is missing in them is read from the "
                    "changelog again", len(late), STOP,
                )  # fmt: skip
        self.store.close()
