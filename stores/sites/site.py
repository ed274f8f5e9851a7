"""A site: a Kafka cluster with a name, known by its cluster id, so that no alias makes two of it.

Two compacted topics at each site say what is known of the others: `sequitur-forwarded`, how far
the messages of each other site are copied here, and `sequitur-sites`, who was taken over, who
returned, and what was given up, by whom and why.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

import stores.kafka_records  # noqa: F401 – headers whose names are not UTF-8 are read
from stores.kafka_topics import create_own, partitions_there
from stores.sites.errors import SiteError
from stores.topic_id import topic_id
from stores.units.kafka.row_log import PATIENCE, read_to, reader, records_of
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

FORWARDED = "sequitur-forwarded"
SITES = "sequitur-sites"
LAST = "last"
"""Begins the key of a row of FORWARDED about the last copy; those of positions have none such."""
_SEGMENT = 4 << 20
_ANSWER = 15.0
"""Seconds after which a site is away."""


class Position(NamedTuple):
    """How far a partition of a site is copied: the offset there that is next, the topic's id."""

    next: int
    topic_id: str | None = None


class Last(NamedTuple):
    """The last record of a partition that was read for copying: its offset at the origin, and what
    tells it from another."""

    offset: int
    mark: str


class Extent(NamedTuple):
    """Where the log of a partition begins, and the end of what is committed in it.

    held: offsets behind that, which an open transaction holds back.
    """

    begin: int
    end: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class Site:
    """A site, by how it is reached.

    Attributes:
        name: for people.
        kafka: arguments of aiokafka's clients, `bootstrap_servers` among them.
        cluster: the cluster id that it must have, None: any.
        log: URL of the database of its replay log, None: it has none that is reachable.
    """

    name: str
    kafka: Mapping[str, Any] = field(repr=False)
    cluster: str | None = None
    log: str | None = field(default=None, repr=False)

    async def identify(self) -> str:
        """Ask for the cluster id.

        Raises:
            SiteError: it is another cluster than is written down.
            ConnectionError: it does not answer.
        """
        async with self.admin() as admin:
            found = str((await admin.describe_cluster())["cluster_id"])
        if self.cluster not in (None, found):
            raise SiteError(
                f"site {printable(self.name)} is cluster {printable(found)}, and {self.cluster} is"
                " written down: correct its broker, or its cluster"
            )
        return found

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """Work with a client that administers. Raises ConnectionError if it takes too long."""
        client = AIOKafkaAdminClient(**self.kafka)
        try:
            async with asyncio.timeout(_ANSWER):
                await client.start()
                yield client
        except TimeoutError:
            raise ConnectionError(f"site {printable(self.name)} does not answer") from None
        finally:
            await wait_for_stop(client.close())

    async def prepare(self) -> None:
        """Make the two topics if they are not there."""
        # A forwarder that starts reads all of them: what compaction leaves, and an open segment.
        configs = {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT)}
        async with self.admin() as admin:
            await create_own(admin, {FORWARDED: 1, SITES: 1}, configs)

    async def partitions(self, topic: str) -> int:
        """The number of a topic's partitions.

        Args:
            topic: which.

        Raises:
            SiteError: it is not there.
        """
        async with self.admin() as admin:
            (found,) = await admin.describe_topics([topic])
        if found["error_code"] or not found["partitions"]:
            raise SiteError(f"site {printable(self.name)} has no topic {topic}; make it there")
        return len(found["partitions"])

    async def topic_id(self, topic: str) -> str | None:
        """A topic's id; None: the broker does not tell it. Raises KafkaError.

        Args:
            topic: which.
        """
        async with self.admin() as admin:
            return await topic_id(admin._client, topic)

    async def extents(self, topic: str) -> dict[int, Extent]:
        """Where the partitions of a topic begin and end.

        Args:
            topic: which.

        Raises:
            SiteError: it is not there.
        """
        places = [TopicPartition(topic, each) for each in range(await self.partitions(topic))]
        # First: what is committed meanwhile was not held back.
        async with self.reader("read_uncommitted") as consumer:
            written = await consumer.end_offsets(places)
        async with self.reader() as consumer:
            begin = await consumer.beginning_offsets(places)
            ends = await consumer.end_offsets(places)
        return {
            at.partition: Extent(begin[at], ends[at], max(0, written[at] - ends[at]))
            for at in places
        }

    @asynccontextmanager
    async def reader(
        self, isolation_level: str = "read_committed"
    ) -> AsyncIterator[AIOKafkaConsumer]:
        """Work with a consumer without a group.

        Args:
            isolation_level: aiokafka's; it sees what is committed unless told else.
        """
        consumer = reader(self.kafka, isolation_level)
        try:
            async with asyncio.timeout(_ANSWER):
                await consumer.start()
        except TimeoutError:
            raise ConnectionError(f"site {printable(self.name)} does not answer") from None
        try:
            yield consumer
        finally:
            await wait_for_stop(consumer.stop())

    async def records(
        self, at: TopicPartition, low: int, high: int, isolation_level: str = "read_committed"
    ) -> AsyncIterator[Any]:
        """The records of a partition.

        Args:
            at: the topic and the partition.
            low: the first offset.
            high: the offset behind the last one.
            isolation_level: aiokafka's; what is committed unless told else.
        """
        if low >= high:
            return
        async with self.reader(isolation_level) as consumer:
            consumer.assign([at])
            consumer.seek(at, low)
            async for record in read_to(consumer, at, high, PATIENCE):
                if record.offset < high:
                    yield record

    async def rows(self, topic: str) -> dict[tuple[str | int, ...], Any]:
        """What a compacted topic of ours says: key → value; nothing if it is not there.

        Args:
            topic: FORWARDED or SITES.
        """
        async with self.admin() as admin:
            if not await partitions_there(admin, [topic]):
                return {}
        found: dict[tuple[str | int, ...], Any] = {}
        async for record in records_of(self.kafka, TopicPartition(topic, 0)):
            if (row := row_of(record)) is not None:
                found[row[0]] = row[1]
        return found

    async def positions(self) -> dict[tuple[str, str, int], Position]:
        """How far others are copied here: (cluster id, topic, partition) → position."""
        return positions_of(await self.rows(FORWARDED))


def progress_of(
    rows: Mapping[tuple[str | int, ...], Any], cluster: str, topic: str
) -> tuple[dict[int, Position], dict[int, Last]]:
    """What the rows of FORWARDED say of a topic of another site: positions, and last copies.

    Args:
        rows: all of them.
        cluster: the origin's cluster id.
        topic: which.
    """
    own = cluster, topic
    places = {key[2]: at for key, at in positions_of(rows).items() if key[:2] == own}
    last = {int(key[3]): Last(*row) for key, row in rows.items() if key[:3] == (LAST, *own)}
    return places, last


def positions_of(rows: Mapping[tuple[str | int, ...], Any]) -> dict[tuple[str, str, int], Position]:
    """The positions in the rows of FORWARDED: (cluster id, topic, partition) → position."""
    return {key: Position(*value) for key, value in rows.items() if len(key) == 3}  # type: ignore[misc]


def row_of(record: Any) -> tuple[tuple[str | int, ...], Any] | None:
    """The key and value of a record of such a topic; None if it is none of ours."""
    try:
        return tuple(orjson.loads(record.key)), orjson.loads(record.value)
    except (ValueError, TypeError):
        return None


def key_of(row: Sequence[str | int]) -> bytes:
    """The record key of a row."""
    return orjson.dumps(list(row))
