"""Whether a topic here can be forwarded: it is the one that was copied, and goes on from there."""

from collections.abc import Mapping

from aiokafka import TopicPartition

from stores.sites.copy_writer import mark_of
from stores.sites.errors import SiteError
from stores.sites.site import FORWARDED, Extent, Last, Position, Site, progress_of
from stores.units.kafka.row_log import PATIENCE, read_to
from topology.model.printable import printable


async def standing_still(own: Site, peer: Site, topic: str) -> dict[int, str]:
    """Why partitions of a topic are not forwarded to another site: partition → reason.

    Args:
        own: the site where it was published; it answers.
        peer: the other one; it answers.
        topic: which.

    Raises:
        SiteError: the own site has no such topic.
        KafkaError, OSError, TimeoutError: a site does not answer.
    """
    positions, last = progress_of(await peer.rows(FORWARDED), await own.identify(), topic)
    here = await own.extents(topic)
    try:
        check_partitions(topic, len(here), peer, await peer.partitions(topic))
        check_topic(topic, await own.topic_id(topic), positions)
    except SiteError as error:
        return dict.fromkeys(here, str(error))
    return await reasons_to_stop(own, topic, here, positions, last)


async def reasons_to_stop(
    own: Site,
    topic: str,
    here: Mapping[int, Extent],
    positions: Mapping[int, Position],
    last: Mapping[int, Last],
) -> dict[int, str]:
    """Why partitions cannot be copied on: partition → reason.

    Args:
        own: the site where they were published.
        topic: theirs.
        here: where they begin and end there.
        positions: how far they are copied.
        last: the last copies.
    """
    found = await written_anew(own, topic, here, last)
    for number, extent in here.items():
        if reason := unreadable(positions.get(number, Position(0)).next, extent):
            found[number] = reason
    return found


def check_no_loop(own: Site, own_id: str, peer: Site, peer_id: str) -> None:
    """Raise SiteError if two sites are one."""
    if own_id == peer_id:
        raise SiteError(
            f"sites {printable(own.name)} and {printable(peer.name)} are the same cluster, "
            f"{printable(own_id)}: its messages would come back to it; remove one of them"
        )


def check_partitions(topic: str, here: int, peer: Site, there: int) -> None:
    """Raise SiteError if a topic has another number of partitions at another site."""
    if here != there:
        raise SiteError(
            f"{topic} has {here} partitions here and {there} at site {printable(peer.name)}: "
            "keys would be elsewhere; give it as many"
        )


def check_topic(topic: str, id: str | None, positions: Mapping[int, Position]) -> None:
    """Raise SiteError if a topic was made anew since it was copied."""
    for position in positions.values():
        if None not in (id, position.topic_id) and position.topic_id != id:
            raise SiteError(
                f"topic {topic} was deleted and made again: its id is {id}, and {position.topic_id}"
                " was copied; its offsets would be those of other messages: publish to a topic of"
                " another name"
            )


async def written_anew(
    own: Site, topic: str, here: Mapping[int, Extent], last: Mapping[int, Last]
) -> dict[int, str]:
    """Why partitions here are not the ones that were copied: partition → reason.

    A disk that was put back to an older state gives the offsets of what was copied to others.
    """
    found: dict[int, str] = {}
    if not last:
        return found
    async with own.reader("read_uncommitted") as consumer:
        for number, copied in sorted(last.items()):
            at, extent = TopicPartition(topic, number), here.get(number)
            if extent is None or not extent.begin <= copied.offset < extent.end:
                continue
            consumer.assign([at])
            consumer.seek(at, copied.offset)
            async for record in read_to(consumer, at, copied.offset + 1, PATIENCE):
                stamp = record.timestamp if record.timestamp >= 0 else None
                mark = mark_of(record.key, record.value, stamp)
                if record.offset == copied.offset and mark != copied.mark:
                    found[number] = (
                        f"offset {copied.offset} has another message than the one that is copied: "
                        "the log here was put back to an older state and went on from there; "
                        "publish to a topic of another name"
                    )
                break
    return found


def unreadable(position: int, extent: Extent) -> str | None:
    """Why a partition cannot be copied from a position on, None if it can. Pure."""
    if position < extent.begin:
        return (
            f"offsets {position} to {extent.begin - 1} were deleted before they were copied; fetch"
            " them from where they still are, or give them up: `sequitur sites accept-loss`"
        )
    if position > extent.end:
        return (
            f"{position} messages are copied and the log here ends at {extent.end}: it lost its "
            "end; publish to a topic of another name"
        )
    return None
