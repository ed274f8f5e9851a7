"""A lost site: it is fenced, and what one of the others has of it is copied to all of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from stores.sites.copies import copies_of
from stores.sites.copy_writer import REFUSED, SHUT_OUT, Copy, CopyWriter
from stores.sites.errors import SiteError
from stores.sites.fences import Fence, Rows, clusters_named, decide, topics_begun
from stores.sites.lag import Behind, between
from stores.sites.losses import given_up
from stores.sites.origin import passed
from stores.sites.site import SITES, Last, Position, Site
from topology.model.printable import printable

_BATCH = 500
_ATTEMPTS, _PAUSE = 3, 1.0


async def cluster_of(lost: Site, others: Iterable[Site]) -> str:
    """The cluster id of a site that may not answer: as written down, else as others know it.

    Raises:
        SiteError: nobody knows it, or several have forwarded under its name.
    """
    if lost.cluster is not None:
        return lost.cluster
    known: set[str] = set()
    for site in others:
        known |= clusters_named(await site.rows(SITES), lost.name)
    if len(known) != 1:
        why = "several clusters have forwarded" if known else "nothing was ever forwarded"
        raise SiteError(
            f"{why} under the name {printable(lost.name)}: write its cluster id into the file, "
            "cluster = …"
        )
    return known.pop()


async def survey(lost: str, cluster: str, sites: Sequence[Site]) -> list[Behind]:
    """What each of these sites lacks of a site that does not answer, and another one has."""
    by_name = {site.name: site for site in sites}
    copied = {site.name: await site.positions() for site in sites}
    found = []
    for where, places in between(cluster, copied).items():
        ahead = max(places, key=lambda name: places[name].next)
        high = places[ahead].next
        for name, at in places.items():
            if at.next < high:
                rest = copies_of(by_name[ahead], cluster, where, at.next, high)
                count = 0
                async for _ in rest:
                    count += 1
                found.append(Behind(lost, name, *where, at.next, high, count))
    return found


async def take_over(
    lost: str,
    cluster: str,
    sites: Sequence[Site],
    topics: Iterable[str],
    fence: Fence,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Fence a lost site at the others, and copy what one of these has of it to all of them.

    Killed at any moment, it can be run again with the same epoch: nothing comes twice.

    Args:
        lost: its name.
        cluster: its cluster id.
        sites: the others.
        topics: which are forwarded; those that it has begun to forward count, too.
        fence: what is written down.
        say: is told of each partition that is made equal.

    Returns:
        How many messages were copied.

    Raises:
        SiteError: the epoch is not above the last one; a message is nowhere any more.
        KafkaError, OSError, TimeoutError: a site does not answer; run it again.
    """
    for site in sites:
        await decide(site, cluster, fence)
    copied = {site.name: await site.positions() for site in sites}
    known = {where[0] for where in between(cluster, copied)}
    for site in sites:  # after the decision: who begins now finds it
        known |= topics_begun(await site.rows(SITES), cluster)
    total, wrong = 0, list[SiteError]()
    for topic in sorted({*topics} | known):
        try:
            total += await _topic(lost, cluster, sites, topic, say)
        except SiteError as error:  # one topic's trouble is not that of the others
            wrong.append(error)
    if wrong:
        text = "; ".join(map(str, wrong))
        raise SiteError(f"{text}; then run the takeover again with the same epoch") from wrong[0]
    return total


async def _topic(
    lost: str, cluster: str, sites: Sequence[Site], topic: str, say: Callable[[str], None]
) -> int:
    writers = {site.name: CopyWriter(site, cluster, topic) for site in sites}
    left = _ATTEMPTS
    while True:
        try:
            for writer in writers.values():
                await writer.start()  # its forwarder, wherever it runs, writes nothing more
            return await _equalise(lost, cluster, topic, writers, say)
        except REFUSED:
            continue  # each is sent alone now, until the one is named that is not taken
        except SHUT_OUT as error:  # by a forwarder that finds the fence next, or by a takeover
            if not (left := left - 1):
                what = f"another takeover of {printable(lost)} writes {topic} as well: let it end"
                raise SiteError(what) from error
            await asyncio.sleep(_PAUSE)
        finally:
            for writer in writers.values():
                await writer.stop()


async def _equalise(
    lost: str,
    cluster: str,
    topic: str,
    writers: Mapping[str, CopyWriter],
    say: Callable[[str], None],
) -> int:
    found = {name: await writer.progress() for name, writer in writers.items()}
    places = {name: positions for name, (positions, _) in found.items()}
    marks = {name: last for name, (_, last) in found.items()}
    ids = {name: await writer.target.identify() for name, writer in writers.items()}
    total = 0
    for number in sorted({number for at in places.values() for number in at}):
        at = {name: each.get(number, Position(0)) for name, each in places.items()}
        ahead = max(at, key=lambda name: at[name].next)
        for name, place in at.items():
            if place.next < (goal := at[ahead]).next:
                source, target = writers[ahead].target, writers[name].target
                if number >= (there := await target.partitions(topic)):
                    raise SiteError(
                        f"{topic} has {there} partitions at site {printable(name)}, and {ahead} has"
                        f" messages of {lost} for partition {number}: give it as many"
                    )
                if place.next and len({place.topic_id, goal.topic_id} - {None}) > 1:
                    raise SiteError(
                        f"{topic} was deleted and made again at {lost}: {name} and {ahead} have "
                        "messages of different ones, which cannot be put together"
                    )
                records = copies_of(source, cluster, (topic, number), place.next, goal.next)
                span = number, place.next, goal.next
                gone = given_up(await source.rows(SITES), cluster, topic, *span)
                until = goal, marks[ahead].get(number)
                sent = await _copy(
                    records, writers[name], number, ids[ahead], ids[name], until, gone
                )
                say(f"{name}: {sent} of {lost}'s {topic}/{number}, which {ahead} had")
                total += sent
    return total


async def _copy(
    records: AsyncIterator[Any],
    writer: CopyWriter,
    number: int,
    by: str,
    to: str,
    until: tuple[Position, Last | None],
    gone: Rows,
) -> int:
    goal, last = until
    total, batch = 0, list[Copy]()
    async for record in records:
        copy = Copy.of(record, by)
        if to != copy.origin.cluster and to not in passed(record.headers):
            batch.append(copy)
        if len(batch) == _BATCH:
            behind = Position(copy.origin.offset + 1, goal.topic_id)
            await writer.write(batch, {number: behind}, gone)
            total, batch = total + len(batch), []
    # By that of the site that was ahead: the origin may be put back to before it.
    await writer.write(batch, {number: goal}, gone, {} if last is None else {number: last})
    return total + len(batch)
