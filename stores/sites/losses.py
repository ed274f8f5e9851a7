"""Giving up what retention deleted before it was copied: on record, by whom and why."""

import time
from typing import Any

from stores.sites.copy_writer import SHUT_OUT, CopyWriter
from stores.sites.fences import Rows, check_fence
from stores.sites.site import SITES, Position, Site

_ATTEMPTS = 5
Range = tuple[int, int, int]
"""A partition, and the first and last of its offsets."""


def given_up(rows: Rows, cluster: str, topic: str, number: int, low: int, high: int) -> Rows:
    """The rows of what is given up in a partition from one offset to another, cut to these. Pure.

    Args:
        rows: those of SITES, at a site.
        cluster: the origin's cluster id.
        topic: which.
        number: the partition.
        low: the first offset.
        high: the offset behind the last one.
    """
    where, found = ("loss", cluster, topic, number), dict[tuple[str | int, ...], Any]()
    for key, said in rows.items():
        if key[:4] == where:
            first, last = max(int(key[4]), low), min(int(key[5]), high - 1)
            if first <= last:
                found[*where, first, last] = said
    return found


async def deleted(own: Site, peer: Site, topic: str) -> list[Range]:
    """What this site's retention deleted before it was copied to a peer."""
    cluster, positions = await own.identify(), await peer.positions()
    found = []
    for number, extent in sorted((await own.extents(topic)).items()):
        position = positions.get((cluster, topic, number), Position(0))
        if position.next < extent.begin:
            found.append((number, position.next, extent.begin - 1))
    return found


async def accept_loss(own: Site, peer: Site, topic: str, by: str, reason: str) -> list[Range]:
    """Let a peer go on behind what is deleted. Its forwarder starts again by itself.

    Args:
        own: this site.
        peer: which lacks it.
        topic: of both.
        by: who gives it up.
        reason: why.

    Raises:
        SiteFenced: this site was taken over.
    """
    cluster = await own.identify()
    check_fence(await peer.rows(SITES), cluster, peer.name)
    for attempt in range(_ATTEMPTS):
        writer = CopyWriter(peer, cluster, topic)
        try:
            await writer.start()
            before = await writer.positions()
            ranges = await deleted(own, peer, topic)
            known = [each.topic_id for each in before.values() if each.topic_id is not None]
            id = known[0] if known else await own.topic_id(topic)
            places = {number: Position(last + 1, id) for number, _, last in ranges}
            said = {"by": by, "reason": reason, "at": time.time()}
            rows: Rows = {("loss", cluster, topic, *each): said for each in ranges}
            await writer.write((), places, rows)
            break
        except SHUT_OUT:  # by the forwarder, which has started again
            if attempt == _ATTEMPTS - 1:
                raise
        finally:
            await writer.stop()
    return ranges
