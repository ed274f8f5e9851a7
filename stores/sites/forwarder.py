"""Forwards what was published at this site to another one: each message once, in order."""

import asyncio
import logging
import time

from aiokafka import AIOKafkaConsumer, TopicPartition

from stores.sites.checks import check_no_loop, check_partitions, check_topic, reasons_to_stop
from stores.sites.copy_writer import SHUT_OUT, Copy, CopyWriter, last_of
from stores.sites.errors import AWAY, SiteError, SiteFenced
from stores.sites.fences import check_fence, topic_row
from stores.sites.origin import is_forwarded
from stores.sites.site import SITES, Extent, Last, Position, Site
from stores.topic_id import topic_id
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

_TELL = 1.0
"""Seconds after which a position is written that only copies and markers have moved."""
_PAUSE, _LONG = 2.0, 10.0
"""Seconds until the next attempt; the longer one where another writer must not be shut out."""
_REPEAT = 60.0
"""Seconds after which the same trouble is logged again, and what stands still is looked at."""


class Forwarder:
    """One topic's way from this site to another one.

    Args:
        own: this site.
        peer: the other one.
        topic: of both, with as many partitions.
        batch: the most messages of a transaction.
    """

    def __init__(self, own: Site, peer: Site, topic: str, *, batch: int = 500) -> None:
        self.own, self.peer, self.topic = own, peer, topic
        self.stuck: dict[int, str] = {}
        self.forwarded = 0
        """Messages, since it was made."""
        self.failing: str | None = "it has not begun"
        """Why nothing is forwarded."""
        self._batch = batch
        self._consumer: AIOKafkaConsumer | None = None
        self._writer: CopyWriter | None = None
        self._own_id = ""
        self._topic_id: str | None = None
        self._connections = frozenset[object]()
        self._written: dict[int, int] = {}
        self._last: dict[int, Last] = {}
        """The last records that were read since the last write, by partition."""
        self._told = 0.0

    def __str__(self) -> str:
        return f"{self.topic} to {printable(self.peer.name)}"

    async def start(self) -> None:
        """Begin where the peer says it is.

        Raises:
            SiteFenced: this site was taken over.
            SiteError: it cannot be forwarded as things are.
            KafkaError, OSError, TimeoutError: a site does not answer.
        """
        own, peer = await self.own.identify(), await self.peer.identify()
        self._own_id = own
        check_no_loop(self.own, own, self.peer, peer)
        numbers = await self.own.partitions(self.topic)
        there = await self.peer.partitions(self.topic)
        check_partitions(self.topic, numbers, self.peer, there)
        if (writer := self._writer) is None or writer.cluster != own:
            writer = self._writer = CopyWriter(self.peer, own, self.topic)
        # Before, so as not to shut out who takes this site over; and after, as that one fences
        # first and shuts out then.
        check_fence(await self.peer.rows(SITES), own, self.peer.name)
        await writer.start()
        check_fence(rows := await self.peer.rows(SITES), own, self.peer.name)
        about: dict[tuple[str | int, ...], str | bool] = {
            ("name", own): self.own.name,
            topic_row(own, self.topic): True,
        }
        if any(rows.get(key) != value for key, value in about.items()):
            await writer.write((), {}, about)
            # A takeover that did not see this yet has fenced before, and does not shut out.
            check_fence(await self.peer.rows(SITES), own, self.peer.name)
        consumer = self._consumer = AIOKafkaConsumer(
            **{"fetch_max_wait_ms": 50, **self.own.kafka},
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
        )
        await consumer.start()
        await consumer._client._wait_on_metadata(self.topic)
        self._connections = _connections(consumer)
        positions, last = await writer.progress()
        # After: who was shut out may have copied what came since it was looked first.
        here = await self.own.extents(self.topic)
        self._topic_id = await topic_id(consumer._client, self.topic)
        check_topic(self.topic, self._topic_id, positions)
        self.stuck = await reasons_to_stop(self.own, self.topic, here, positions, last)
        self._assign(consumer, here, {p: at.next for p, at in positions.items()})

    def _assign(
        self, consumer: AIOKafkaConsumer, here: dict[int, Extent], positions: dict[int, int]
    ) -> None:
        places = [TopicPartition(self.topic, each) for each in here if each not in self.stuck]
        if not places:
            raise SiteError("; ".join(f"partition {p}: {why}" for p, why in self.stuck.items()))
        consumer.assign(places)
        for at in places:
            consumer.seek(at, positions.get(at.partition, 0))
        self._last = {}
        self._written = {at.partition: positions.get(at.partition, -1) for at in places}
        self._told = _now()

    async def step(self, seconds: float) -> int:
        """Forward what is there, or comes within `seconds`; returns how many messages.

        Raises:
            SHUT_OUT: another forwarder of this site has started, or it was taken over.
            SiteError: it cannot go on as things are.
            KafkaError, OSError, TimeoutError: what is in doubt; start anew.
        """
        consumer, writer = self._consumer, self._writer
        assert consumer is not None
        assert writer is not None
        if len(consumer.partitions_for_topic(self.topic) or ()) != len(self._written) + len(
            self.stuck
        ):
            raise ConnectionError(f"{self.topic} has other partitions now")
        found = await consumer.getmany(timeout_ms=round(seconds * 1000), max_records=self._batch)
        before, self._connections = self._connections, _connections(consumer)
        if before - self._connections:
            # What was read may be of a disk that was put back: the start looks.
            raise ConnectionError(f"the connection to site {printable(self.own.name)} broke")
        copies = [
            Copy.of(record, self._own_id)
            for records in found.values()
            for record in records
            if is_forwarded(record.headers, record.value, self.topic)
        ]
        for at, records in found.items():
            # Of whatever is read: the position goes on over copies of others, too.
            self._last[at.partition] = last_of(records[-1])
        moved = {
            at.partition: Position(place, self._topic_id)
            for at in consumer.assignment()
            if (place := await consumer.position(at)) != self._written[at.partition]
        }
        if copies or (moved and _now() - self._told > _TELL):
            # After they were read: else they may be of a topic that was made since.
            now = {0: Position(0, self._topic_id)}
            check_topic(self.topic, await topic_id(consumer._client, self.topic), now)
            last, self._last = self._last, {}
            await writer.write(copies, moved, last=last)
            self.forwarded += len(copies)
            self._written |= {number: at.next for number, at in moved.items()}
            self._told = _now()
        return len(copies)

    async def stop(self) -> None:
        """Stop the clients, whatever state they are in."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await wait_for_stop(consumer.stop())
        if self._writer is not None:
            await self._writer.stop()

    async def run(self, stopped: asyncio.Event) -> None:
        """Forward until told to stop, whatever happens; log why it stands still."""
        told: tuple[str, float] | None = None
        while not stopped.is_set():
            seconds = _PAUSE
            try:
                await self.start()
                self.failing = None
                if told is None:
                    logger.info("%s: forwarding", self)
                for number, reason in self.stuck.items():
                    logger.error("%s: partition %d stands still: %s", self, number, reason)
                again = _now() + _REPEAT
                # What stands still may have been given up, which nothing tells it.
                while not stopped.is_set() and (not self.stuck or _now() < again):
                    if await self.step(0.5) and told is not None:
                        told = None
                        logger.info("%s: forwarding again", self)
                continue
            except SHUT_OUT:
                # It may be fenced, which its start finds out; or there are two of this forwarder.
                seconds, text = _LONG, "another one forwards this, or the site was taken over"
            except SiteFenced as error:
                text = str(error)
            except SiteError as error:
                seconds, text = _LONG, f"{printable(error, 400)}; trying again"
            except AWAY as error:
                text = f"{printable(error, 400)}; trying again"
            except Exception:  # one topic's trouble is not that of the others
                text = "a fault of ours; trying again"
                logger.exception("%s: %s", self, text)
            finally:
                await self.stop()
            self.failing = text
            if told is None or text != told[0] or _now() - told[1] > _REPEAT:
                told = text, _now()
                logger.warning("%s: %s", self, text)
            try:
                await asyncio.wait_for(stopped.wait(), seconds)
            except TimeoutError:
                continue


def _connections(consumer: AIOKafkaConsumer) -> frozenset[object]:
    return frozenset(consumer._client._conns.values())


def _now() -> float:
    return time.monotonic()
