"""The views' tables on this worker: opened per partition, brought up to date from the changelog."""

import time
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from mode import get_logger

from stores.view_table import Store, TableError, ViewTable
from topology.faust.kafka import plain_consumer, read_range
from topology.view import View

logger = get_logger(__name__)


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
        tables = {view.name: self._table(view.name, partition) for view in views}
        consumer = plain_consumer(self.app, max_partition_fetch_bytes=8 << 20)
        await consumer.start()
        try:
            for view in views:
                changelog = TopicPartition(self.app.engine.changelogs[view.name], partition)
                await self._catch_up(consumer, tables[view.name], changelog)
        finally:
            await consumer.stop()
        return tables

    def _table(self, view: str, partition: int) -> ViewTable:
        at = view, partition
        table = self._open.get(at)
        if table is None:
            table = self._open[at] = self.store.table(view, partition)
        table.claim()
        if at in self._spoilt:
            table.clear()
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
            table.clear()
            offset = None
        elif offset is None:
            table.clear()
        start = first if offset is None else offset
        if start >= end:
            if offset is None:
                table.write([], end)
            return
        began, told, rows = time.monotonic(), time.monotonic(), 0
        async for records in read_range(consumer, changelog, start, end):
            if records:
                table.write(((r.key, r.value) for r in records), records[-1].offset + 1)
                rows += len(records)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                logger.info(
                    "restoring %s: %d rows, at offset %s of %d", changelog, rows, table.offset, end
                )
        table.write([], end)
        took = max(time.monotonic() - began, 1e-9)
        logger.info(
            "restored %s/%d: %d rows in %.1f s (%d rows/s)",
            changelog.topic, changelog.partition, rows, took, rows / took,
        )  # fmt: skip

    def close(self, view: str, partition: int) -> None:
        """Close a table; the next restore opens it anew."""
        table = self._open.pop((view, partition), None)
        if table is not None:
            try:
                table.close()
            except TableError as error:
                logger.warning("%s. What is missing is read from the changelog again", error)

    def discard(self, view: str, partition: int) -> None:
        """Empty a table that cannot be read; the next restore rebuilds it from the changelog."""
        table = self._open.get((view, partition))
        if table is not None:
            try:
                table.clear()
            except TableError as error:
                logger.warning("%s; it is emptied before it is used again", error)
                self._spoilt.add((view, partition))
                self.close(view, partition)

    def close_all(self) -> None:
        for view, partition in list(self._open):
            self.close(view, partition)
        self.store.close()
