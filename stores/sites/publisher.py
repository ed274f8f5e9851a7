"""Publishes at this site, and waits until a second site has it where that is asked for."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Literal

from aiokafka import AIOKafkaProducer, TopicPartition

from stores.sites.checks import written_anew
from stores.sites.errors import AWAY, NotCopied, SiteError
from stores.sites.heard import Heard
from stores.sites.origin import Headers, Origin
from stores.sites.site import FORWARDED, SITES, Position, Site, progress_of, row_of
from stores.topic_id import topic_id
from stores.units.kafka.row_log import PATIENCE, read_to
from topology.model.ending import end_tasks, wait_for_stop

logger = logging.getLogger(__name__)

_AGAIN = 0.5
"""Seconds until the own broker is asked again."""
_HEAR = 5.0
"""Seconds for which a start waits to hear from peers what they have."""


class SitePublisher:
    """Publishes at this site.

    Args:
        own: this site.
        peers: the others; with `copies=1` their positions are followed.
        copies: 0: a message is acknowledged when the own broker has it, and a site that is lost
            loses what was not forwarded. 1: when one of the peers has it too.
        timeout: seconds after which a message is not acknowledged.
    """

    def __init__(
        self, own: Site, peers: Sequence[Site], *, copies: Literal[0, 1] = 0, timeout: float = 30.0
    ) -> None:
        self.own, self.peers, self.copies, self.timeout = own, tuple(peers), copies, timeout
        self._cluster = ""
        self._producer: AIOKafkaProducer | None = None
        self._followers: list[asyncio.Task[None]] = []
        self._heard = Heard(peer.name for peer in self.peers)
        self._caught_up = {peer.name: asyncio.Event() for peer in self.peers}
        self._ids: dict[str, tuple[int, str | None]] = {}
        self._asking, self._numbers = asyncio.Lock(), count()
        self._topics: set[str] = set()

    async def start(self) -> None:
        """Connect. Raises KafkaError, OSError: this site does not answer; a peer may be away."""
        self._cluster = await self.own.identify()
        producer = self._producer = AIOKafkaProducer(**self.own.kafka, enable_idempotence=True)
        await producer.start()
        if self.copies:
            self._followers = [asyncio.create_task(self._follow(peer)) for peer in self.peers]
            with suppress(TimeoutError):
                async with asyncio.timeout(_HEAR):
                    await asyncio.gather(*(each.wait() for each in self._caught_up.values()))

    async def stop(self) -> None:
        """Disconnect; whoever waits for a message gets NotCopied when its time is up."""
        await end_tasks(*self._followers)
        producer, self._producer = self._producer, None
        if producer is not None:
            await wait_for_stop(producer.stop())

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> Origin:
        """Publish a message. Several at once keep the order in which they are called.

        Args:
            topic: which.
            value: the content.
            key: by which the partition is chosen, unless one is given.
            partition: which, None: by the key.
            headers: names and bytes.
            timestamp: ms since 1970, None: now.

        Returns:
            Where it is: its origin, at all sites.

        Raises:
            NotCopied: the own broker has it, and no peer in time; wait again with `copied`.
            GivenUp: it was deleted before a peer had it, and given up.
            KafkaError, TimeoutError: the own broker may have it or not.
        """
        assert self._producer is not None
        before = self._heard.highest(topic)
        sending = await self._producer.send(
            topic, value, key, partition, timestamp, list(headers) or None
        )
        async with asyncio.timeout(self.timeout):
            done = await sending
        sent = Origin(self._cluster, topic, done.partition, done.offset)
        self._topics.add(topic)
        if self.copies:
            await self._copied(sent, before.get(sent.partition))
        return sent

    async def copied(self, sent: Origin) -> None:
        """Wait until a peer has a message.

        Args:
            sent: what `send` returned, or NotCopied has.

        Raises:
            NotCopied: none has it after `timeout` seconds.
            GivenUp: none will ever have it.
        """
        await self._copied(sent, None)

    async def _copied(self, sent: Origin, before: Position | None) -> None:
        id: str | None = None
        try:
            async with asyncio.timeout(self.timeout):
                id = await self._id_of(sent.topic)
                if self._heard.is_put_back(sent, id, before):
                    raise _put_back(sent)
                await self._heard.copied(sent, id)
        except TimeoutError:
            if self._heard.is_put_back(sent, id, None):  # as a peer said meanwhile
                raise _put_back(sent) from None
            remedy = "it goes there when a forwarder can; do not send it again, wait for it"
            if self._heard.is_anew(sent, id):
                remedy = (
                    "its topic was deleted and made again, and is not forwarded any more: publish "
                    "to a topic of another name"
                )
            raise NotCopied(
                f"message {sent} is here, and no other site has it after {self.timeout:g} s: "
                + remedy,
                sent,
            ) from None

    async def _id_of(self, topic: str) -> str | None:
        """The id of a topic that has a message, asked for after this call; one asks for many."""
        called = next(self._numbers)
        while True:
            try:
                async with self._asking:
                    asked, id = self._ids.get(topic, (-1, None))
                    if asked < called:
                        assert self._producer is not None
                        asked = next(self._numbers)
                        id = await topic_id(self._producer.client, topic)
                        self._ids[topic] = asked, id
                    return id
            except AWAY as error:
                logger.warning("topic %s: its id is not known: %r; trying again", topic, error)
                await asyncio.sleep(_AGAIN)

    async def _follow(self, peer: Site) -> None:
        """Hear from a peer how far this site is copied there, whatever happens to it."""
        while True:
            try:
                await peer.prepare()
                at, losses = TopicPartition(FORWARDED, 0), TopicPartition(SITES, 0)
                # A loss is true before it is committed; its position counts only then.
                async with peer.reader() as reader, peer.reader("read_uncommitted") as others:
                    reader.assign([at])
                    others.assign([losses])
                    await reader.seek_to_beginning(at)
                    await others.seek_to_beginning(losses)
                    known = (await reader.end_offsets([at]))[at]
                    while True:
                        if found := (await reader.getmany(at, timeout_ms=1000)).get(at):
                            end = (await others.end_offsets([losses]))[losses]
                            async for record in read_to(others, losses, end, PATIENCE):
                                self._hear(peer, row_of(record))
                            if not self._caught_up[peer.name].is_set():
                                await self._look_back(peer)
                            for record in found:
                                self._hear(peer, row_of(record))
                        if await reader.position(at) >= known:
                            self._caught_up[peer.name].set()
            except AWAY as error:
                logger.warning("site %s cannot be followed: %r; trying again", peer.name, error)
                await asyncio.sleep(1)

    async def _look_back(self, peer: Site) -> None:
        """Before a peer is heard for the first time: what it has at offsets of what was sent by now
        may be of a log that was put back since. Whoever sends later knows of the peer before: when
        this returns, nothing was sent that it did not look at."""
        looked: set[str] = set()
        while topics := self._topics - looked:
            rows = await peer.rows(FORWARDED)
            for topic in sorted(topics):
                positions, last = progress_of(rows, self._cluster, topic)
                try:
                    here = await self.own.extents(topic)
                except SiteError:  # it is not there any more
                    continue
                others = set(await written_anew(self.own, topic, here, last))
                others |= {
                    number
                    for number, at in positions.items()
                    if number in here and at.next > here[number].end
                }
                for number in others:
                    self._heard.put_back((topic, number))
            looked |= topics

    def _hear(self, peer: Site, row: object) -> None:
        match row:
            case (self._cluster, str(topic), int(number)), [int(place), *rest]:
                id = rest[0] if rest and isinstance(rest[0], str) else None
                self._heard.position(peer.name, (topic, number), Position(place, id))
            case ("loss", self._cluster, str(topic), int(number), int(first), int(last)), _:
                self._heard.loss(peer.name, (topic, number), first, last)


def _put_back(sent: Origin) -> NotCopied:
    return NotCopied(
        f"message {sent} is here, and no other site takes it: others have another message of that"
        " offset, as the log here was put back to an older state; publish to a topic of another"
        " name",
        sent,
    )
