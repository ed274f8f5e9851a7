"""What a replay log has of a view's input from before the first record that its topic still has."""

import asyncio
from dataclasses import replace

from aiokafka import TopicPartition
from sqlalchemy.exc import SQLAlchemyError

from stores.db.engines import open_engine
from stores.db.urls import UrlError, existing, read_url, said
from stores.replay import Query, ReplayError, ReplayLog
from topology.declaration.source import Source
from topology.model.event import Record
from topology.view_rebuild.history import Histories

_PAGE = 1_000


class CapturedHistory:
    """Reads a replay log for rebuilds of streams.

    Args:
        url: of the log's database, or `@FILE`.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    async def read(
        self, histories: Histories, source: Source, at: TopicPartition, first: int
    ) -> bool:
        """Hand on what came before an offset: of the input's own topic, if that was captured.

        Else, of a source that is not keyed, all that was captured of its topics. Whether that is
        all of a stream shows in its numbers, if it has any.

        Args:
            histories: of the streams that ask.
            source: of the view.
            at: its input.
            first: the first offset that is still there.

        Returns:
            Whether nothing of the input from before is missing.

        Raises:
            OSError: there is no such database, it does not answer, or its retention took a part
                while it was read.
        """
        try:
            return await self._read(histories, source, at, first)
        except (SQLAlchemyError, ReplayError, UrlError) as error:
            raise OSError(said(error)) from error

    async def _read(
        self, histories: Histories, source: Source, at: TopicPartition, first: int
    ) -> bool:
        engine = open_engine(existing(read_url(self._url)))
        try:
            log = ReplayLog(engine)
            captured = await asyncio.to_thread(log.positions, at.topic)
            own = bool(captured) or source.keyed
            ranges = {at.topic: {at.partition: (0, first)}}
            asked = Query((at.topic,), offsets=ranges) if own else Query(tuple(source.topics))
            left: Query | None = asked
            while left is not None:
                page = await asyncio.to_thread(log.page, left, _PAGE)
                for each in page.messages:
                    where = (each.topic, each.partition, each.offset)
                    record = Record(*where, each.key, each.value, each.headers, each.time)
                    (histories.message if own else histories.captured)(record)
                left = None if page.after is None else replace(asked, after=page.after)
            whole = own and captured.get(at.partition, 0) >= first
            return whole and not await asyncio.to_thread(log.holes, asked)
        finally:
            engine.dispose()
