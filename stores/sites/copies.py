"""What a site has of another one: in its topic, and before that in its replay log."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NamedTuple

from aiokafka import TopicPartition

from stores.db.engines import open_engine
from stores.replay import CapturedMessage, Query, ReplayLog
from stores.sites.errors import SiteError
from stores.sites.origin import Headers, origin_of
from stores.sites.site import Site
from topology.model.printable import printable

_LOOK_BACK = 2_000
"""Records at the end of a topic among which the beginning of what is missing is looked for."""
_PAGE, _LOOK = 500, 10_000


class _Logged(NamedTuple):
    """A message of the log, as a record of its topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int

    @classmethod
    def of(cls, it: CapturedMessage) -> "_Logged":
        return cls(it.topic, it.partition, it.offset, it.key, it.value, it.headers, it.time)


async def copies_of(
    site: Site, cluster: str, where: tuple[str, int], low: int, high: int
) -> AsyncIterator[Any]:
    """The records that a site has of another one's partition, from one origin offset to another.

    They are looked for from the end: what is missing elsewhere came last. Transactions that are
    open there are waited for.

    Raises:
        SiteError: the site may have lost some of them to retention.
    """
    at = TopicPartition(*where)
    # Committed copies may lie behind somebody's open transaction.
    async with site.reader("read_uncommitted") as consumer:
        begin = (await consumer.beginning_offsets([at]))[at]
        end = (await consumer.end_offsets([at]))[at]
    start, back = end, _LOOK_BACK
    while start > begin:
        start, back = max(begin, end - back), back * 4
        first = await _first(site, at, start, end, cluster)
        if first is not None and first < low:
            break
    else:
        if begin > 0:
            async for each in _logged(site, cluster, at, low, begin):
                if _of(each, cluster) in range(low, high):
                    yield each
    async for record in site.records(at, start, end):
        if _of(record, cluster) in range(low, high):
            yield record


def _of(record: Any, cluster: str) -> int | None:
    """The origin offset of a copy of a site's, None for anything else."""
    origin = origin_of(record.headers, record.topic)
    return origin.offset if origin is not None and origin.cluster == cluster else None


async def _first(site: Site, at: TopicPartition, low: int, high: int, cluster: str) -> int | None:
    async for record in site.records(at, low, high):
        if (offset := _of(record, cluster)) is not None:
            return offset
    return None


async def _logged(
    site: Site, cluster: str, at: TopicPartition, low: int, begin: int
) -> AsyncIterator[_Logged]:
    """The copies that retention took from the topic, up to where it begins now."""
    gone = SiteError(
        f"site {printable(site.name)} may have deleted copies of {cluster}/{at.topic}/"
        f"{at.partition} from offset {low} on: its log begins at {begin}, and "
        + ("its replay log lacks some" if site.log else "the file names no replay log of it")
    )
    if site.log is None:
        raise gone
    log = ReplayLog(open_engine(site.log))
    try:
        offsets = {at.topic: {at.partition: (0, begin)}}
        query = Query((at.topic,), (cluster,), (at.partition,), offsets=offsets)
        since = await asyncio.to_thread(_before, log, query, low)
        if since is None or log.positions(at.topic).get(at.partition, 0) < begin:
            raise gone
        after: int | None = since.id
        offsets = {at.topic: {at.partition: (since.offset, begin)}}
        if log.holes(replace(query, offsets=offsets)):
            raise gone
        while after is not None:
            page = await asyncio.to_thread(log.page, replace(query, after=after), _PAGE)
            for each in page.messages:
                yield _Logged.of(each)
            after = page.after
    finally:
        log.engine.dispose()


def _before(log: ReplayLog, query: Query, low: int) -> CapturedMessage | None:
    """The last copy in the log before an origin offset, or a place in front of all there is."""
    found: CapturedMessage | None = None
    if low == 0:
        whole = log.page(replace(query, sites=()), 1, content=False).messages
        if whole and whole[0].offset == 0:
            found = replace(whole[0], id=0)
    after: int | None = 0
    while after is not None:
        page = log.page(replace(query, after=after), _LOOK, content=False)
        for each in page.messages:
            if int(each.origin.rsplit("/", 1)[1]) >= low:
                return found
            found = each
        after = page.after
    return found
